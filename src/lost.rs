//! Why a lock is no longer held.

use std::fmt;

/// Tells why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No server confirmed the session in time. The store may or may not have given the lock to
    /// another: it is not known, so it counts as lost.
    DeadlinePassed,
    /// The server says that the lease or session is over.
    SessionExpired,
    /// An operator deleted the holder's key, or on etcd overwrote it without its lease.
    Evicted,
    /// [`Client::close`](crate::Client::close) was called.
    ClientClosed,
    /// The task that renews the session has ended: the runtime of
    /// [`Builder::runtime`](crate::Builder::runtime) was shut down, or a metrics recorder or a
    /// tracing subscriber panicked. The store frees the lock a TTL later.
    KeeperStopped,
    /// This process is a child that was forked while its parent held the lock. The parent's guard
    /// is not affected.
    Forked,
    /// It was held for as long as `max_hold` allows: [`Mutex::max_hold`](crate::Mutex::max_hold).
    HeldTooLong,
    /// Its guard was unlocked or dropped. Only a [`LockHandle`](crate::LockHandle) outlives that.
    Released,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeadlinePassed => "no server confirmed the session in time",
            Self::SessionExpired => "the server says that the session is over",
            Self::Evicted => "an operator evicted it",
            Self::ClientClosed => "the client was closed",
            Self::KeeperStopped => "the session is no longer renewed",
            Self::Forked => "this process was forked from the holder's process",
            Self::HeldTooLong => "it was held for the whole max_hold",
            Self::Released => "its guard has released it",
        })
    }
}

/// Tells that a lock was lost: the error of [`LockGuard::run`](crate::LockGuard::run).
///
/// The future was not done, and has been dropped. `?` turns it into
/// [`Error::Lost`](crate::Error::Lost), which keeps the name and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock {name:?} was lost ({reason})")]
#[non_exhaustive]
pub struct Lost {
    /// The lock's name.
    pub name: String,
    /// Why it was lost.
    pub reason: LostReason,
}
