//! Processes that live for less time than a session takes to end, one after the other.

use std::time::Duration;

use distlock::{Builder, LockGuard};
use tokio::time::Instant;

use super::{connected, own::TTL};

/// The lock whose holder has died.
pub(crate) const NAME: &str = "a";

/// Whether such a process is granted the lock, which is not to be held by two.
pub(crate) async fn is_taken_briefly(builder: Builder, dead: &LockGuard) -> bool {
    let client = connected(builder).await;
    let taken = client.mutex(NAME).lock_timeout(TTL / 3).await.expect("an answer");
    let is_taken = taken.is_some();
    if let Some(guard) = taken {
        assert!(!dead.is_valid(), "both hold it");
        guard.unlock().await.expect("released");
    }
    client.close().await.expect("closed");
    is_taken
}

/// How long after this it takes until one of them is granted the lock.
pub(crate) async fn taken_after(
    start: Instant,
    builder: impl Fn() -> Builder,
    dead: &LockGuard,
) -> Duration {
    while !is_taken_briefly(builder(), dead).await {
        assert!(start.elapsed() < TTL * 6, "it is never granted");
    }
    start.elapsed()
}
