//! A holder that loses its lock: when it knows.

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

/// Waits for the loss.
pub(crate) fn loss(guard: LockGuard) -> JoinHandle<Loss> {
    tokio::spawn(async move {
        let reason = guard.lost().await;
        Loss { at: Instant::now(), reason, valid: guard.is_valid(), guard }
    })
}

/// A successor has just been granted the lock: its former holder has to know before.
pub(crate) async fn precedes_grant(loss: JoinHandle<Loss>) -> Loss {
    let granted = Instant::now();
    assert!(loss.is_finished(), "the successor is there, and the holder was not notified");
    let loss = loss.await.expect("no panic");
    println!("notified {:?} before the grant: {}", granted.duration_since(loss.at), loss.reason);
    assert!(loss.at < granted && !loss.valid, "both held it");
    loss
}
