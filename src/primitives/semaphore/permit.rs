//! The guard of a semaphore.

use std::ops::Deref;

use crate::{
    error::{Error, Result},
    primitives::{closure::Guard, guard::LockGuard},
};

/// Holds one or more permits of a [`Semaphore`](crate::Semaphore).
///
/// A `Permit` is a [`LockGuard`]. Other clients may hold permits at the same time.
///
/// A permit has no slot number. To give each holder its own slot, use one [`Mutex`](crate::Mutex)
/// per slot and [`try_lock`](crate::Mutex::try_lock) them in order.
#[derive(Debug)]
#[must_use = "the permits are released as soon as the `Permit` is dropped"]
pub struct Permit {
    pub(super) guard: LockGuard,
    pub(super) permits: u32,
}

impl Permit {
    /// Returns the number of permits that this guard holds.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Releases the permits: see [`LockGuard::unlock`].
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
    /// let client = distlock::Client::connect("memory://docs-release-permit").await?;
    /// let connections = client.semaphore("db-connections", 1);
    /// let permit = connections.acquire().await?;
    /// permit.release().await?;
    /// assert!(connections.try_acquire().await?.is_some());
    /// # Ok(()) }
    /// ```
    pub async fn release(self) -> Result<()> {
        self.guard.unlock().await
    }

    /// Runs `future` while the permits are held, and releases them.
    ///
    /// This method works like [`LockGuard::run_owned`].
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
    /// let client = distlock::Client::connect("memory://docs-run-owned-permit").await?;
    /// let permit = client.semaphore("db", 5).acquire().await?;
    /// let work = tokio::spawn(permit.run_owned(async { 6 * 7 }));
    /// assert_eq!(work.await.expect("no panic")?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn run_owned<T>(self, future: impl Future<Output = T>) -> Result<T> {
        self.guard.run_owned(future).await
    }

    /// Runs a fallible `future` while the permits are held, and releases them.
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
    /// let client = distlock::Client::connect("memory://docs-try-run-owned-permit").await?;
    /// let permit = client.semaphore("db", 5).acquire().await?;
    /// let work = async { Ok::<_, distlock::Error>(6 * 7) };
    /// assert_eq!(permit.try_run_owned(work).await?, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run_owned<T, E: From<Error>>(
        self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.guard.try_run_owned(future).await
    }
}

impl Guard for Permit {
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T> {
        self.guard.run_held(future).await
    }

    async fn release_held(self) -> Result<()> {
        self.guard.release_held().await
    }
}

impl Deref for Permit {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
