//! A lock that another task's guard holds.

use std::ops::Deref;

use crate::primitives::guard::LockGuard;

/// An owned handle of a lock that a [`LockGuard`] holds, for other tasks, which can be cloned.
/// Created by [`LockGuard::handle`].
///
/// It has all methods of a guard except [`unlock`](LockGuard::unlock). Dropping the handle does not
/// release the lock. Once the guard has released the lock, the handle is invalid and its writes are
/// refused. A handle keeps the client's session open.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::connect("memory://docs-lock-handle").await?;
/// let guard = client.mutex("a").lock().await?;
/// let handle = guard.handle();
/// assert_eq!(handle.fencing_token(), guard.fencing_token());
/// handle.put("/app/state", "written under the lock").await?;
/// guard.unlock().await?;
/// assert!(!handle.is_valid());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LockHandle(LockGuard);

impl LockGuard {
    /// Returns a handle of this lock for other tasks. It can be cloned, and does not keep the lock.
    ///
    /// Everything that takes a guard by reference takes a handle, too. Once the guard is unlocked
    /// or dropped, its handles are no longer valid:
    /// [`LostReason::Released`](crate::LostReason::Released).
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-handle").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let handle = guard.handle();
    /// let watcher = tokio::spawn(async move { handle.lost().await });
    /// guard.unlock().await?;
    /// assert_eq!(watcher.await.expect("no panic"), LostReason::Released);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn handle(&self) -> LockHandle {
        LockHandle(self.view())
    }
}

impl Clone for LockHandle {
    fn clone(&self) -> Self {
        Self(self.0.view())
    }
}

impl Deref for LockHandle {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}
