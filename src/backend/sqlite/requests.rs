//! What this process has asked of a file.

use crate::runtime::mutex::Mutex;

/// What this process has asked of a file so far: see [`requests`](crate::sqlite::requests).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)]
pub struct Requests {
    /// Looks at a queue or at data, on behalf of somebody.
    pub reads: u64,
    /// Joins, deletes and other writes, but for keepalives.
    pub writes: u64,
    /// Proofs of life.
    pub keepalives: u64,
    /// Transactions that were committed: what is asked for at the same time is written together.
    pub commits: u64,
    /// Those of them that were flushed to the disk: guarded writes, and a block of fencing tokens
    /// now and then. SQLite flushes besides when it moves its WAL into the file.
    pub flushes: u64,
    /// Waiters told that something has happened.
    pub events: u64,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// Reads, once dead sessions are put away.
    Look,
    /// Writes what is over with the boot, and draws at most so many numbers.
    Write(usize),
    /// Writes data, which outlasts the boot, and draws at most so many numbers.
    Data(usize),
    Keepalive,
}

/// What a transaction does, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    Reads,
    Writes,
    /// Writes, and what it wrote is on the disk before it counts.
    Flushes,
}

impl Kind {
    /// What it needs, if there are numbers enough.
    ///
    /// Only a loss of power undoes a commit that was not flushed
    /// (<https://sqlite.org/pragma.html#pragma_synchronous>). Then the boot is another one, and all
    /// sessions with their locks are over anyway.
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

    /// So many waiters were notified.
    pub(super) fn notified(&self, waiters: u64) {
        self.0.lock().events += waiters;
    }

    pub(super) fn read(&self) -> Requests {
        *self.0.lock()
    }
}
