//! A lock that is held.

use std::{fmt, time::Duration};

use super::{wait, wait_at_most};
use crate::{FencingToken, Lost, LostReason, ReleaseRequest, Result, Write};

/// A lock that is held: [`distlock::LockGuard`](crate::LockGuard) for threads.
///
/// Dropping it, on any thread, releases the lock in the background, without blocking. A process
/// that exits at once after that may leave the key to the session's TTL; to be sure, call
/// [`unlock`](Self::unlock) or [`Client::close`](super::Client::close).
#[must_use = "the lock is released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    guard: crate::LockGuard,
}

impl LockGuard {
    pub(super) fn new(guard: crate::LockGuard) -> Self {
        Self { guard }
    }

    pub(super) fn into_async(self) -> crate::LockGuard {
        self.guard
    }

    /// This grant's fencing token.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// The lock's name, as it was given to the client.
    #[must_use]
    pub fn name(&self) -> &str {
        self.guard.name()
    }

    /// The holder's key in the store: [`distlock::LockGuard::key`](crate::LockGuard::key).
    #[must_use]
    pub fn key(&self) -> &str {
        self.guard.key()
    }

    /// Whether the lock is held at this instant, as far as is known:
    /// [`distlock::LockGuard::is_valid`](crate::LockGuard::is_valid). Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.guard.is_valid()
    }

    /// How long the lock is certain to stay held if nothing more is heard of the store; zero when
    /// it is lost. It jumps up with every keepalive.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Blocks until the lock is lost: [`distlock::LockGuard::lost`](crate::LockGuard::lost).
    /// Several threads may wait for it.
    ///
    /// It returns only then: a thread that shall end before takes
    /// [`lost_timeout`](Self::lost_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{LostReason, blocking::Client, memory::Space};
    /// # fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-blocking-lost")?;
    /// let guard = client.mutex("a").lock()?;
    /// std::thread::scope(|scope| {
    ///     let told = scope.spawn(|| guard.lost());
    ///     Space::named("docs-blocking-lost").delete(guard.key());
    ///     assert_eq!(told.join().expect("it did not panic"), LostReason::KeyDeleted);
    /// });
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn lost(&self) -> LostReason {
        wait(self.guard.lost())
    }

    /// Blocks until the lock is lost, but no longer than `timeout`; `None` if it is still held
    /// then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> distlock::Result<()> {
    /// # let client = distlock::blocking::Client::connect("memory://docs-blocking-lost-timeout")?;
    /// let guard = client.mutex("a").lock()?;
    /// assert_eq!(guard.lost_timeout(Duration::from_millis(20)), None);
    /// # guard.unlock() }
    /// ```
    pub fn lost_timeout(&self, timeout: Duration) -> Option<LostReason> {
        wait_at_most(timeout, self.guard.lost())
    }

    /// Runs `work`, and says whether the lock was held from its beginning to its end. It does not
    /// run at all on a lock that is lost already.
    ///
    /// Unlike the future in [`distlock::LockGuard::run`](crate::LockGuard::run), a closure is not
    /// stopped when the lock is lost: it runs to its end, and only then that is told. So long work
    /// asks the guard that it is given, between its steps, whether [it is valid](Self::is_valid),
    /// and returns when it is not.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock was lost before `work` began, or while it ran: then another one may
    /// have held the lock at the same time, and what `work` returned is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{blocking::Client, memory::Space};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("memory://docs-blocking-run")?;
    /// let guard = client.mutex("a").lock()?;
    /// let done = guard.run(|guard| (1..=3).take_while(|_| guard.is_valid()).count())?;
    /// assert_eq!(done, 3);
    ///
    /// let outcome = guard.run(|guard| {
    ///     Space::named("docs-blocking-run").expire_session(guard.key());
    ///     guard.lost();
    ///     "the closure still ran to its end"
    /// });
    /// assert!(outcome.is_err());
    /// # Ok(()) }
    /// ```
    pub fn run<T>(&self, work: impl FnOnce(&Self) -> T) -> Result<T, Lost> {
        self.check()?;
        let outcome = work(self);
        self.check().map(|()| outcome)
    }

    pub(super) fn check(&self) -> Result<(), Lost> {
        self.guard.lost_reason().map_or(Ok(()), |reason| Err(Lost { reason }))
    }

    /// Blocks until another client asks for the lock by `request_release`, or has asked
    /// already: [`distlock::LockGuard::release_requested`](crate::LockGuard::release_requested).
    /// Whether to let go is the holder's to decide.
    ///
    /// # Errors
    ///
    /// [`Lost`] if the lock is lost first: then nobody asks any more.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let url = "memory://docs-blocking-release-requested";
    /// # let client = distlock::blocking::Client::connect(url)?;
    /// let mutex = client.mutex("batch");
    /// let guard = mutex.lock()?;
    /// assert!(mutex.request_release("a deployment is due")?);
    /// assert_eq!(guard.release_requested()?.reason(), "a deployment is due");
    /// guard.unlock()?;
    /// # Ok(()) }
    /// ```
    pub fn release_requested(&self) -> Result<ReleaseRequest, Lost> {
        wait(self.asked())
    }

    /// The same as [`release_requested`](Self::release_requested), but for no longer than
    /// `timeout`; `None` if nobody has asked by then. As a look takes at least one request of the
    /// store, a timeout of zero tells nothing.
    ///
    /// # Errors
    ///
    /// As [`release_requested`](Self::release_requested).
    pub fn release_requested_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<ReleaseRequest>, Lost> {
        wait_at_most(timeout, self.asked()).transpose()
    }

    async fn asked(&self) -> Result<ReleaseRequest, Lost> {
        tokio::select! {
            biased;
            reason = self.guard.lost() => Err(Lost { reason }),
            request = self.guard.release_requested() => Ok(request),
        }
    }

    /// Writes a value into the store, outside of the locks, if the lock is still held when the
    /// store does it: [`distlock::LockGuard::put`](crate::LockGuard::put).
    ///
    /// # Errors
    ///
    /// As [`distlock::LockGuard::write`](crate::LockGuard::write).
    pub fn put(&self, key: impl Into<String>, value: impl Into<Vec<u8>>) -> Result<()> {
        wait(self.guard.put(key, value))
    }

    /// Deletes a key, if the lock is still held when the store does it:
    /// [`distlock::LockGuard::delete`](crate::LockGuard::delete).
    ///
    /// # Errors
    ///
    /// As [`distlock::LockGuard::write`](crate::LockGuard::write).
    pub fn delete(&self, key: impl Into<String>) -> Result<()> {
        wait(self.guard.delete(key))
    }

    /// Does all of these writes, or none: all if the lock is still held when the store does them.
    /// See [`distlock::LockGuard::write`](crate::LockGuard::write).
    ///
    /// # Errors
    ///
    /// As [`distlock::LockGuard::write`](crate::LockGuard::write).
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::Write;
    /// # fn main() -> distlock::Result<()> {
    /// # let client = distlock::blocking::Client::connect("memory://docs-blocking-write")?;
    /// let guard = client.mutex("report").lock()?;
    /// guard.put("/reports/state", "running")?;
    /// let latest = Write::put("/reports/latest", "2024-05-17");
    /// guard.write(&[latest, Write::delete("/reports/state")])?;
    /// # guard.unlock() }
    /// ```
    pub fn write(&self, writes: &[Write]) -> Result<()> {
        wait(self.guard.write(writes))
    }

    /// Releases the lock. `Ok` only when its key is known to be gone and the lock was held until
    /// then.
    ///
    /// # Errors
    ///
    /// As [`distlock::LockGuard::unlock`](crate::LockGuard::unlock).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// # let client = distlock::blocking::Client::connect("memory://docs-blocking-unlock")?;
    /// let guard = client.mutex("a").lock()?;
    /// guard.unlock()?;
    /// # Ok(()) }
    /// ```
    pub fn unlock(self) -> Result<()> {
        wait(self.guard.unlock())
    }

    /// The same guard, for tasks.
    pub fn as_async(&self) -> &crate::LockGuard {
        &self.guard
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.guard.fmt(f)
    }
}
