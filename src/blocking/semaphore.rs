//! A named counting semaphore.

use std::{ops::Deref, time::Duration};

use super::{LockGuard, wait};
use crate::Result;

/// A named semaphore: [`distlock::Semaphore`](crate::Semaphore) for threads. Made by
/// [`Client::semaphore`](super::Client::semaphore); cheap to make, to clone and to throw away.
///
/// # Examples
///
/// ```
/// # fn main() -> distlock::Result<()> {
/// let client = distlock::blocking::Client::connect("memory://docs-blocking-semaphore")?;
/// let connections = client.semaphore("db-connections", 3);
/// let one = connections.acquire()?;
/// let two = connections.acquire_many(2)?;
/// assert!(connections.try_acquire()?.is_none());
/// two.release()?;
/// assert!(connections.try_acquire()?.is_some());
/// one.release()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    semaphore: crate::Semaphore,
}

/// One or more permits of a [`Semaphore`]. It is a [`LockGuard`] that others may have beside it.
#[derive(Debug)]
#[must_use = "the permits are given back as soon as this is dropped"]
pub struct Permit {
    guard: LockGuard,
    permits: u32,
}

impl Semaphore {
    pub(super) fn new(semaphore: crate::Semaphore) -> Self {
        Self { semaphore }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.semaphore.name()
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::acquire`](crate::Semaphore::acquire).
    pub fn acquire(&self) -> Result<Permit> {
        wait(self.semaphore.acquire()).map(Permit::new)
    }

    /// Waits for so many permits at once. Until they are there, nobody who came later gets any.
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    pub fn acquire_many(&self, permits: u32) -> Result<Permit> {
        wait(self.semaphore.acquire_many(permits)).map(Permit::new)
    }

    /// Takes a permit if there is one for which nobody waits; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::try_acquire`](crate::Semaphore::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Permit>> {
        Ok(wait(self.semaphore.try_acquire())?.map(Permit::new))
    }

    /// The same as [`try_acquire`](Self::try_acquire), for several.
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    pub fn try_acquire_many(&self, permits: u32) -> Result<Option<Permit>> {
        Ok(wait(self.semaphore.try_acquire_many(permits))?.map(Permit::new))
    }

    /// The same as [`acquire`](Self::acquire), but for no longer than this; `None` when the time is
    /// up.
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::acquire_timeout`](crate::Semaphore::acquire_timeout).
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        Ok(wait(self.semaphore.acquire_timeout(timeout))?.map(Permit::new))
    }

    /// The same as [`acquire_many`](Self::acquire_many), but for no longer than this; `None` when
    /// the time is up.
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::acquire_many_timeout`](crate::Semaphore::acquire_many_timeout).
    pub fn acquire_many_timeout(&self, permits: u32, timeout: Duration) -> Result<Option<Permit>> {
        Ok(wait(self.semaphore.acquire_many_timeout(permits, timeout))?.map(Permit::new))
    }

    /// Changes the number of permits for all clients:
    /// [`distlock::Semaphore::set_permits`](crate::Semaphore::set_permits).
    ///
    /// # Errors
    ///
    /// As [`distlock::Semaphore::set_permits`](crate::Semaphore::set_permits).
    pub fn set_permits(&self, permits: u32) -> Result<()> {
        wait(self.semaphore.set_permits(permits))
    }

    /// The same semaphore, for tasks.
    #[must_use]
    pub fn as_async(&self) -> &crate::Semaphore {
        &self.semaphore
    }
}

impl Permit {
    fn new(permit: crate::Permit) -> Self {
        let permits = permit.permits();
        Self { guard: LockGuard::new(permit.guard), permits }
    }

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
    pub fn release(self) -> Result<()> {
        self.guard.unlock()
    }
}

impl Deref for Permit {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
