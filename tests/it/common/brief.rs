//! Short-lived clients, one after the other, each of which lives for less than a session's TTL.

use std::time::Duration;

use distlock::{Builder, LockGuard};
use tokio::time::Instant;

use super::{connected, own::TTL};

/// The lock of the crashed holder.
pub(crate) const NAME: &str = "a";

/// Returns `true` if a short-lived client is granted the lock, which must not have two holders.
pub(crate) async fn is_taken_briefly(builder: Builder, dead: &LockGuard) -> bool {
    let client = connected(builder).await;
    let taken = client.mutex(NAME).lock_timeout(TTL / 3).await.expect("a reply");
    let is_taken = taken.is_some();
    if let Some(guard) = taken {
        assert!(!dead.is_valid(), "the lock has two holders");
        guard.unlock().await.expect("released");
    }
    client.close().await.expect("closed");
    is_taken
}

/// Returns how long after `start` a short-lived client is granted the lock.
pub(crate) async fn taken_after(
    start: Instant,
    builder: impl Fn() -> Builder,
    dead: &LockGuard,
) -> Duration {
    while !is_taken_briefly(builder(), dead).await {
        assert!(start.elapsed() < TTL * 6, "the lock is never granted");
    }
    start.elapsed()
}
