//! A named lock.

use std::time::Duration;

use super::{LockGuard, QueueWatch, wait};
use crate::{QueueEntry, Result};

/// A named lock: [`distlock::Mutex`](crate::Mutex) for threads. Made by
/// [`Client::mutex`](super::Client::mutex); cheap to make, to clone and to throw away.
///
/// It excludes all others of its name, async ones too. Locking twice on one thread waits for
/// oneself: there is no reentrancy.
#[derive(Clone, Debug)]
pub struct Mutex {
    mutex: crate::Mutex,
}

impl Mutex {
    pub(super) fn new(mutex: crate::Mutex) -> Self {
        Self { mutex }
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        self.mutex.name()
    }

    /// Waits for its turn, first come first served, however long that takes.
    ///
    /// # Errors
    ///
    /// As [`distlock::Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-lock")?;
    /// let guard = client.mutex("nightly-report").lock()?;
    /// assert!(guard.is_valid());
    /// guard.unlock()?;
    /// # Ok(()) }
    /// ```
    pub fn lock(&self) -> Result<LockGuard> {
        wait(self.mutex.lock()).map(LockGuard::new)
    }

    /// Takes the lock if nobody holds it or waits for it; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// As [`distlock::Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-try-lock")?;
    /// let mutex = client.mutex("leader");
    /// let guard = mutex.try_lock()?.expect("nobody else is here");
    /// assert!(mutex.try_lock()?.is_none());
    /// # guard.unlock() }
    /// ```
    pub fn try_lock(&self) -> Result<Option<LockGuard>> {
        Ok(wait(self.mutex.try_lock())?.map(LockGuard::new))
    }

    /// Waits for its turn, but no longer than `timeout`; `None` when the time is up. A timeout of
    /// zero is a [`try_lock`](Self::try_lock).
    ///
    /// # Errors
    ///
    /// As [`distlock::Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-lock-timeout")?;
    /// let mutex = client.mutex("table-7");
    /// let guard = mutex.lock()?;
    /// assert!(mutex.lock_timeout(Duration::from_millis(20))?.is_none());
    /// # guard.unlock() }
    /// ```
    pub fn lock_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        Ok(wait(self.mutex.lock_timeout(timeout))?.map(LockGuard::new))
    }

    /// Who holds the lock and who waits for it, in that order, as of now:
    /// [`distlock::Mutex::queue`](crate::Mutex::queue).
    ///
    /// # Errors
    ///
    /// As [`distlock::Mutex::queue`](crate::Mutex::queue).
    pub fn queue(&self) -> Result<Vec<QueueEntry>> {
        wait(self.mutex.queue())
    }

    /// Who holds the lock; `None` if nobody does.
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue).
    pub fn holder(&self) -> Result<Option<QueueEntry>> {
        wait(self.mutex.holder())
    }

    /// The [`queue`](Self::queue) as it is now, and again whenever it has changed: an iterator that
    /// blocks until then.
    ///
    /// # Errors
    ///
    /// As [`distlock::Mutex::watch_queue`](crate::Mutex::watch_queue).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-watch-queue")?;
    /// let mutex = client.mutex("report");
    /// let guard = mutex.lock()?;
    /// for entries in mutex.watch_queue()? {
    ///     println!("held by {}, {} in all", entries[0].owner(), entries.len());
    ///     # break;
    /// }
    /// # guard.unlock() }
    /// ```
    pub fn watch_queue(&self) -> Result<QueueWatch> {
        self.mutex.watch_queue().map(QueueWatch::new)
    }

    /// Asks the holder of the lock to let go, and says why; `false` if nobody holds it:
    /// [`distlock::Mutex::request_release`](crate::Mutex::request_release).
    ///
    /// # Errors
    ///
    /// As [`distlock::Mutex::request_release`](crate::Mutex::request_release).
    pub fn request_release(&self, reason: impl AsRef<str>) -> Result<bool> {
        wait(self.mutex.request_release(reason))
    }

    /// The same lock, for tasks.
    #[must_use]
    pub fn as_async(&self) -> &crate::Mutex {
        &self.mutex
    }
}
