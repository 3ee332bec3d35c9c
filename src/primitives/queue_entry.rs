//! The entries of a lock's queue, as users see them.

use std::{sync::Arc, time::SystemTime};

use crate::fencing::FencingToken;

/// Describes a holder or a waiter in a lock's queue.
///
/// Returned by [`Mutex::queue`](crate::Mutex::queue), [`holder`](crate::Mutex::holder),
/// [`watch_queue`](crate::Mutex::watch_queue), the same methods of the other primitives, and
/// [`Client::locks`](crate::Client::locks).
///
/// On PostgreSQL, MySQL, MariaDB and Redis, a queue may contain entries that belong to no client:
/// after a failover, a restore, or an upgrade of distlock's tables or keys. On Redis, this also
/// happens after a crash, after a move of the cluster's slot, and on a new server. The
/// [`owner`](Self::owner) of these entries begins with `distlock: the database has failed over`.
/// Waiters behind them are granted the lock once these entries have expired: see [After a failover
/// or a restore][failover].
///
/// [failover]: https://github.com/distlock/distlock/blob/main/docs/ops/failover.md
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    pub(super) position: usize,
    pub(super) holds: bool,
    pub(super) owner: String,
    pub(super) token: FencingToken,
    pub(super) since: Option<SystemTime>,
    pub(super) key: Arc<str>,
    /// Distinguishes the key from a later key of the same name.
    pub(super) revision: u64,
    pub(super) own: bool,
}

impl QueueEntry {
    /// Returns the number of entries ahead.
    ///
    /// The entry at position 0 holds the lock, or is about to. An entry that belongs to no client
    /// is the exception: see [`QueueEntry`].
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }

    /// Returns `true` if the entry holds the lock, or is about to.
    ///
    /// The result may also be `true` for a first entry that belongs to no client: see
    /// [`QueueEntry`].
    ///
    /// The holder of a mutex or an election is the first entry. The holders of a read-write lock
    /// are a writer at position 0, or each reader ahead of the first writer. The holders of a
    /// semaphore are the entries that have permits.
    #[must_use]
    pub fn is_holder(&self) -> bool {
        self.holds
    }

    /// Returns the [`owner`](crate::Builder::owner) of the entry's client.
    ///
    /// In an election, the result is the candidate's value instead. For a client of another
    /// library, the result is the text in the client's key, if any.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns the fencing token that the entry has, or will have once it is granted.
    ///
    /// A waiter of a semaphore gets another token when it becomes the first waiter.
    ///
    /// With a bridge on Redis, the token of another library's lock is 0.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Returns the time at which the entry joined the queue, if it is known.
    ///
    /// For the holders and the first waiter of a semaphore, this is when they became the first
    /// waiter. After a [downgrade](crate::WriteGuard::downgrade), it may be the time of the
    /// downgrade.
    ///
    /// On etcd and in memory, the time is from the owner's clock, and is not known in an election.
    /// On SQLite, the time is from the host's clock, and on other stores from the server's. Use the
    /// time only for display, because clocks differ.
    #[must_use]
    pub fn since(&self) -> Option<SystemTime> {
        self.since
    }

    /// Returns when the store created the key, in the store's own count.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the entry's key.
    ///
    /// On etcd and ZooKeeper, the store's own tools show this key. On databases and Redis, the key
    /// is composed of the names and numbers that identify the entry.
    ///
    /// On etcd, a client that acquires a lock again may use the same key. The [fencing
    /// token](Self::fencing_token) then differs.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns `true` if the entry belongs to the client that read the queue.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.own
    }
}
