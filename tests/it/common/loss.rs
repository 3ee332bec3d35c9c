//! Records when a holder notices the loss of its lock.

use std::time::Instant;

use distlock::{LockGuard, LostReason};
use tokio::task::JoinHandle;

pub(crate) struct Loss {
    /// When the holder was notified.
    pub(crate) at: Instant,
    pub(crate) reason: LostReason,
    pub(crate) guard: LockGuard,
    valid: bool,
}

/// Waits for the loss of a lock in a task.
pub(crate) fn loss(guard: LockGuard) -> JoinHandle<Loss> {
    tokio::spawn(async move {
        let reason = guard.lost().await;
        Loss { at: Instant::now(), reason, valid: guard.is_valid(), guard }
    })
}

/// Checks that the former holder noticed its loss before the grant to the successor, which has just
/// happened.
pub(crate) async fn precedes_grant(loss: JoinHandle<Loss>) -> Loss {
    let granted = Instant::now();
    assert!(
        loss.is_finished(),
        "the successor was granted the lock before the holder was notified"
    );
    let loss = loss.await.expect("no panic");
    println!("notified {:?} before the grant: {}", granted.duration_since(loss.at), loss.reason);
    assert!(loss.at < granted && !loss.valid, "the lock had two holders");
    loss
}
