//! One who waits for what happens to a key, or in a queue.

use std::{fmt, sync::Arc};

use super::watches::{Waiting, Watches, What};
use crate::backend::error::Result;

/// Takes the watch back if it is dropped, and nobody else here has it.
pub(crate) struct Registered {
    watches: Arc<Watches>,
    waiting: Waiting,
    pub(crate) what: What,
    /// The server knows of it.
    pub(crate) known: bool,
    untell: Box<dyn Fn(&What) + Send + Sync>,
}

impl Registered {
    /// `untell` tells the server that nobody waits for it any more.
    pub(crate) fn new(
        watches: &Arc<Watches>,
        (dir, number): (&str, u64),
        untell: impl Fn(&What) + Send + Sync + 'static,
    ) -> Self {
        let what: What = (dir.into(), number);
        let waiting = watches.wait(what.clone());
        let (watches, untell) = (Arc::clone(watches), Box::new(untell));
        Self { watches, waiting, what, known: true, untell }
    }

    pub(crate) async fn news(&mut self) -> Result<()> {
        self.waiting.news().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.watches.leave(&self.waiting, || {
            if self.known {
                (self.untell)(&self.what);
            }
        });
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").field("what", &self.what).finish_non_exhaustive()
    }
}
