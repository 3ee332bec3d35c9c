//! Work that runs while several locks are held.

use super::MultiLockGuard;
use crate::{
    error::{Error, Result},
    primitives::{closure::Guard, guard::run::run},
};

impl MultiLockGuard {
    /// Runs `future` until it is done or one of the locks is lost.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`], with the name of a lock that was lost. The future has been dropped, but
    /// requests that it had sent may still take effect.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future drops `future`. The locks stay held.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-all-run").await?;
    /// let all = client.multi_lock(["alice", "bob"]).lock().await?;
    /// let answer = all.run(async { 6 * 7 }).await?;
    /// assert_eq!(answer, 42);
    /// all.unlock().await
    /// # }
    /// ```
    pub async fn run<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        let running = run(self.first_lost(), || self.loss(), future).await;
        running.map_err(|(guard, reason)| guard.lost_error(reason))
    }

    /// Runs a fallible `future` while all locks are held.
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
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # let client = distlock::Client::connect("memory://docs-all-try-run").await?;
    /// let all = client.multi_lock(["alice", "bob"]).lock().await?;
    /// all.try_run(all.put("/bank/last-transfer", "alice to bob")).await?;
    /// all.unlock().await
    /// # }
    /// ```
    pub async fn try_run<T, E: From<Error>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run(future).await?
    }
}

impl Guard for MultiLockGuard {
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        self.run(future).await
    }

    async fn release_held(self) -> Result<()> {
        self.unlock().await
    }
}
