//! Reads a lock's queues: its holders and its waiters.

use std::{fmt, sync::Arc};

use crate::{
    backend::{Entry, Member, name::Queue, signature},
    error::{Error, Result},
    fencing::FencingToken,
    primitives::{queue_entry::QueueEntry, rwlock::rule, semaphore::limit},
    queue::snapshot::{self, Snapshot},
    session::Sessions,
};

/// Names a kind of lock.
///
/// Returned by [`LockInfo::kind`](crate::LockInfo::kind). The `Display` output is `mutex`,
/// `rw_lock`, `semaphore` or `election`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockKind {
    /// A [`Mutex`](crate::Mutex).
    Mutex,
    /// An [`RwLock`](crate::RwLock).
    RwLock,
    /// A [`Semaphore`](crate::Semaphore).
    Semaphore,
    /// An [`Election`](crate::Election).
    Election,
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Mutex => "mutex",
            Self::RwLock => "rw_lock",
            Self::Semaphore => "semaphore",
            Self::Election => "election",
        })
    }
}

impl LockKind {
    pub(crate) const ALL: [Self; 4] = [Self::Mutex, Self::RwLock, Self::Semaphore, Self::Election];

    /// Returns the queues of the lock. If there are two, the waiters are in the first one.
    pub(crate) fn queues(self, lock: &Queue) -> Vec<Queue> {
        match self {
            Self::Mutex => vec![lock.clone()],
            Self::RwLock => vec![lock.of("rw")],
            Self::Semaphore => vec![lock.gate(), lock.permits()],
            Self::Election => vec![lock.election()],
        }
    }

    /// Returns the number of holders in the last of its queues. `somebody_waits` is `true` if the
    /// first of two queues is not empty.
    fn holding(self, Snapshot { members, notes }: &Snapshot, somebody_waits: bool) -> usize {
        match self {
            Self::Mutex | Self::Election => members.len().min(1),
            Self::RwLock => rule::holding(members),
            Self::Semaphore => limit::holding(members, notes, somebody_waits),
        }
    }
}

/// A lock whose queues are read.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(super) sessions: Sessions,
    kind: LockKind,
    pub(super) queues: Vec<Queue>,
}

impl Viewer {
    pub(crate) fn new(sessions: Sessions, kind: LockKind, lock: &Queue) -> Self {
        Self { sessions, kind, queues: kind.queues(lock) }
    }

    /// Returns `true` if holders can change the values of their entries.
    pub(super) fn values_change(&self) -> bool {
        self.kind == LockKind::Election
    }

    /// Returns the entries of all holders, and the queue that they are in.
    pub(super) async fn holders(&self) -> Result<(&Queue, Vec<Entry>)> {
        let Some((inner, waiting)) = self.queues.split_last() else {
            return Err(Error::Closed);
        };
        let mut somebody_waits = false;
        for queue in waiting {
            let listing = snapshot::look(&self.sessions, queue, false).await?;
            somebody_waits |= !listing.members.is_empty();
        }
        let snapshot = snapshot::look(&self.sessions, inner, false).await?.into();
        let holding = self.kind.holding(&snapshot, somebody_waits);
        let members = snapshot.members.into_iter().take(holding);
        Ok((inner, members.map(|member| member.entry).collect()))
    }

    /// Returns all holders and waiters, as of now.
    pub(crate) async fn look(&self) -> Result<Vec<QueueEntry>> {
        let mut sights = Vec::with_capacity(self.queues.len());
        // In this order, a client that moves from the first queue to the second is not missed.
        for queue in &self.queues {
            sights.push(snapshot::look_now(&self.sessions, queue).await?);
        }
        Ok(self.entries(&sights.iter().collect::<Vec<_>>()))
    }

    /// Returns the entries of these snapshots of its queues: the holders first, then the waiters.
    pub(crate) fn entries(&self, sights: &[&Snapshot]) -> Vec<QueueEntry> {
        let Some((inner, waiting)) = sights.split_last() else { return Vec::new() };
        let somebody_waits = waiting.iter().any(|snapshot| !snapshot.members.is_empty());
        let holding = self.kind.holding(inner, somebody_waits);
        // A waiter that is about to be granted is in both queues.
        let both = inner.members.len() - holding;
        let waiting = waiting.iter().flat_map(|snapshot| snapshot.members.iter().skip(both));
        let members = inner.members.iter().chain(waiting).enumerate();
        members.map(|(position, member)| self.entry(position, position < holding, member)).collect()
    }

    fn entry(&self, position: usize, holds: bool, member: &Member) -> QueueEntry {
        let (entry, detail) = (&member.entry, member.detail.as_ref());
        let own = detail.is_some_and(|detail| detail.own) || self.sessions.owns(entry);
        let value: &[u8] = detail.map_or(&[], |detail| &detail.value);
        // Either all queues of a lock have candidates, or none.
        let queue = self.queues.first();
        let (owner, signed) =
            queue.map(|queue| signature::read_in(queue, value)).unwrap_or_default();
        QueueEntry {
            position,
            holds,
            owner,
            token: FencingToken::new(entry.token),
            since: detail.and_then(|detail| detail.since).or(signed),
            key: Arc::clone(&entry.key),
            revision: entry.revision,
            own,
        }
    }
}
