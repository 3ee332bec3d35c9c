//! One who waits for what happens to a key, or in a queue.

use super::{looks::What, session::Session, watches::Waiting};
use crate::backend::error::Result;

/// Takes the watch back when it is dropped.
pub(super) struct Registered {
    session: Session,
    waiting: Waiting,
}

impl Registered {
    pub(super) fn new(session: &Session, what: What) -> Self {
        Self { session: session.clone(), waiting: session.watches.wait(what) }
    }

    pub(super) async fn news(&mut self) -> Result<()> {
        self.waiting.news().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.session.watches.leave(&self.waiting);
    }
}
