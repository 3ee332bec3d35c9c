//! Watching a queue.

use std::time::Duration;

use super::{wait, wait_at_most};
use crate::QueueEntry;

/// The queue of a lock, now and whenever it has changed: an iterator that blocks until then, and
/// ends when the client is closed. Made by [`Mutex::watch_queue`](super::Mutex::watch_queue).
///
/// As [`distlock::QueueWatch`](crate::QueueWatch) it keeps the client open. Dropping it ends the
/// watch.
#[derive(Debug)]
#[must_use = "it does nothing unless it is asked for the next change"]
pub struct QueueWatch {
    changes: crate::QueueWatch,
}

impl QueueWatch {
    pub(super) fn new(changes: crate::QueueWatch) -> Self {
        Self { changes }
    }

    /// The queue once it has changed, but waits for no longer than this; `None` when the time is
    /// up, or the client is closed. Nothing is missed: the next call may have it.
    #[must_use = "what it has told is not told again"]
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Vec<QueueEntry>> {
        wait_at_most(timeout, self.changes.next()).flatten()
    }
}

impl Iterator for QueueWatch {
    type Item = Vec<QueueEntry>;

    fn next(&mut self) -> Option<Vec<QueueEntry>> {
        wait(self.changes.next())
    }
}
