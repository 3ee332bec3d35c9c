//! Work that runs while a lock is held.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use super::LockGuard;
use crate::{
    error::{Error, Result},
    lost::{Lost, LostReason},
    primitives::closure::{self, Guard},
    runtime::clock,
};

impl LockGuard {
    /// Runs `future` until it is done or the lock is lost.
    ///
    /// If the lock is lost, `future` is dropped. The call checks the deadline before each poll, as
    /// [`is_valid`](Self::is_valid) does. The call cannot stop a future that blocks its thread.
    ///
    /// For a future that returns a `Result`, see [`try_run`](Self::try_run).
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost first. The future has been dropped, but requests that it had
    /// sent may still take effect.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops `future`. The lock stays held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-run").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let answer = guard.run(async { 6 * 7 }).await?;
    /// assert_eq!(answer, 42);
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> Result<T, Lost> {
        let running = run(self.lost(), || self.lost_reason(), future).await;
        running.map_err(|reason| self.loss_error(reason))
    }

    /// Runs a fallible `future` while the lock is held.
    ///
    /// This method works like [`run`](Self::run), but returns a single `Result`.
    ///
    /// # Errors
    ///
    /// The future's own error, or [`Error::Lost`] as in [`run`](Self::run), converted to `E`.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # type Failure = Box<dyn std::error::Error>;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Failure> {
    /// # let client = distlock::Client::connect("memory://docs-try-run").await?;
    /// async fn report() -> Result<u64, Failure> {
    ///     Ok("42".parse()?)
    /// }
    ///
    /// let guard = client.mutex("a").lock().await?;
    /// assert_eq!(guard.try_run(report()).await?, 42);
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn try_run<T, E: From<Error>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run(future).await.map_err(Error::from)?
    }

    /// Runs `future` while the lock is held, and unlocks.
    ///
    /// The returned future owns the guard, so it can be spawned. An unconfirmed release is not an
    /// error here: the release continues in the background, as after [`unlock`](Self::unlock).
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before it was unlocked. If `future` had not finished by
    /// then, it has been dropped, as in [`run`](Self::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops `future` and the guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-run-owned").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let work = tokio::spawn(guard.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        let done = self.run(future).await?;
        closure::end(self, done).await
    }

    /// Runs a fallible `future` while the lock is held, and unlocks.
    ///
    /// This method works like [`run_owned`](Self::run_owned), but returns a single `Result`. The
    /// method also unlocks if the future fails.
    ///
    /// # Errors
    ///
    /// The future's own error, or [`Error::Lost`] as in [`run_owned`](Self::run_owned), converted
    /// to `E`.
    ///
    /// # Cancel safety
    ///
    /// As [`run_owned`](Self::run_owned).
    ///
    /// # Examples
    ///
    /// ```
    /// # type Failure = Box<dyn std::error::Error + Send + Sync>;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Failure> {
    /// # let client = distlock::Client::connect("memory://docs-try-run-owned").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let work = async { Ok::<u64, Failure>("42".parse()?) };
    /// let work = tokio::spawn(guard.try_run_owned(work));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_owned<T, E: From<Error>>(
        self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run_owned(future).await?
    }

    /// Waits until the lock has been held for at least the given duration.
    ///
    /// Call this method before you release the lock of a job that may finish too quickly. A host
    /// whose clock is behind by less than this duration then finds the lock held, and
    /// [`try_lock`](crate::Mutex::try_lock) returns `None` there. The duration is measured from the
    /// same time as in [`Mutex::max_hold`](crate::Mutex::max_hold).
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// Safe. The lock stays held.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::{Duration, Instant};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-hold-at-least").await?;
    /// let start = Instant::now();
    /// let guard = client.mutex("a").lock().await?;
    /// // The work takes no time.
    /// guard.hold_at_least(Duration::from_millis(50)).await?;
    /// assert!(start.elapsed() >= Duration::from_millis(40));
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn hold_at_least(&self, time: Duration) -> Result<(), Lost> {
        let rest = self.held.since.saturating_add(time).saturating_sub(clock::now());
        let runtime = &self.held.session.shared.runtime;
        let resting = async {
            clock::sleep(rest).await;
            Ok(())
        };
        let rested = self.run(runtime.within(resting)).await?;
        // The lock is lost if its runtime has ended.
        let reason = || self.lost_reason().unwrap_or(LostReason::KeeperStopped);
        rested.map_err(|_| self.loss_error(reason()))
    }

    /// Returns the error of [`run`](Self::run) after a loss.
    pub(crate) fn loss_error(&self, reason: LostReason) -> Lost {
        Lost { name: self.name().to_owned(), reason }
    }
}

impl Guard for LockGuard {
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        Ok(self.run(future).await?)
    }

    async fn release_held(self) -> Result<()> {
        self.unlock().await
    }
}

/// Runs `future` until the lock is lost. `lost` resolves at the loss, and `look` reads the clock.
pub(in crate::primitives) async fn run<T, L>(
    lost: impl Future<Output = L>,
    look: impl Fn() -> Option<L>,
    future: impl Future<Output = T>,
) -> Result<T, L> {
    let mut future = pin!(future);
    let mut lost = pin!(lost);
    poll_fn(|context| {
        if let Poll::Ready(lost) = lost.as_mut().poll(context) {
            return Poll::Ready(Err(lost));
        }
        if let Some(lost) = look() {
            return Poll::Ready(Err(lost));
        }
        future.as_mut().poll(context).map(Ok)
    })
    .await
}
