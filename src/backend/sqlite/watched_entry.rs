//! A watch of a waiter.

use tokio::sync::oneshot;

use crate::backend::{Entry, Event, Result};

/// The subject of a watch.
#[derive(Debug)]
pub(super) enum What {
    /// The watch fires when the entry has gone.
    Entry(Entry),
    /// The watch fires when the queue of this name no longer has this digest.
    Queue(String, Look),
}

/// A digest of a queue: how many entries and notes it has, and the last change of each. Each write
/// has a number of its own, so equal digests mean an unchanged queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look(pub(super) [i64; 4]);

/// A waiter's watch.
#[derive(Debug)]
pub(super) struct WatchedEntry {
    pub(super) what: What,
    pub(super) event: oneshot::Sender<Result<Event>>,
}
