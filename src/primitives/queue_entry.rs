//! Who stands in a lock's queue, as its users see it.

use std::{sync::Arc, time::SystemTime};

use crate::fencing::FencingToken;

/// One who stands in a lock's queue: a holder or one who waits for it. Seen by
/// [`Mutex::queue`](crate::Mutex::queue), [`holder`](crate::Mutex::holder),
/// [`watch_queue`](crate::Mutex::watch_queue), the same of the other primitives, and
/// [`Client::locks`](crate::Client::locks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    pub(super) position: usize,
    pub(super) holds: bool,
    pub(super) owner: String,
    pub(super) token: FencingToken,
    pub(super) since: Option<SystemTime>,
    pub(super) key: Arc<str>,
    /// Tells it from a later key of the same name.
    pub(super) revision: u64,
    pub(super) own: bool,
}

impl QueueEntry {
    /// How many are ahead: 0 is the holder's, or that of one who is about to be.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Whether it holds the lock, or is about to, as nobody stands in its way: the first one, all
    /// readers before the first writer, or those who have permits.
    #[must_use]
    pub fn is_holder(&self) -> bool {
        self.holds
    }

    /// The [`owner`](crate::Builder::owner) of its client. Of another library's waiter it is
    /// whatever was written into the key, if anything.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the fencing token that the entry has, or will have once it is granted.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Since when it stands there, where that is known: by the server's clock on ZooKeeper, by its
    /// owner's otherwise. For people to read: clocks differ.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// When the store created its key, in the store's own count.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the entry's key, as the store's own tools show it. On etcd, a client that acquires a
    /// lock again uses the same key, and only the [fencing token](Self::fencing_token) differs.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it is of the client that looked.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }
}
