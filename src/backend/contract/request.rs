//! What is asked of a store, and what comes of it.

use std::time::Duration;

use super::{
    entry::{Entry, SequencePoint, Standing},
    name::{Queue, Ticket},
};

/// One who joins a queue and leaves it: its key there is found by the ticket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joiner<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) ticket: Ticket,
}

/// How to join a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Behind all that are there.
    Always,
    /// Only if nobody is there; where the store can tell in time, nothing is written otherwise.
    IfFree,
}

/// The outcome of joining.
#[derive(Debug)]
pub(crate) enum Joined {
    Queued {
        entry: Entry,
        standing: Standing,
        /// When it joined.
        at: SequencePoint,
        /// Where joining was a proof of life too: as the answer of `keep_alive`.
        alive: Option<Duration>,
        /// Nothing else was in the queue, not even a note.
        alone: bool,
    },
    /// Somebody is there, and nothing was written ([`Join::IfFree`]).
    Occupied,
}

/// How to leave a queue.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
pub(crate) struct LeaveRequest<'a> {
    /// `None` when the reply to `enqueue` was lost: then the key is found by its ticket.
    pub(crate) entry: Option<&'a Entry>,
    /// As a holder.
    pub(crate) held: bool,
    /// Whose key to look for in the same transaction.
    pub(crate) successor: Option<&'a Entry>,
}

/// The outcome of leaving a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaveOutcome {
    /// The key was there.
    pub(crate) existed: bool,
    /// So was the successor's, at the same moment.
    pub(crate) successor: bool,
    pub(crate) at: SequencePoint,
}

/// What to write into an own key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewrite<'a> {
    #[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
    pub(crate) ticket: Ticket,
    pub(crate) entry: &'a Entry,
    pub(crate) value: &'a [u8],
    /// Only over this version. `None`: as it was created.
    pub(crate) version: Option<u64>,
}

/// The outcome of writing into a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewritten {
    /// It is of this version now.
    Done(u64),
    /// It was of this version, and nothing was written.
    Not(u64),
    /// It is not there any more.
    Gone,
}

/// A write to the store's own data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Creates the key or writes over it. It belongs to no session.
    Put { key: String, value: Vec<u8> },
    /// Absent is fine.
    Delete { key: String },
}
