//! The guards of a read-write lock.

use std::ops::Deref;

use super::rule::READER;
use crate::{
    error::{Error, Result},
    primitives::{closure::Guard, guard::LockGuard},
    telemetry::Primitive,
};

/// Holds a read lock: the guard of [`RwLock::read`](crate::RwLock::read).
///
/// A `ReadGuard` is a [`LockGuard`]. Other readers may hold the lock at the same time.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard(pub(super) LockGuard);

/// Holds the write lock: the guard of [`RwLock::write`](crate::RwLock::write).
///
/// A `WriteGuard` is a [`LockGuard`]. While the guard is valid, no other client holds the lock,
/// with the exceptions that [`LockGuard`] names.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard(pub(super) LockGuard);

impl ReadGuard {
    /// Releases the lock: see [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-unlock-reader").await?;
    /// let config = client.rw_lock("config");
    /// let reader = config.read().await?;
    /// reader.unlock().await?;
    /// assert!(config.try_write().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn unlock(self) -> Result<()> {
        self.0.unlock().await
    }

    /// Runs `future` while the lock is held, and unlocks: see [`LockGuard::run_owned`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-run-owned-reader").await?;
    /// let reader = client.rw_lock("config").read().await?;
    /// let work = tokio::spawn(reader.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        self.0.run_owned(future).await
    }

    /// Runs a fallible `future` while the lock is held, and unlocks.
    ///
    /// This method works like [`run_owned`](Self::run_owned), but returns a single `Result`.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::try_run_owned`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-run-owned-reader").await?;
    /// let reader = client.rw_lock("config").read().await?;
    /// let work = async { Ok::<_, distlock::Error>(6 * 7) };
    /// assert_eq!(reader.try_run_owned(work).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_owned<T, E: From<Error>>(
        self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.0.try_run_owned(future).await
    }
}

impl WriteGuard {
    /// Releases the lock: see [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::unlock`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-unlock-writer").await?;
    /// let config = client.rw_lock("config");
    /// let writer = config.write().await?;
    /// writer.unlock().await?;
    /// assert!(config.try_read().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn unlock(self) -> Result<()> {
        self.0.unlock().await
    }

    /// Runs `future` while the lock is held, and unlocks: see [`LockGuard::run_owned`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-run-owned-writer").await?;
    /// let writer = client.rw_lock("config").write().await?;
    /// let work = tokio::spawn(writer.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        self.0.run_owned(future).await
    }

    /// Runs a fallible `future` while the lock is held, and unlocks.
    ///
    /// This method works like [`run_owned`](Self::run_owned), but returns a single `Result`.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::try_run_owned`].
    ///
    /// # Cancel safety
    ///
    /// As [`LockGuard::run_owned`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-run-owned-writer").await?;
    /// let writer = client.rw_lock("config").write().await?;
    /// let work = async { Ok::<_, distlock::Error>(6 * 7) };
    /// assert_eq!(writer.try_run_owned(work).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_owned<T, E: From<Error>>(
        self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.0.try_run_owned(future).await
    }

    /// Turns the write lock into a read lock, without a gap.
    ///
    /// No writer is granted the lock in between. The readers in the queue, up to the next writer,
    /// are granted the lock, too.
    ///
    /// Afterwards, [`key`](LockGuard::key) returns the reader's key, and the fencing token stays
    /// the same.
    ///
    /// # Errors
    ///
    /// **Any error releases the write lock**, as if the guard had been dropped.
    /// [`Error::Lost`](crate::Error::Lost) if the lock was lost before or during the call.
    /// [`Error::Denied`](crate::Error::Denied) or [`Error::Backend`](crate::Error::Backend) if the
    /// store refused the reader's key, for example because a permission is missing or the store is
    /// full. [`Error::Runtime`](crate::Error::Runtime) if the client's runtime is shut down during
    /// the call. The call repeats an unanswered request for as long as the session lives.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is like dropping the guard.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-downgrade").await?;
    /// let config = client.rw_lock("config");
    /// let writer = config.write().await?;
    /// let token = writer.fencing_token();
    /// let reader = writer.downgrade().await?;
    /// assert_eq!(reader.fencing_token(), token);
    /// assert!(config.try_read().await?.is_some());
    /// # reader.unlock().await }
    /// ```
    pub async fn downgrade(self) -> Result<ReadGuard> {
        self.0.relabel(READER, Primitive::Reader).await.map(ReadGuard)
    }
}

impl Guard for ReadGuard {
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        self.0.run_held(future).await
    }

    async fn release_held(self) -> Result<()> {
        self.0.release_held().await
    }
}

impl Guard for WriteGuard {
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        self.0.run_held(future).await
    }

    async fn release_held(self) -> Result<()> {
        self.0.release_held().await
    }
}

impl Deref for ReadGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}

impl Deref for WriteGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}
