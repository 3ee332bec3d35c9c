//! One who waits, and for what.

use tokio::sync::oneshot;

use crate::backend::{Entry, Event, Result};

/// What one waits for.
#[derive(Debug)]
pub(super) enum What {
    /// That the entry is there no more.
    Entry(Entry),
    /// That anything happens in the queue of this name, which looked like that.
    Queue(String, Look),
}

/// How a queue looks, in short: how many entries and notes there are, and which were last written.
/// What is written gets a number that was never there: what looks the same is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look(pub(super) [i64; 4]);

/// One who waits.
#[derive(Debug)]
pub(super) struct WatchedEntry {
    pub(super) what: What,
    pub(super) event: oneshot::Sender<Result<Event>>,
}
