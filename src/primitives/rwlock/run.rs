//! Work that runs while a read-write lock is held.

use super::{ReadGuard, RwLock, WriteGuard};
use crate::{
    error::{Error, Result},
    primitives::closure,
};

impl RwLock {
    /// Acquires a read lock, runs `work` while it is held, and unlocks.
    ///
    /// An unconfirmed release is not an error here: it continues in the background, as after
    /// [`ReadGuard::unlock`]. For work that returns a `Result`, see
    /// [`try_run_read`](Self::try_run_read).
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read). [`Error::Lost`] if the lock was lost before it was unlocked. If
    /// `work` was still running, it was dropped, as with
    /// [`LockGuard::run`](crate::LockGuard::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-run-read").await?;
    /// let config = client.rw_lock("config");
    /// let valid = config.run_read(async |guard| guard.is_valid()).await?;
    /// assert!(valid);
    /// # Ok(()) }
    /// ```
    pub async fn run_read<T>(&self, work: impl AsyncFnOnce(&ReadGuard) -> T) -> Result<T> {
        closure::run(self.read().await?, work).await
    }

    /// Acquires a read lock, runs fallible `work` while it is held, and unlocks.
    ///
    /// This method works like [`run_read`](Self::run_read), but returns a single `Result`. The
    /// method also unlocks if `work` fails.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run_read`](Self::run_read), converted to `E`.
    ///
    /// # Cancel safety
    ///
    /// As [`run_read`](Self::run_read).
    ///
    /// # Examples
    ///
    /// ```
    /// # type Failure = Box<dyn std::error::Error>;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Failure> {
    /// let client = distlock::Client::connect("memory://docs-try-run-read").await?;
    /// let config = client.rw_lock("config");
    /// let limit: u32 = config.try_run_read(async |_guard| Ok::<_, Failure>("42".parse()?)).await?;
    /// assert_eq!(limit, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_read<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&ReadGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_read(work).await?
    }

    /// Acquires the write lock, runs `work` while it is held, and unlocks.
    ///
    /// An unconfirmed release is not an error here: it continues in the background, as after
    /// [`WriteGuard::unlock`]. For work that returns a `Result`, see
    /// [`try_run_write`](Self::try_run_write).
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write). [`Error::Lost`] if the lock was lost before it was unlocked. If
    /// `work` was still running, it was dropped, as with
    /// [`LockGuard::run`](crate::LockGuard::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-run-write").await?;
    /// let config = client.rw_lock("config");
    /// let token = config.run_write(async |guard| guard.fencing_token()).await?;
    /// assert!(token.as_u64() > 0);
    /// # Ok(()) }
    /// ```
    pub async fn run_write<T>(&self, work: impl AsyncFnOnce(&WriteGuard) -> T) -> Result<T> {
        closure::run(self.write().await?, work).await
    }

    /// Acquires the write lock, runs fallible `work` while it is held, and unlocks.
    ///
    /// This method works like [`run_write`](Self::run_write), but returns a single `Result`. The
    /// method also unlocks if `work` fails.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run_write`](Self::run_write), converted to `E`.
    ///
    /// # Cancel safety
    ///
    /// As [`run_write`](Self::run_write).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-run-write").await?;
    /// let config = client.rw_lock("config");
    /// config.try_run_write(async |guard| guard.put("/app/config", "limit=42").await).await
    /// # }
    /// ```
    pub async fn try_run_write<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&WriteGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_write(work).await?
    }
}
