//! What a semaphore grants.

use std::ops::Deref;

use crate::{error::Result, primitives::guard::LockGuard};

/// One or more permits of a [`Semaphore`](crate::Semaphore). It is a [`LockGuard`] that others may
/// have beside it.
#[derive(Debug)]
#[must_use = "the permits are given back as soon as this is dropped"]
pub struct Permit {
    pub(super) guard: LockGuard,
    pub(super) permits: u32,
}

impl Permit {
    /// How many permits this is.
    #[must_use]
    pub fn permits(&self) -> u32 {
        self.permits
    }

    /// Gives the permits back: [`LockGuard::unlock`].
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
}

impl Deref for Permit {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
