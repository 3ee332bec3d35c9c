//! What this process has asked of a file.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
pub(super) struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    keepalives: AtomicU64,
    commits: AtomicU64,
    events: AtomicU64,
}

impl Counters {
    pub(super) fn asked(&self, kind: Kind) {
        let counter = match kind {
            Kind::Read | Kind::Look => &self.reads,
            Kind::Write => &self.writes,
            Kind::Keepalive => &self.keepalives,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn committed(&self) {
        self.commits.fetch_add(1, Relaxed);
    }

    pub(super) fn told(&self) {
        self.events.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> Requests {
        Requests {
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            keepalives: self.keepalives.load(Relaxed),
            commits: self.commits.load(Relaxed),
            events: self.events.load(Relaxed),
        }
    }
}
