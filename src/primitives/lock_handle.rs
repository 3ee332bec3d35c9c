//! Handles, which give other tasks access to a held lock.

use std::ops::Deref;

use crate::primitives::guard::LockGuard;

/// Gives other tasks access to a lock that a [`LockGuard`] holds.
///
/// Created by [`LockGuard::handle`]. A handle is owned and can be cloned. A task with a handle can
/// await the loss ([`lost`](LockGuard::lost)) or check for it ([`is_valid`](LockGuard::is_valid)),
/// while the guard stays with the task that unlocks it.
///
/// The handle has all methods of a guard that take `&self`. Methods that take the guard itself,
/// such as [`unlock`](LockGuard::unlock), are not available. Dropping the handle does not release
/// the lock. Once the guard has released the lock, the handle is invalid and its writes are
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
    /// Returns a handle to this lock for other tasks.
    ///
    /// The handle can be cloned, and does not keep the lock held. It can be passed to functions
    /// that take a `&LockGuard`. Once the guard is unlocked or dropped, its handles are invalid:
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

#[cfg(feature = "tokio-util-0_7")]
impl LockGuard {
    /// Returns a token that is cancelled when the lock is lost or released.
    ///
    /// Pass the token to code that stops on a `CancellationToken`. Clone the token instead of
    /// calling this method again, because each call starts a task. A timer cancels the token at the
    /// deadline, so check [`is_valid`](Self::is_valid) before a write that must not be late. This
    /// method needs the feature `tokio-util-0_7`.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-cancellation-token").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let token = guard.cancellation_token();
    /// assert!(!token.is_cancelled());
    /// guard.unlock().await?;
    /// token.cancelled().await;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        let token = tokio_util::sync::CancellationToken::new();
        // The token is also cancelled if the runtime shuts down and drops the task.
        let cancels = token.clone().drop_guard();
        if self.lost_reason().is_none() {
            let handle = self.handle();
            self.held.session.shared.runtime.spawn(async move {
                handle.lost().await;
                drop(cancels);
            });
        }
        token
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
