//! A release that a transaction of the user's own makes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{pending_release::PendingRelease, time_limit::reached};
use crate::{runtime::mutex::Mutex, session::Session};

/// A release that is left to a transaction of the user's own. Once this is dropped, a task of the
/// client's makes it, which finds nothing to do where that transaction was committed, and waits for
/// it where it is still under way. So the key is deleted whatever becomes of the transaction.
///
/// Not before: a release in the midst of the transaction would leave it nothing to delete.
#[derive(Debug)]
#[cfg_attr(not(any(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]
pub(crate) struct DeferredRelease {
    session: Arc<Session>,
    pending: Arc<Mutex<Option<PendingRelease>>>,
    /// As long as this lives, the longest time of holding ends it.
    _limited: oneshot::Sender<()>,
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
        Self { session, pending, _limited: limited }
    }

    /// The transaction has made it, and is known to be committed.
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
        let pending = self.take();
        if self.session.deadline.is_inherited() {
            // The key is the parent's, and so is the connection that the session's end would use.
            std::mem::forget((Arc::clone(&self.session), pending));
            return;
        }
        if let Some(pending) = pending {
            pending.spawn();
        }
    }
}

#[cfg(test)]
mod tests;
