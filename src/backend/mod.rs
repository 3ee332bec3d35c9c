//! The contract between the algorithm and the stores. Adapters report facts, `queue.rs` decides.

use std::{fmt::Debug, sync::Arc, time::Duration};

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

    /// How many bytes of keys one session can watch. Past that, the client opens another session.
    fn watch_budget(&self) -> usize;

    /// One proof of life. `Ok(granted)`: the store confirmed, after this call began, that it will keep the session for `granted` from
    /// then on. Calls may overlap.
    async fn keep_alive(&self) -> Result<Duration, StoreError>;

    /// Joins the queue and tells, in the same round trip, who is ahead. Idempotent per ticket.
    async fn enqueue(&self, queue: &Queue, ticket: Ticket, value: &[u8], join: Join) -> Result<Joined, StoreError>;

    /// One consistent answer to: is my key still there, and who is just ahead?
    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError>;

    /// Returns when the key may be gone. A hint to look again, never a grant.
    async fn gone(&self, entry: &Entry) -> Result<(), StoreError>;

    /// Deletes the ticket's key and tells whether there was one. `entry` is `None` when the reply to `enqueue` was lost: then the key is found
    /// by its ticket.
    async fn withdraw(&self, queue: &Queue, ticket: Ticket, entry: Option<&Entry>) -> Result<bool, StoreError>;

    /// Returns when the client is told, unasked, that the server has ended the session. May never return: then `keep_alive` finds out.
    async fn ended(&self) -> LostReason;

    /// Ends the session, and with it every key it holds.
    async fn close(&self) -> Result<(), StoreError>;
}

/// A key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole key, as the store's own tools show it.
    pub(crate) key: String,
    /// When it was created, in the store's own count (etcd create revision, ZooKeeper czxid): rises from one holder to the next, whatever
    /// happened between them. Zero where the store did not tell it (a foreign key).
    pub(crate) revision: u64,
}

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
    /// This one is just ahead.
    Behind(Entry),
    /// The key is not there any more.
    Evicted,
}
