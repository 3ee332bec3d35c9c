//! Work that is due once in a while, and done by one of many.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{
    backend::Write,
    error::{Error, Result},
    primitives::{guard::LockGuard, mutex::Mutex},
    runtime::clock,
};

/// How much of a period has to be over: hosts' clocks differ, and timers are late now and then.
const DUE: f64 = 0.9;

/// The shortest period: what hosts' clocks differ by must not matter.
const SHORTEST: Duration = Duration::from_millis(100);

impl LockGuard {
    /// Whether nobody has begun this lock's work within nine tenths of this period: then it is
    /// noted that the work begins now.
    ///
    /// So a job that several hosts fire by their clocks at the same time runs once: the first to
    /// have the lock does it, and the others are told `false`. The store keeps when it began, by
    /// the clock of the host that did it, in `{namespace}/{name}!began`. It is written only while
    /// the lock is held. A time that lies a period or more ahead of this host's clock is no reason
    /// to wait.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`] before anything is sent if the period is shorter than 100 ms.
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
    /// let client = distlock::Client::connect("memory://docs-first-in").await?;
    /// let (report, hour) = (client.mutex("report"), Duration::from_secs(3600));
    /// let guard = report.lock().await?;
    /// assert!(guard.first_in(hour).await?);
    /// guard.unlock().await?;
    /// assert!(!report.lock().await?.first_in(hour).await?);
    /// # Ok(()) }
    /// ```
    pub async fn first_in(&self, period: Duration) -> Result<bool> {
        self.first_in_at(period, clock::wall()).await
    }

    /// The same as [`first_in`](Self::first_in) for a job that was fired then, and has waited for
    /// its lock since: the time of the firing counts, not that of the grant.
    ///
    /// So a host that has waited for as long as the job took elsewhere does not take its late grant
    /// for the next period, and the time that a busy host needs to get the lock does not add up.
    ///
    /// # Errors
    ///
    /// As [`first_in`](Self::first_in).
    ///
    /// # Cancel safety
    ///
    /// As [`first_in`](Self::first_in).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-first-in-at").await?;
    /// let fired = UNIX_EPOCH + Duration::from_secs(1_800_000_000); // as the scheduler says
    /// let guard = client.mutex("report").lock().await?; // however long that takes
    /// assert!(guard.first_in_at(Duration::from_secs(3600), fired).await?);
    /// # guard.unlock().await }
    /// ```
    pub async fn first_in_at(&self, period: Duration, fired: SystemTime) -> Result<bool> {
        if period < SHORTEST {
            let reason = "at least 100 ms: hosts' clocks differ".into();
            return Err(Error::InvalidConfig { option: "period", reason });
        }
        let queue = self.queue().of("began");
        let since_epoch = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (key, fired, now) = (queue.dir(), since_epoch(fired), since_epoch(clock::wall()));
        let began = self.read(key).await?;
        if began.is_some_and(|began| !is_due(&began, fired, now, period)) {
            return Ok(false);
        }
        let value = fired.as_millis().to_string().into_bytes();
        self.commit(&[Write::Put { key: key.to_owned(), value }]).await?;
        Ok(true)
    }
}

/// Whether what began then (milliseconds of the wall's clock) is to begin again for one that was
/// fired at this time.
fn is_due(began: &[u8], fired: Duration, now: Duration, period: Duration) -> bool {
    let began = std::str::from_utf8(began).ok().and_then(|text| text.parse().ok());
    let Some(began) = began.map(Duration::from_millis) else { return true };
    let due = period.mul_f64(DUE);
    // No clock that is of use is so far ahead.
    fired >= began.saturating_add(due) || began >= now.saturating_add(due)
}

impl Mutex {
    /// Locks, does `work` unless somebody has begun it within nine tenths of this period, and
    /// unlocks. `None`: it was not due.
    ///
    /// For jobs that a timer fires on several hosts: see [`LockGuard::first_in`]. The work counts
    /// from its beginning, also if it fails or is lost.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run) and [`LockGuard::first_in`].
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
        self.must_queue("guarded writes")?;
        let fired = clock::wall();
        let guard = self.lock().await?;
        if !guard.first_in_at(period, fired).await? {
            return guard.end_with(Ok(None)).await;
        }
        let done = guard.run(work(&guard)).await;
        guard.end_with(done.map(Some)).await
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
            assert_eq!(is_due(began.as_bytes(), now, now, period), due, "{began}");
        }
    }

    #[test]
    fn one_that_has_waited_counts_from_when_it_was_fired() {
        let millis = Duration::from_millis;
        let due = |fired, now| is_due(b"100000", millis(fired), millis(now), millis(1_000));
        // It waited while the work was done, and while that of later periods was.
        assert!(!due(100_020, 100_990));
        assert!(!due(98_000, 100_990));
        assert!(due(100_900, 100_900));
    }
}
