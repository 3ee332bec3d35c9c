//! The contract between the algorithm and the stores. Adapters report facts, `queue.rs` decides.

use std::{
    fmt::Debug,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;

use crate::{
    backend::{
        error::StoreError,
        name::{Queue, Ticket},
    },
    lost::LostReason,
};

pub(crate) mod error;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
pub mod memory;
pub(crate) mod name;
pub(crate) mod remote;
pub(crate) mod secret;
pub(crate) mod signature;
pub(crate) mod tls;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

/// A store that can keep queues of ephemeral, totally ordered keys.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// For error messages: `etcd`, `ZooKeeper`, `memory`.
    fn name(&self) -> &'static str;

    /// Opens a session, having tried each endpoint once. The server may grant another TTL than the
    /// one asked for.
    async fn open(&self, ttl: Duration) -> Result<Arc<dyn Store>, StoreError>;
}

/// One lease (etcd) or session (ZooKeeper), and what can be asked of the store in its name.
///
/// Every call is one attempt with a timeout of its own, at another endpoint than the last one if
/// that failed. Every call may be dropped at any await, but `enqueue` and `leave` are not: the
/// caller of this trait lets writes finish.
#[async_trait]
pub(crate) trait Store: Debug + Send + Sync + 'static {
    /// What the server granted.
    fn ttl(&self) -> Duration;

    /// Whether the session needs `keep_alive` even while nothing is held or awaited.
    fn needs_keepalive_when_idle(&self) -> bool;

    /// Whether the server that answers passes a renewal on to the one that decides with its next
    /// report only: then what a proof of life is worth depends on what was sent before it.
    fn relays_renewals(&self) -> bool {
        false
    }

    /// Whether the names of deleted keys cost the store anything, so that they had better come
    /// again.
    fn keeps_old_names(&self) -> bool {
        false
    }

    /// How many bytes of keys one session can watch. Past that, the client opens another session.
    fn watch_budget(&self) -> usize;

    /// One proof of life. `Ok(granted)`: the store confirmed, after this call began, that it will
    /// keep the session for `granted` from then on. Calls may overlap.
    async fn keep_alive(&self) -> Result<Duration, StoreError>;

    /// Joins the queue and tells, in the same round trip, who is ahead. Idempotent per ticket.
    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined, StoreError>;

    /// One consistent answer to: is my key still there, and who is just ahead?
    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError>;

    /// What there is of two keys of one queue: one consistent answer, at the same cost however long
    /// the queue is.
    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError>;

    /// Whether a holder with this key that lets go leaves word of it: [`Fate::Released`].
    fn tells_releases(&self, _ahead: &Entry) -> bool {
        false
    }

    /// All keys of this session, as the server that is asked knows them, in one request: at least
    /// those that were there before it, unless they are gone. That one is missing is a reason to
    /// look at it, never a conclusion.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>, StoreError>;

    /// Starts to watch a key. `None`: it is not there. Dropping the watch takes it back. `urgent`:
    /// news are wanted at once, even at the price of more requests.
    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>, StoreError>;

    /// Deletes the ticket's key.
    async fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        leave: Leaving<'_>,
    ) -> Result<Left, StoreError>;

    /// Returns when the client is told, unasked, that the server has ended the session. May never
    /// return: then `keep_alive` finds out.
    async fn ended(&self) -> LostReason;

    /// Ends the session, and with it every key it holds.
    async fn close(&self) -> Result<(), StoreError>;

    /// All that is in a queue, in its order: one consistent answer, which has every own key of
    /// which the store has told, unless that is gone.
    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing, StoreError>;

    /// Writes another value into an own key, if that is of this version: so that a write whose
    /// answer was lost cannot be applied after a later one. `None`: as it was created. Those who
    /// watch the queue are told.
    async fn rewrite(
        &self,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten, StoreError>;

    /// Puts a key with another label into the place of an own key, in one transaction: it stands
    /// where that stood, and has its token. `None`: that is not there any more. Idempotent.
    async fn relabel(
        &self,
        from: &Queue,
        to: &Queue,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, StoreError>;

    /// Writes to the store's own data in one transaction, if `guard` is there at that moment.
    /// `false`: it is not, and nothing was written. Without a guard, always.
    async fn commit(&self, guard: Option<&Entry>, writes: &[Write]) -> Result<bool, StoreError>;

    /// Joins several queues in one transaction, if all of them are empty. `None`: they are not, or
    /// the store can't; nothing was written. The outcomes are in the order of the queues; not
    /// idempotent.
    async fn enqueue_all(
        &self,
        _: &[(Queue, Ticket)],
        _value: &[u8],
    ) -> Result<Option<Vec<Joined>>, StoreError> {
        Ok(None)
    }

    /// Whether anybody stands behind this key, or might. Asked by a client that would rather keep
    /// the lock for its own callers; without an answer it lets go.
    async fn followed(&self, _entry: &Entry) -> Result<bool, StoreError> {
        Ok(true)
    }
}

/// A key in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The whole key, as the store's own tools show it.
    pub(crate) key: Arc<str>,
    /// When it was created, in the store's own count (etcd create revision, ZooKeeper czxid): rises
    /// from one holder to the next, whatever happened between them. Zero where the store did not
    /// tell it (another's key).
    pub(crate) revision: u64,
    /// The fencing token: the same, but for a key that took another one's place (see `relabel`),
    /// whose token it has.
    pub(crate) token: u64,
    /// Of an own key: it joined as one who may have others beside him.
    pub(crate) crowded: bool,
}

/// A point in the order in which the store served the requests of one session. Those of two
/// sessions do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

/// How to join a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// Whether somebody is ahead or not.
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
        /// Nothing else was in the queue, not even a note.
        alone: bool,
    },
    /// Somebody is there, and nothing was written ([`Join::IfFree`]).
    Occupied,
}

/// Where an entry stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    First,
    /// Somebody is ahead.
    Behind(Predecessor),
    /// The key is not there any more.
    Evicted,
}

/// The nearest one ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub(crate) entry: Entry,
    /// Nobody was ahead of that one.
    pub(crate) first: bool,
    /// Its key was seen there after we joined. Otherwise that is concluded, and should the key be
    /// found to be gone when it is first looked at, then perhaps it was not the nearest one; if it
    /// is found there, it was.
    pub(crate) seen: bool,
}

/// What there is of one's own key and of the one ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Present {
    pub(crate) own: bool,
    pub(crate) ahead: Fate,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) enum Fate {
    There,
    /// It is gone, and nobody knows whose it was: a holder's, or a waiter's that gave up.
    Gone,
    /// It is gone, and the transaction that deleted it says that it was a holder's.
    Released,
}

impl Fate {
    pub(crate) fn of(there: bool) -> Self {
        if there { Self::There } else { Self::Gone }
    }
}

/// A watch on a key that was there. Ends when something has happened to it. An error says nothing
/// of it.
pub(crate) type Watch = Pin<Box<dyn Future<Output = Result<Event, StoreError>> + Send>>;

/// What has happened to a watched key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) enum Event {
    Deleted,
    /// Somebody has written to it. Anybody may: it says nothing of whose it is.
    Touched,
}

/// What a listing is to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The values, and since when the keys are there: on ZooKeeper one more request for each.
    pub(crate) values: bool,
    /// A watch that begins with the listing.
    pub(crate) watch: bool,
    /// What is true now, and not what a server that lags behind takes for it. Else it is at least
    /// as new as all that this session was told.
    pub(crate) fresh: bool,
}

/// What is in a queue.
pub(crate) struct Listing {
    /// Those who stand in it, the first one first. Other clients' keys are among them, if they look
    /// like waiters.
    pub(crate) members: Vec<Member>,
    /// The names (what follows the slash) of keys that belong to no session: see `Store::commit`.
    pub(crate) notes: Vec<Box<str>>,
    /// Ends when any client may have changed anything in the queue since: a key came, went or,
    /// where the store tells that, was written to.
    pub(crate) watch: Option<Watch>,
}

/// One who stands in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) entry: Entry,
    /// What the key says of itself; `None` for another client's, which says nothing that is
    /// understood here.
    pub(crate) label: Option<Box<str>>,
    /// If it was asked for.
    pub(crate) detail: Option<Detail>,
}

/// What a listing with values tells of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// What was written into it: the `value` of `enqueue` or `rewrite`.
    pub(crate) value: Vec<u8>,
    /// Counts its writes: (the key's) later values have higher ones.
    pub(crate) version: u64,
    /// When it was created, where that is known: by the server's clock on ZooKeeper, its owner's
    /// otherwise.
    pub(crate) since: Option<SystemTime>,
    /// It belongs to this session.
    pub(crate) own: bool,
}

/// The outcome of writing into a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rewritten {
    /// It is of this version now.
    Done(u64),
    /// It was of this version, and nothing was written.
    Not(u64),
    /// It is not there any more.
    Gone,
}

/// A write to the store's own data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Creates the key or writes over it. It belongs to no session.
    Put { key: String, value: Vec<u8> },
    /// Absent is fine.
    Delete { key: String },
}

/// How to leave a queue.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "zookeeper"), allow(dead_code))]
pub(crate) struct Leaving<'a> {
    /// `None` when the reply to `enqueue` was lost: then the key is found by its ticket.
    pub(crate) entry: Option<&'a Entry>,
    /// As a holder.
    pub(crate) held: bool,
    /// Whose key to look for in the same transaction.
    pub(crate) successor: Option<&'a Entry>,
}

/// The outcome of leaving a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// The key was there.
    pub(crate) existed: bool,
    /// So was the successor's, at the same moment.
    pub(crate) successor: bool,
    pub(crate) at: Moment,
}
