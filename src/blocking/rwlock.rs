//! A named read-write lock.

use std::{ops::Deref, time::Duration};

use super::{LockGuard, wait};
use crate::Result;

/// A named read-write lock: [`distlock::RwLock`](crate::RwLock) for threads. Made by
/// [`Client::rw_lock`](super::Client::rw_lock); cheap to make, to clone and to throw away.
///
/// # Examples
///
/// ```
/// # fn main() -> distlock::Result<()> {
/// let client = distlock::blocking::Client::connect("memory://docs-blocking-rw-lock")?;
/// let config = client.rw_lock("config");
/// let (one, two) = (config.read()?, config.read()?);
/// assert!(config.try_write()?.is_none());
/// one.unlock()?;
/// two.unlock()?;
///
/// let writer = config.write()?;
/// let reader = writer.downgrade()?;
/// assert!(config.try_read()?.is_some());
/// reader.unlock()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    lock: crate::RwLock,
}

/// The right to read. It is a [`LockGuard`] that others may have beside it.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct ReadGuard {
    guard: LockGuard,
}

/// The right to write, alone. It is a [`LockGuard`].
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct WriteGuard {
    guard: LockGuard,
}

impl RwLock {
    pub(super) fn new(lock: crate::RwLock) -> Self {
        Self { lock }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Waits until no writer is ahead, then reads beside other readers.
    ///
    /// # Errors
    ///
    /// As [`distlock::RwLock::read`](crate::RwLock::read).
    pub fn read(&self) -> Result<ReadGuard> {
        wait(self.lock.read()).map(ReadGuard::new)
    }

    /// Reads if no writer holds the lock or waits for it; `None` if one does.
    ///
    /// # Errors
    ///
    /// As [`distlock::RwLock::try_read`](crate::RwLock::try_read).
    pub fn try_read(&self) -> Result<Option<ReadGuard>> {
        Ok(wait(self.lock.try_read())?.map(ReadGuard::new))
    }

    /// The same as [`read`](Self::read), but for no longer than this; `None` when the time is up.
    ///
    /// # Errors
    ///
    /// As [`distlock::RwLock::read_timeout`](crate::RwLock::read_timeout).
    pub fn read_timeout(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        Ok(wait(self.lock.read_timeout(timeout))?.map(ReadGuard::new))
    }

    /// Waits until nobody is ahead, then writes alone.
    ///
    /// # Errors
    ///
    /// As [`distlock::RwLock::write`](crate::RwLock::write).
    pub fn write(&self) -> Result<WriteGuard> {
        wait(self.lock.write()).map(WriteGuard::new)
    }

    /// Writes if nobody holds the lock or waits for it; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// As [`distlock::RwLock::try_write`](crate::RwLock::try_write).
    pub fn try_write(&self) -> Result<Option<WriteGuard>> {
        Ok(wait(self.lock.try_write())?.map(WriteGuard::new))
    }

    /// The same as [`write`](Self::write), but for no longer than this; `None` when the time is up.
    ///
    /// # Errors
    ///
    /// As [`distlock::RwLock::write_timeout`](crate::RwLock::write_timeout).
    pub fn write_timeout(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        Ok(wait(self.lock.write_timeout(timeout))?.map(WriteGuard::new))
    }

    /// The same lock, for tasks.
    #[must_use]
    pub fn as_async(&self) -> &crate::RwLock {
        &self.lock
    }
}

impl ReadGuard {
    fn new(reader: crate::ReadGuard) -> Self {
        Self { guard: LockGuard::new(reader.guard) }
    }

    /// Releases the lock: [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    pub fn unlock(self) -> Result<()> {
        self.guard.unlock()
    }
}

impl WriteGuard {
    fn new(writer: crate::WriteGuard) -> Self {
        Self { guard: LockGuard::new(writer.guard) }
    }

    /// Releases the lock: [`LockGuard::unlock`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`].
    pub fn unlock(self) -> Result<()> {
        self.guard.unlock()
    }

    /// Turns the writer into a reader, in its place: no writer gets in between. See
    /// [`distlock::WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    ///
    /// # Errors
    ///
    /// As [`distlock::WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    pub fn downgrade(self) -> Result<ReadGuard> {
        let writer = crate::WriteGuard { guard: self.guard.into_async() };
        wait(writer.downgrade()).map(ReadGuard::new)
    }
}

impl Deref for ReadGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl Deref for WriteGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
