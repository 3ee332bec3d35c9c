//! The requests to a store, and their outcomes.

use std::time::Duration;

use super::{
    entry::{Entry, SequencePoint, Standing},
    name::{Queue, Ticket},
};

/// A client that joins and leaves a queue. The ticket finds its key there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joiner<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) ticket: Ticket,
}

/// How to join a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Behind all keys in the queue.
    Always,
    /// Only if the queue is empty. Otherwise nothing is written, if the store can check that in
    /// time.
    IfFree,
}

/// The outcome of joining.
#[derive(Debug)]
pub(crate) enum Joined {
    Queued {
        entry: Entry,
        standing: Standing,
        /// The point at which it joined.
        at: SequencePoint,
        /// For how long the session lives, as `keep_alive` returns it, if joining renewed the
        /// session.
        alive: Option<Duration>,
        /// The queue contained nothing else, not even a note.
        alone: bool,
    },
    /// The queue is not empty, and nothing was written ([`Join::IfFree`]).
    Occupied,
}

/// How to leave a queue.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
pub(crate) struct LeaveRequest<'a> {
    /// `None` if the reply to `enqueue` was lost. Then the ticket finds the key.
    pub(crate) entry: Option<&'a Entry>,
    /// The client leaves as a holder.
    pub(crate) held: bool,
    /// A successor whose key is read in the same transaction.
    pub(crate) successor: Option<&'a Entry>,
}

/// The outcome of leaving a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaveOutcome {
    /// The key existed.
    pub(crate) existed: bool,
    /// The successor's key existed at the same moment.
    pub(crate) successor: bool,
    pub(crate) at: SequencePoint,
}

/// A write to a key of this session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rewrite<'a> {
    #[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
    pub(crate) ticket: Ticket,
    pub(crate) entry: &'a Entry,
    pub(crate) value: &'a [u8],
    /// Overwrites only this version. `None`: the version at the key's creation.
    pub(crate) version: Option<u64>,
}

/// The outcome of writing to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewritten {
    /// The key now has this version.
    Done(u64),
    /// The key had this version, and nothing was written.
    Not(u64),
    /// The key no longer exists.
    Gone,
}

/// A write to data that belongs to no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Creates or overwrites the key. It belongs to no session.
    Put { key: String, value: Vec<u8> },
    /// Deletes the key, if it exists.
    Delete { key: String },
}
