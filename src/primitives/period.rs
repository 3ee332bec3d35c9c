//! Work that is due once in a while, and done by one of many.
//!
//! When it last began is noted at `{namespace}/!began/{name}`, with its period. All notes of a
//! namespace are in one directory, so that those of periods that are over are found and deleted.

mod tidy;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    backend::{Write, name::Queue},
    error::{Error, Result},
    primitives::{guard::LockGuard, mutex::Mutex},
    runtime::clock,
};

/// How much of a period has to be over: hosts' clocks differ, and timers are late now and then.
const DUE: f64 = 0.9;

/// The shortest period: what hosts' clocks differ by must not matter.
const SHORTEST: Duration = Duration::from_millis(100);

impl LockGuard {
    /// Claims the period for this lock's work; `false` if the work began in it already.
    ///
    /// If several hosts start a job by their clocks at the same time, the first host to acquire the
    /// lock claims the period and does the work. The other hosts get `false`. The work is due again
    /// after nine tenths of the period.
    ///
    /// The store keeps the time of the claim, by the clock of the host that made it, in
    /// `{namespace}/!began/{name}`. That note is written only while the lock is held. A time that
    /// lies a period or more ahead of this host's clock is ignored. A note is of no use after two
    /// periods. Clients that write a note also delete old notes from time to time, under the lock.
    ///
    /// Work that failed keeps the period claimed until [`clear_period`](Self::clear_period).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] before anything is sent if the period is shorter than 100 ms.
    /// Otherwise as [`write`](Self::write): [`Error::WriteUnconfirmed`] means that it may have been
    /// noted.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write): it may have been noted.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-claim-period").await?;
    /// let (report, hour) = (client.mutex("report"), Duration::from_secs(3600));
    /// let guard = report.lock().await?;
    /// assert!(guard.claim_period(hour).await?);
    /// guard.unlock().await?;
    /// assert!(!report.lock().await?.claim_period(hour).await?);
    /// # Ok(()) }
    /// ```
    pub async fn claim_period(&self, period: Duration) -> Result<bool> {
        self.claim_period_at(period, clock::wall()).await
    }

    /// Claims the period that a scheduled time lies in.
    ///
    /// It is [`claim_period`](Self::claim_period) for a job that waited for its lock. The time for
    /// which the job was scheduled counts, and not the time of the grant. A host that waited for
    /// the lock while another host did the job does not take its late grant for the next period.
    /// The time that a busy host needs to acquire the lock does not add up.
    ///
    /// # Errors
    ///
    /// As [`claim_period`](Self::claim_period).
    ///
    /// # Cancel safety
    ///
    /// As [`claim_period`](Self::claim_period).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-claim-period-at").await?;
    /// let scheduled_at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    /// let guard = client.mutex("report").lock().await?; // however long that takes
    /// assert!(guard.claim_period_at(Duration::from_secs(3600), scheduled_at).await?);
    /// # guard.unlock().await }
    /// ```
    pub async fn claim_period_at(
        &self,
        period: Duration,
        scheduled_at: SystemTime,
    ) -> Result<bool> {
        if period < SHORTEST {
            return Err(Error::invalid(
                "period",
                "must be at least 100 ms, because the clocks of hosts differ",
            ));
        }
        let (key, now) = (note_of(&self.held.queue), now());
        let (began, fired) = (self.read(&key).await?, since_epoch(scheduled_at));
        if began.is_some_and(|began| !is_due(&began, fired, now, period)) {
            return Ok(false);
        }
        let value = format!("{} {}", fired.as_millis(), period.as_millis()).into_bytes();
        self.commit(&[Write::Put { key, value }]).await?;
        tidy::now_and_then(&self.held.session, &self.held.queue);
        Ok(true)
    }

    /// Forgets when this lock's work last began, so that the work is due at once, for example after
    /// a failure. Returns when the work began, or `None` if that was not recorded.
    ///
    /// Without this call work is never done twice in a period. The note is read and deleted under
    /// the lock, so no other run can replace it in between. It is of a run that began before this
    /// guard was granted, or of this guard's own run.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). After [`Error::WriteUnconfirmed`] unlock and lock again before
    /// the next [`claim_period`](Self::claim_period): what is still under way is refused then.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write): the note may have been deleted.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-clear-period").await?;
    /// let (report, day) = (client.mutex("report"), Duration::from_secs(24 * 3600));
    /// let failed = report.run_once_per(day, async |_| Err::<(), _>("disk full")).await?;
    /// assert_eq!(failed, Some(Err("disk full")));
    /// assert!(report.run_once_per(day, async |_| ()).await?.is_none(), "it has begun today");
    ///
    /// let guard = report.lock().await?;
    /// assert!(guard.clear_period().await?.is_some());
    /// guard.unlock().await?;
    /// assert!(report.run_once_per(day, async |_| ()).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn clear_period(&self) -> Result<Option<SystemTime>> {
        let key = note_of(&self.held.queue);
        let Some(note) = self.read(&key).await? else { return Ok(None) };
        self.commit(&[Write::Delete { key }]).await?;
        let (began, _) = read_note(&note).unwrap_or_default();
        Ok(Some(UNIX_EPOCH + began))
    }
}

/// The key of what is noted of a lock's work.
fn note_of(queue: &Queue) -> String {
    format!("{}/{}", Queue::periods(queue.namespace()).dir(), queue.escaped())
}

/// What the wall's clock shows.
fn now() -> Duration {
    since_epoch(clock::wall())
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// When the work began, and how long its period is: milliseconds, the former of the wall's clock.
fn read_note(note: &[u8]) -> Option<(Duration, Duration)> {
    let (began, period) = std::str::from_utf8(note).ok()?.split_once(' ')?;
    let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
    Some((millis(began)?, millis(period)?))
}

/// Returns `true` if the recorded work is due again for a run that was fired at this time. A
/// malformed record is no reason to wait.
fn is_due(note: &[u8], fired: Duration, now: Duration, period: Duration) -> bool {
    let Some((began, _)) = read_note(note) else { return true };
    let due = period.mul_f64(DUE);
    // No clock that is of use is so far ahead.
    fired >= began.saturating_add(due) || began >= now.saturating_add(due)
}

impl Mutex {
    /// Locks, claims the period, runs `work` and unlocks; `None` if it was not due.
    ///
    /// For jobs that a timer starts on several hosts: see [`LockGuard::claim_period`]. The period
    /// counts from the beginning of the work, even if the work fails or the lock is lost.
    /// [`LockGuard::clear_period`] makes the work due again.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run) and [`LockGuard::claim_period`].
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-once-per").await?;
    /// let (report, hour) = (client.mutex("nightly-report"), Duration::from_secs(3600));
    /// assert_eq!(report.run_once_per(hour, async |_guard| "written").await?, Some("written"));
    /// assert_eq!(report.run_once_per(hour, async |_guard| "written again").await?, None);
    /// # Ok(()) }
    /// ```
    pub async fn run_once_per<T>(
        &self,
        period: Duration,
        work: impl AsyncFnOnce(&LockGuard) -> T,
    ) -> Result<Option<T>> {
        self.named.must_queue("guarded writes")?;
        let fired = clock::wall();
        let guard = self.lock().await?;
        if !guard.claim_period_at(period, fired).await? {
            return guard.end_with(Ok(None)).await;
        }
        let done = guard.run(work(&guard)).await;
        guard.end_with(done.map(Some)).await
    }

    /// Locks, claims the period, runs fallible `work` and unlocks.
    ///
    /// It is [`run_once_per`](Self::run_once_per) in one `Result`.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run_once_per`](Self::run_once_per), converted. Work
    /// that failed keeps the period claimed.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-once-per").await?;
    /// let (report, hour) = (client.mutex("nightly-report"), Duration::from_secs(3600));
    /// let work = async |guard: &distlock::LockGuard| guard.put("/app/report", "written").await;
    /// assert!(report.try_run_once_per(hour, work).await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn try_run_once_per<T, E: From<Error>>(
        &self,
        period: Duration,
        work: impl AsyncFnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.run_once_per(period, work).await?.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_due_after_nine_tenths() {
        let (now, period) = (Duration::from_millis(1_000_000), Duration::from_millis(1_000));
        for (began, due) in [
            ("1000000", false),
            ("999101", false),
            ("999100", true),
            ("0", true),
            // Of a host whose clock is ahead, and of one whose clock is nonsense.
            ("1000899", false),
            ("1000900", true),
            ("9000000", true),
            ("", true),
            ("soon", true),
        ] {
            let note = format!("{began} 1000");
            assert_eq!(is_due(note.as_bytes(), now, now, period), due, "{began}");
        }
    }

    #[test]
    fn one_that_has_waited_counts_from_when_it_was_fired() {
        let millis = Duration::from_millis;
        let due = |fired, now| is_due(b"100000 1000", millis(fired), millis(now), millis(1_000));
        // It waited while the work was done, and while that of later periods was.
        assert!(!due(100_020, 100_990));
        assert!(!due(98_000, 100_990));
        assert!(due(100_900, 100_900));
    }
}
