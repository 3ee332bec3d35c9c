//! Why a lock is no longer held.

use std::fmt;

/// Reports why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The session was not confirmed in time.
    ///
    /// The store may grant the lock to another client, so the lock counts as lost.
    DeadlinePassed,
    /// The store reported that the lease or session has ended.
    ///
    /// On ZooKeeper, the servers may also have rejected the credentials when the client
    /// reconnected.
    SessionExpired,
    /// An operator evicted the holder, for example by deleting the holder's key.
    ///
    /// An [`unlock`](crate::LockGuard::unlock) that finds no key reports this reason, too, apart
    /// from the exceptions that it documents. So does a guarded write that the store refuses,
    /// unless the client already knows another reason.
    ///
    /// On etcd, overwriting the key without its lease is an eviction, too. With a bridge on Redis,
    /// so is the deletion or takeover of the key that other libraries use. On Redlock, this reason
    /// means that fewer than a majority of the nodes still had the key: an operator overwrote it,
    /// or nodes were restarted, or their clocks were changed. A key that an operator deletes is
    /// usually written again by the next renewal.
    Evicted,
    /// [`Client::close`](crate::Client::close) was called, or
    /// [`Client::shutdown`](crate::Client::shutdown) closed the client.
    ClientClosed,
    /// The task that renews the session has ended.
    ///
    /// Either the program's runtime on which the client runs was shut down (see
    /// [`Builder::runtime`](crate::Builder::runtime)), or a metrics recorder or a tracing
    /// subscriber panicked. The store frees the lock when the session expires.
    KeeperStopped,
    /// This process was forked, and the guard belongs to its parent.
    ///
    /// The parent's guard is not affected.
    Forked,
    /// The lock was held for its `max_hold`: see [`Mutex::max_hold`](crate::Mutex::max_hold).
    HeldTooLong,
    /// The guard was unlocked, [downgraded](crate::WriteGuard::downgrade) or dropped.
    ///
    /// Only a handle to the guard reports this: a [`LockHandle`](crate::LockHandle) or a
    /// [`LeadershipHandle`](crate::LeadershipHandle).
    Released,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeadlinePassed => "the session was not confirmed in time",
            Self::SessionExpired => "the store has ended the session",
            Self::Evicted => "the holder was evicted: its key was deleted or overwritten",
            Self::ClientClosed => "the client was closed",
            Self::KeeperStopped => "the session is no longer renewed",
            Self::Forked => "this process was forked from the holder's process",
            Self::HeldTooLong => "the lock's max_hold has passed",
            Self::Released => "the guard was unlocked, downgraded or dropped",
        })
    }
}

/// Reports that a lock was lost.
///
/// [`LockGuard::run`](crate::LockGuard::run) returns this error after dropping a future that had
/// not finished. [`LockGuard::hold_at_least`](crate::LockGuard::hold_at_least) returns it, too. `?`
/// converts it into [`Error::Lost`](crate::Error::Lost), which keeps the name and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock {name:?} was lost ({reason})")]
#[non_exhaustive]
pub struct Lost {
    /// The lock's name.
    pub name: String,
    /// Why the lock was lost.
    pub reason: LostReason,
}
