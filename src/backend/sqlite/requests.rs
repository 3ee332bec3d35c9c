//! What this process has asked of a file.

use crate::runtime::mutex::Mutex;

/// What this process has asked of a file so far: see [`requests`](crate::sqlite::requests).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Looks at a queue or at data, on behalf of somebody.
    pub reads: u64,
    /// Joins, deletes and other writes, but for keepalives.
    pub writes: u64,
    /// Proofs of life.
    pub keepalives: u64,
    /// Transactions that were committed to the disk: what is asked for at the same time is written
    /// together.
    pub commits: u64,
    /// Waiters told that something has happened.
    pub events: u64,
}

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    /// Reads, once dead sessions are put away.
    Look,
    Write,
    Keepalive,
}

impl Kind {
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Keepalive)
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Requests>);

impl Counters {
    pub(super) fn asked(&self, kind: Kind) {
        let mut requests = self.0.lock();
        match kind {
            Kind::Read | Kind::Look => requests.reads += 1,
            Kind::Write => requests.writes += 1,
            Kind::Keepalive => requests.keepalives += 1,
        }
    }

    pub(super) fn committed(&self) {
        self.0.lock().commits += 1;
    }

    /// So many waiters.
    pub(super) fn told(&self, waiters: u64) {
        self.0.lock().events += waiters;
    }

    pub(super) fn read(&self) -> Requests {
        *self.0.lock()
    }
}
