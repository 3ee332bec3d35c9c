//! Work that runs once per period, on one of several hosts.
//!
//! The key `{namespace}/!began/{name}` holds a note of when the work last began, and of its period,
//! or of a longer one if the work began late. All notes of a namespace are in one directory, so
//! that obsolete ones can be found and deleted.

mod tidy;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    backend::{Write, name::Queue},
    error::{Error, Result},
    primitives::{closure, guard::LockGuard, mutex::Mutex},
    runtime::clock,
};

/// The part of a period after which work is due again. Clocks of hosts differ, and timers can be
/// late.
const DUE: f64 = 0.9;

/// The shortest period. A shorter one would depend on the differences between the clocks of hosts.
const SHORTEST: Duration = Duration::from_millis(100);

impl LockGuard {
    /// Claims the period for this lock's work; `false` if it is already claimed.
    ///
    /// If several hosts start a job at the same time, the first host to acquire the lock claims the
    /// period and does the work. The other hosts get `false`. The work is due again after nine
    /// tenths of the period.
    ///
    /// The store keeps the time of the claim in a record. For a mutex, the record's key is
    /// `{namespace}/!began/{name}`; for a write lock, `!rw` is appended to this key, and for a
    /// leadership, `!election`. The time is taken from the clock of the host that made the claim.
    /// The record is written only while the lock is held. A recorded time that is nine tenths of
    /// the period or more ahead of this host's clock is ignored.
    ///
    /// A mutex's record is obsolete two periods after the claim, or after the recorded time if that
    /// is later. From time to time, a client that writes a record also deletes obsolete records of
    /// mutexes, each while it holds that mutex. Other records are not deleted.
    ///
    /// If the work fails, the period stays claimed. To run the work again in the same period, call
    /// [`clear_period`](Self::clear_period).
    ///
    /// Claim periods with a mutex, a write lock or a leadership. Several readers or permit holders
    /// could all claim the same period.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the period is shorter than 100 ms, before anything is sent.
    /// Otherwise as [`get`](Self::get) and [`write`](Self::write). After
    /// [`Error::WriteUnconfirmed`], the period may have been claimed.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write). A dropped call may have claimed the period.
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

    /// Claims the period that begins at a scheduled time.
    ///
    /// This method works like [`claim_period`](Self::claim_period), but uses the time for which the
    /// job was scheduled, not the time of the call. A host that waited for the lock while another
    /// host did the job therefore does not claim the next period. Delays in acquiring the lock do
    /// not accumulate.
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
        check(period)?;
        let (key, now) = (note_of(&self.held.queue), now());
        let (began, fired) = (self.read(&key).await?, since_epoch(scheduled_at));
        if began.is_some_and(|began| !is_due(&began, fired, now, period)) {
            return Ok(false);
        }
        let value = write_note(fired, now, period);
        self.commit(&[Write::Put { key, value }]).await?;
        tidy::now_and_then(&self.held.session, &self.held.queue);
        Ok(true)
    }

    /// Makes this lock's work due at once, for example after a failure.
    ///
    /// The call deletes the record of the last run, and returns the time in the record: when that
    /// run began, or the time for which it was scheduled. The result is `None` if there was no
    /// record.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get) and [`write`](Self::write). After [`Error::WriteUnconfirmed`], unlock
    /// and lock again before the next [`claim_period`](Self::claim_period). The store then refuses
    /// a delete that is still under way.
    ///
    /// # Cancel safety
    ///
    /// As [`write`](Self::write). The record may have been deleted.
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
        Ok(UNIX_EPOCH.checked_add(began))
    }
}

/// Checks that the period is not too short.
fn check(period: Duration) -> Result<()> {
    if period < SHORTEST {
        let reason = "must be at least 100 ms, because the clocks of hosts differ";
        return Err(Error::invalid("period", reason));
    }
    Ok(())
}

/// Returns the key of a lock's note.
fn note_of(queue: &Queue) -> String {
    format!("{}/{}", Queue::periods(queue.namespace()).dir(), queue.escaped())
}

/// Returns the wall clock's time since the Unix epoch.
fn now() -> Duration {
    since_epoch(clock::wall())
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the note of a run that was scheduled at `fired`, as [`read_note`] parses it.
///
/// Other hosts may be late for the same run, too. The longer period of a late run's note keeps the
/// note for two periods from now.
fn write_note(fired: Duration, now: Duration, period: Duration) -> Vec<u8> {
    let kept = period.saturating_add(now.saturating_sub(fired) / tidy::KEPT);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    format!("{} {}", millis(fired), millis(kept)).into_bytes()
}

/// Parses a note: when the work began by the wall clock, and its period, both in milliseconds.
fn read_note(note: &[u8]) -> Option<(Duration, Duration)> {
    let (began, period) = std::str::from_utf8(note).ok()?.split_once(' ')?;
    let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
    Some((millis(began)?, millis(period)?))
}

/// Returns `true` if the noted work is due for a run that was scheduled at `fired`. A malformed
/// note is ignored.
fn is_due(note: &[u8], fired: Duration, now: Duration, period: Duration) -> bool {
    let Some((began, _)) = read_note(note) else { return true };
    let due = period.mul_f64(DUE);
    // A clock that is so far ahead is wrong.
    fired >= began.saturating_add(due) || began >= now.saturating_add(due)
}

impl Mutex {
    /// Acquires the lock, claims the period, runs `work`, and unlocks.
    ///
    /// This method returns `None` if the work was not due.
    ///
    /// Use this method for jobs that a timer starts on several hosts: see
    /// [`LockGuard::claim_period`]. The period begins with this call, even if the work fails or the
    /// lock is lost while the work runs. The work is due again after nine tenths of the period.
    /// [`LockGuard::clear_period`] makes the work due at once.
    ///
    /// While another host runs the work, the call waits for the lock. To skip the work instead,
    /// call [`try_lock`](Self::try_lock) and then [`LockGuard::claim_period`]. For calendar times,
    /// pass the scheduled time to [`LockGuard::claim_period_at`].
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the period is shorter than 100 ms, before anything is sent.
    /// Otherwise as [`run`](Self::run) and [`LockGuard::claim_period`].
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run). The period may have been claimed.
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
        check(period)?;
        let fired = clock::wall();
        let guard = self.lock().await?;
        if !guard.claim_period_at(period, fired).await? {
            return closure::end(guard, None).await;
        }
        closure::run(guard, work).await.map(Some)
    }

    /// Acquires the lock, claims the period, runs fallible `work`, and unlocks.
    ///
    /// This method works like [`run_once_per`](Self::run_once_per), but returns a single `Result`.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run_once_per`](Self::run_once_per), converted to
    /// `E`. If the work fails, the period stays claimed.
    ///
    /// # Cancel safety
    ///
    /// As [`run_once_per`](Self::run_once_per).
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
            // The clock of the other host is ahead, and then wrong.
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

    /// A period of this length means that the work is done only once.
    #[test]
    fn work_with_longest_period_is_done_once() {
        let (began, year) = (Duration::from_secs(1 << 30), Duration::from_secs(365 * 24 * 3600));
        let note = write_note(began, began, Duration::MAX);
        assert!(!is_due(&note, began + year, began + year, Duration::MAX));
    }

    #[test]
    fn period_counts_from_job_start_despite_waiting() {
        let millis = Duration::from_millis;
        let due = |fired, now| is_due(b"100000 1000", millis(fired), millis(now), millis(1_000));
        // The host waited during the run of its period, and during those of later periods.
        assert!(!due(100_020, 100_990));
        assert!(!due(98_000, 100_990));
        assert!(due(100_900, 100_900));
    }
}
