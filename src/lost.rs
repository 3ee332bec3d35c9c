//! Why a lock is not held any more.

use std::fmt;

/// Why a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No server confirmed the session in time. The store may or may not have given the lock to
    /// another: it is not known, so it counts as lost.
    DeadlinePassed,
    /// The server says that the lease or session is over.
    SessionExpired,
    /// Somebody deleted this holder's key, or on etcd wrote over it without its lease.
    KeyDeleted,
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
            Self::KeyDeleted => "somebody deleted its key",
            Self::ClientClosed => "the client was closed",
            Self::KeeperStopped => "the session is no longer renewed",
            Self::Forked => "this process was forked from the holder's process",
            Self::HeldTooLong => "it was held for the whole max_hold",
            Self::Released => "its guard has released it",
        })
    }
}

/// The error of [`LockGuard::run`](crate::LockGuard::run): the lock was lost before the future was
/// done, and the future was dropped. Or of `LockGuard::run_blocking`: the lock was lost before the
/// closure had ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lock was lost: {reason}")]
#[non_exhaustive]
pub struct Lost {
    /// Why.
    pub reason: LostReason,
}
