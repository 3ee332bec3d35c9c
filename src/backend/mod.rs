//! The contract between the algorithm and the stores. Adapters report facts, `queue.rs` decides.

use std::{fmt::Debug, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    error::StoreError,
    guard::LostReason,
    name::{Queue, Ticket},
};

#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub mod memory;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

/// A store that can keep queues of ephemeral, totally ordered keys.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// For error messages: `etcd`, `ZooKeeper`, `memory`.
    fn name(&self) -> &'static str;

    /// Opens a session, having tried each endpoint once. The server may grant another TTL than the one asked for.
    async fn open(&self, ttl: Duration) -> Result<Arc<dyn Store>, StoreError>;
}

/// One lease (etcd) or session (ZooKeeper), and what can be asked of the store in its name.
///
/// Every call is one attempt with a timeout of its own, at another endpoint than the last one if that failed. Every call may be dropped at any
/// await, but `enqueue` and `withdraw` are not: the caller of this trait lets writes finish.
#[async_trait]
pub(crate) trait Store: Debug + Send + Sync + 'static {
    /// What the server granted.
    fn ttl(&self) -> Duration;

    /// Whether the session needs `keep_alive` even while nothing is held or awaited.
    fn needs_keepalive_when_idle(&self) -> bool;

    /// Whether the names of deleted keys cost the store anything, so that they had better come again.
    fn keeps_old_names(&self) -> bool {
        false
    }

    /// How many bytes of keys one session can watch. Past that, the client opens another session.
    fn watch_budget(&self) -> usize;

    /// One proof of life. `Ok(granted)`: the store confirmed, after this call began, that it will keep the session for `granted` from
    /// then on. Calls may overlap.
    async fn keep_alive(&self) -> Result<Duration, StoreError>;

    /// Joins the queue and tells, in the same round trip, who is ahead. Idempotent per ticket.
    async fn enqueue(&self, queue: &Queue, ticket: Ticket, value: &[u8], join: Join) -> Result<Joined, StoreError>;

    /// One consistent answer to: is my key still there, and who is just ahead?
    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError>;

    /// Which of two keys of one queue are still there: one consistent answer, at the same cost however long the queue is.
    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError>;

    /// Starts to watch a key. `None`: it is not there. Dropping the watch takes it back. `urgent`: news are wanted at once, even at the price of more requests.
    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>, StoreError>;

    /// Deletes the ticket's key.
    async fn withdraw(&self, queue: &Queue, ticket: Ticket, leave: Leave<'_>) -> Result<Withdrawn, StoreError>;

    /// Returns when the client is told, unasked, that the server has ended the session. May never return: then `keep_alive` finds out.
    async fn ended(&self) -> LostReason;

    /// Ends the session, and with it every key it holds.
    async fn close(&self) -> Result<(), StoreError>;

    /// Whether anybody stands behind this key, or might. Asked by a client that would rather keep the lock for its own callers; without an answer it lets go.
    async fn followed(&self, _entry: &Entry) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// A key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole key, as the store's own tools show it.
    pub(crate) key: Arc<str>,
    /// When it was created, in the store's own count (etcd create revision, ZooKeeper czxid): rises from one holder to the next, whatever
    /// happened between them. Zero where the store did not tell it (another's key).
    pub(crate) revision: u64,
    /// Of an own key: it joined as one who may have others beside him.
    pub(crate) crowded: bool,
}

/// A point in the order in which the store served the requests of one session. Those of two sessions do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

/// How to join a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Whoever is ahead.
    Always,
    /// Only if nobody is there; where the store can tell in time, nothing is written otherwise.
    IfFree,
}

/// The outcome of joining.
#[derive(Debug)]
pub(crate) enum Joined {
    Queued {
        entry: Entry,
        standing: Standing,
        /// When it joined.
        at: Moment,
        /// Where joining was a proof of life too: as the answer of `keep_alive`.
        alive: Option<Duration>,
    },
    /// Somebody is there, and nothing was written ([`Join::IfFree`]).
    Occupied,
}

/// Where an entry stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    First,
    /// Somebody is ahead.
    Behind(Ahead),
    /// The key is not there any more.
    Evicted,
}

/// The nearest one ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) entry: Entry,
    /// Nobody was ahead of that one.
    pub(crate) first: bool,
    /// Its key was seen there after we joined. Otherwise that is concluded, and should the key be found to be gone when it is first looked at, then perhaps it was not
    /// the nearest one; if it is found there, it was.
    pub(crate) seen: bool,
}

/// Which keys are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) own: bool,
    pub(crate) ahead: bool,
}

/// A watch on a key that was there. Ends when something has happened to it. An error says nothing of it.
pub(crate) type Watch = Pin<Box<dyn Future<Output = Result<Event, StoreError>> + Send>>;

/// What has happened to a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) enum Event {
    Deleted,
    /// Its owner has written to it, which he does only as he lets go of a lock that he held: if it is gone as well, it was its holder's.
    Touched,
}

/// How to leave a queue.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) struct Leave<'a> {
    /// `None` when the reply to `enqueue` was lost: then the key is found by its ticket.
    pub(crate) entry: Option<&'a Entry>,
    /// As a holder.
    pub(crate) held: bool,
    /// Whose key to look for in the same transaction.
    pub(crate) heir: Option<&'a Entry>,
}

/// The outcome of leaving a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Withdrawn {
    /// The key was there.
    pub(crate) existed: bool,
    /// So was the heir's, at the same moment.
    pub(crate) heir: bool,
    pub(crate) at: Moment,
}
