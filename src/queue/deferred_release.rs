//! A release that one of the user's transactions performs.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{pending_release::PendingRelease, time_limit::reached};
use crate::{runtime::mutex::Mutex, session::Session};

/// A release that is left to one of the user's transactions.
///
/// Dropping this value starts the release in a background task, so the key is deleted whether or
/// not the transaction commits. If the transaction has committed, the task finds nothing to delete.
/// If the transaction is still open, the task waits for it. The task must not start earlier: it
/// would delete the key before the transaction can.
#[derive(Debug)]
#[cfg_attr(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]
pub(crate) struct DeferredRelease {
    session: Arc<Session>,
    pending: Arc<Mutex<Option<PendingRelease>>>,
    /// While this sender exists, the maximum hold time still applies.
    limited: Option<oneshot::Sender<()>>,
}

#[cfg_attr(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]
impl DeferredRelease {
    pub(super) fn new(pending: PendingRelease) -> Self {
        let session = Arc::clone(&pending.session);
        let until = pending.own.as_ref().and_then(|own| own.holds_until());
        let pending = Arc::new(Mutex::new(Some(pending)));
        let (limited, dropped) = oneshot::channel();
        if let Some(until) = until {
            let late = Arc::downgrade(&pending);
            session.shared.runtime.spawn(async move {
                tokio::select! {
                    biased;
                    _ = dropped => return,
                    () = reached(until) => {}
                }
                let late = late.upgrade().and_then(|late| late.lock().take());
                if let Some(pending) = late {
                    pending.spawn();
                }
            });
        }
        Self { session, pending, limited: Some(limited) }
    }

    /// Records that the transaction has committed and thereby released the lock.
    pub(crate) fn was_made(self) {
        if let Some(pending) = self.take() {
            pending.was_made();
        }
    }

    fn take(&self) -> Option<PendingRelease> {
        self.pending.lock().take()
    }
}

impl Drop for DeferredRelease {
    fn drop(&mut self) {
        if self.session.deadline.is_inherited() {
            // The key belongs to the parent, and so does the connection that ending the session
            // would use. A thread of the parent may have held the lock, and dropping the sender
            // would wake its task.
            std::mem::forget((
                Arc::clone(&self.session),
                Arc::clone(&self.pending),
                self.limited.take(),
            ));
            return;
        }
        if let Some(pending) = self.take() {
            pending.spawn();
        }
    }
}

#[cfg(test)]
mod tests;
