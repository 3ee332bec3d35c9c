//! A waiter for changes of a key or a queue.

use super::session::Session;
use crate::backend::{
    Event, Watch,
    sql::watched::{Waiting, What},
};

/// Ends the watch when it is dropped.
pub(super) struct Registered {
    session: Session,
    waiting: Waiting,
}

impl Registered {
    pub(super) fn new(session: &Session, what: What) -> Self {
        Self { session: session.clone(), waiting: session.watches.wait(what) }
    }

    pub(super) fn until(mut self, event: Event) -> Watch {
        Box::pin(async move { self.waiting.changed().await.map(|()| event) })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.session.watches.leave(&self.waiting);
    }
}
