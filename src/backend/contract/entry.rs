//! A key in a queue, and what is known of where it stands.

use std::{pin::Pin, sync::Arc};

use crate::backend::error::Result;

/// A key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole key, as the store's own tools show it.
    pub(crate) key: Arc<str>,
    /// When it was created, in the store's own count (etcd create revision, ZooKeeper czxid): rises
    /// from one holder to the next, whatever happened between them. Zero where the store did not
    /// tell it (another's key).
    pub(crate) revision: u64,
    /// The fencing token: the same, but for a key that took another one's place (see `relabel`),
    /// whose token it has.
    pub(crate) token: u64,
    /// It is known to have joined where others were, or may have been.
    pub(crate) crowded: bool,
}

impl Entry {
    /// With its revision as its token, as it mostly is.
    pub(crate) fn new(key: impl Into<Arc<str>>, revision: u64) -> Self {
        Self { key: key.into(), revision, token: revision, crowded: false }
    }
}

/// A point in the order in which the store served the requests of one session. Those of two
/// sessions do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SequencePoint(pub(crate) u64);

impl SequencePoint {
    /// It is the next one after the other.
    pub(crate) fn follows(self, other: Self) -> bool {
        other.0.checked_add(1) == Some(self.0)
    }
}

/// Where an entry stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    First,
    /// Somebody is ahead.
    Behind(Predecessor),
    /// The key is not there any more.
    Evicted,
}

/// The nearest one ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub(crate) entry: Entry,
    /// Nobody was ahead of that one.
    pub(crate) first: bool,
    /// Its key was seen there after we joined. Otherwise that is concluded, and should the key be
    /// found to be gone when it is first looked at, then perhaps it was not the nearest one; if it
    /// is found there, it was.
    pub(crate) seen: bool,
}

/// What there is of one's own key and of the one ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) own: bool,
    pub(crate) ahead: Fate,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
pub(crate) enum Fate {
    There,
    /// It is gone, and nobody knows whose it was: a holder's, or a waiter's that gave up.
    Gone,
    /// It is gone, and the transaction that deleted it says that it was a holder's.
    Released,
}

impl Fate {
    pub(crate) fn of(there: bool) -> Self {
        if there { Self::There } else { Self::Gone }
    }
}

/// A watch on a key that was there. Ends when something has happened to it. An error says nothing
/// of it.
pub(crate) type Watch = Pin<Box<dyn Future<Output = Result<Event>> + Send>>;

/// What came of starting to watch the key ahead of one's own.
pub(crate) enum Watched {
    /// It was there.
    Begun(Watch),
    /// It began before the key was put, and so tells of its end however long ago that was; whether
    /// it is there is not known.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code))]
    Since(Watch),
    /// It was not.
    Gone,
    /// One of the two was not: what there was of both.
    Over(Present),
}

/// What has happened to a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) enum Event {
    Deleted,
    /// Somebody has written to it. Anybody may: it says nothing of whose it is.
    Touched,
}
