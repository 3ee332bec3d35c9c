//! Counts the requests of this process to a file.

use crate::runtime::mutex::Mutex;

/// Counts this process's requests to a file: see [`requests`](crate::sqlite::requests).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)]
pub struct Requests {
    /// Reads of a queue or of data, for a caller.
    pub reads: u64,
    /// Joins, deletes and other writes, except keepalives.
    pub writes: u64,
    /// Keepalives.
    pub keepalives: u64,
    /// Committed transactions that wrote. Requests that arrive at the same time share one.
    pub commits: u64,
    /// Commits that were flushed to the disk: writes of data, evictions, and reservations of blocks
    /// of fencing tokens. SQLite also flushes when it checkpoints the WAL.
    pub flushes: u64,
    /// Notified waiters.
    pub events: u64,
}

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// Reads, after dead sessions were removed.
    Look,
    /// Writes that need not outlast the boot, and draws up to this many numbers.
    Write(usize),
    /// Writes data that must outlast the boot, and draws up to this many numbers.
    Data(usize),
    Keepalive,
}

/// The access of a transaction, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Reads,
    Writes,
    /// Writes that are flushed to the disk before they count.
    Flushes,
}

impl Kind {
    /// Returns the access that a request needs, if there are enough numbers.
    ///
    /// Only a power loss or a kernel crash undoes a commit that was not flushed
    /// (<https://sqlite.org/pragma.html#pragma_synchronous>), unless the disk fails. Both also end
    /// the boot, and with it all sessions and their locks.
    pub(super) fn access(self) -> Access {
        match self {
            Self::Read | Self::Look => Access::Reads,
            Self::Write(_) | Self::Keepalive => Access::Writes,
            Self::Data(_) => Access::Flushes,
        }
    }

    pub(super) fn numbers(self) -> usize {
        match self {
            Self::Read | Self::Look | Self::Keepalive => 0,
            Self::Write(numbers) | Self::Data(numbers) => numbers,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Requests>);

impl Counters {
    pub(super) fn asked(&self, kind: Kind) {
        let mut requests = self.0.lock();
        match kind {
            Kind::Read | Kind::Look => requests.reads += 1,
            Kind::Write(_) | Kind::Data(_) => requests.writes += 1,
            Kind::Keepalive => requests.keepalives += 1,
        }
    }

    pub(super) fn committed(&self, access: Access) {
        let mut requests = self.0.lock();
        requests.commits += 1;
        requests.flushes += u64::from(access == Access::Flushes);
    }

    /// Counts notified waiters.
    pub(super) fn notified(&self, waiters: u64) {
        self.0.lock().events += waiters;
    }

    pub(super) fn read(&self) -> Requests {
        *self.0.lock()
    }
}
