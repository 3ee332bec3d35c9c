//! Several locks, all or none.

use std::time::Duration;

use super::{LockGuard, wait, wait_at_most};
use crate::{Lost, LostReason, Result, primitives::multi_lock::first_lost};

/// Several locks that were taken together: [`distlock::AllGuard`](crate::AllGuard) for threads.
/// Made by [`Client::lock_all`](super::Client::lock_all).
///
/// Dropping it releases all of them in the background, as dropping a [`LockGuard`] does.
///
/// # Examples
///
/// ```
/// # fn main() -> distlock::Result<()> {
/// let client = distlock::blocking::Client::connect("memory://docs-blocking-all-guard")?;
/// let all = client.lock_all(["bob", "alice"])?;
/// let names: Vec<_> = all.guards().iter().map(|guard| guard.name()).collect();
/// assert_eq!(names, ["alice", "bob"]);
/// assert!(all.is_valid());
/// all.unlock()
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the locks are released as soon as the guard is dropped"]
#[clippy::has_significant_drop]
pub struct AllGuard {
    guards: Vec<LockGuard>,
}

impl AllGuard {
    pub(super) fn new(all: crate::AllGuard) -> Self {
        Self { guards: all.guards.into_iter().map(LockGuard::new).collect() }
    }

    /// The guards, in the order in which they were taken.
    pub fn guards(&self) -> &[LockGuard] {
        &self.guards
    }

    /// The guard of the lock of this name.
    #[must_use]
    pub fn get(&self, name: impl AsRef<str>) -> Option<&LockGuard> {
        self.guards.iter().find(|guard| guard.name() == name.as_ref())
    }

    /// Whether all locks are held at this instant, as [`LockGuard::is_valid`] has it. Once false,
    /// it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long all of them are certain to stay held if nothing more is heard of the store; zero
    /// when one is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    /// Blocks until any of the locks is lost, as [`LockGuard::lost`] does: with the name of that
    /// lock and why.
    pub fn lost(&self) -> (&str, LostReason) {
        wait(self.first_lost())
    }

    /// Blocks until any of the locks is lost, but no longer than `timeout`; `None` if all are still
    /// held then.
    pub fn lost_timeout(&self, timeout: Duration) -> Option<(&str, LostReason)> {
        wait_at_most(timeout, self.first_lost())
    }

    async fn first_lost(&self) -> (&str, LostReason) {
        let (lost, reason) = first_lost(self.guards.iter().map(LockGuard::as_async)).await;
        (lost.name(), reason)
    }

    /// Runs `work`, and says whether all of the locks were held from its beginning to its end:
    /// [`LockGuard::run`].
    ///
    /// # Errors
    ///
    /// As [`LockGuard::run`].
    pub fn run<T>(&self, work: impl FnOnce(&Self) -> T) -> Result<T, Lost> {
        self.check()?;
        let outcome = work(self);
        self.check().map(|()| outcome)
    }

    fn check(&self) -> Result<(), Lost> {
        self.guards.iter().try_for_each(LockGuard::check)
    }

    /// Releases all of the locks, at once. `Ok` only when all of their keys are known to be gone
    /// and each was held until then.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::unlock`], for each of them; the first error, once all were tried.
    pub fn unlock(self) -> Result<()> {
        let guards = self.guards.into_iter().map(LockGuard::into_async).collect();
        wait(crate::AllGuard { guards }.unlock())
    }
}
