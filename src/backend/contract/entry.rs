//! A key in a queue, and its position.

use std::{pin::Pin, sync::Arc};

use crate::backend::error::Result;

/// A key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole key, as the store's own tools print it.
    pub(crate) key: Arc<str>,
    /// When it was created, in the store's own count (etcd create revision, ZooKeeper czxid). It
    /// rises from one holder to the next, whatever happened between them. Zero if the store did not
    /// return it (another client's key).
    pub(crate) revision: u64,
    /// The fencing token: the revision, or for a key that replaced another one (see `relabel`) that
    /// one's token.
    pub(crate) token: u64,
    /// The key joined a queue where other keys were, or may have been.
    pub(crate) crowded: bool,
}

impl Entry {
    /// Returns an entry whose token is its revision, which is the usual case.
    pub(crate) fn new(key: impl Into<Arc<str>>, revision: u64) -> Self {
        Self { key: key.into(), revision, token: revision, crowded: false }
    }
}

/// A point in the order in which the store served the requests of one session. The points of two
/// sessions do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SequencePoint(pub(crate) u64);

impl SequencePoint {
    /// Returns `true` if this is the next point after the other.
    pub(crate) fn follows(self, other: Self) -> bool {
        other.0.checked_add(1) == Some(self.0)
    }
}

/// The position of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    First,
    /// Another key is ahead.
    Behind(Predecessor),
    /// The key no longer exists.
    Evicted,
}

/// The nearest key ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub(crate) entry: Entry,
    /// No key was ahead of the predecessor.
    pub(crate) first: bool,
    /// The predecessor's key was read after this client joined.
    ///
    /// Otherwise it was inferred. If the first read of the key finds it, it was the nearest one. If
    /// not, perhaps another key was nearer.
    pub(crate) seen: bool,
}

/// The state of a client's own key and its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) own: bool,
    pub(crate) ahead: Fate,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
pub(crate) enum Fate {
    There,
    /// It is gone, and may have been a holder's, or that of a waiter that gave up.
    Gone,
    /// It is gone, and the transaction that deleted it has recorded that it was a holder's.
    Released,
}

impl Fate {
    pub(crate) fn of(there: bool) -> Self {
        if there { Self::There } else { Self::Gone }
    }
}

/// A watch on a key that existed. It completes when something has happened to the key. An error
/// says nothing about the key.
pub(crate) type Watch = Pin<Box<dyn Future<Output = Result<Event>> + Send>>;

/// The outcome of starting to watch the predecessor.
pub(crate) enum Watched {
    /// The key existed.
    Begun(Watch),
    /// The watch began before the key was put, so it reports the key's deletion however long ago
    /// that was. It is not known if the key exists.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code))]
    Since(Watch),
    /// The key did not exist.
    Gone,
    /// At least one of the two keys did not exist. Contains the state of both.
    Over(Present),
}

/// An event of a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) enum Event {
    Deleted,
    /// The key was written to. Any client may do that, so the event does not show whose key it is.
    Touched,
}
