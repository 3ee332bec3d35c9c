//! The contract between the algorithm and the stores. Adapters report facts, and `queue/` decides.

use std::{
    fmt::{self, Debug},
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use async_trait::async_trait;

use super::{
    durability::Durability,
    entry::{Entry, Fate, Present, SequencePoint, Standing, Watch, Watched},
    error::{Result, StoreError},
    listing::{Ask, Listing},
    name::{Queue, Ticket},
    request::{Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Rewrite, Rewritten, Write},
};
use crate::{error::Error, lost::LostReason, store_kind::StoreKind};

/// A store with queues of ephemeral, totally ordered keys.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// Returns what kind of store it is.
    fn kind(&self) -> StoreKind;

    /// Returns `true` if the store has queues.
    ///
    /// A store without queues offers only locks, which clients poll. Of the session's methods, only
    /// these are called: `keep_alive`, `ended`, `enqueue` with [`Join::IfFree`], `standing`,
    /// `standing_now`, `own_keys`, `watch`, `leave`, `on_loss`, `free_within`, `durability` and
    /// `close`.
    fn queues(&self) -> bool {
        true
    }

    /// Rejects a name that a mutex cannot have, because of the other libraries that share the lock.
    fn check_mutex(&self, _name: &str) -> std::result::Result<(), Error> {
        Ok(())
    }

    /// Returns `true` if the store offers only mutexes although it has queues. Its mutexes also
    /// exclude other libraries, which know no other primitive.
    fn mutexes_alone(&self) -> bool {
        false
    }

    /// Opens a session, and tries each endpoint once. The server may grant another TTL than the
    /// requested one.
    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)>;
}

/// The properties of a session, which never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// The TTL that the server granted.
    pub(crate) ttl: Duration,
    /// Whether the session must be renewed even while nothing is held or awaited.
    pub(crate) renewed_when_idle: bool,
    /// Whether the server that replies forwards a renewal to the deciding server only with its next
    /// report. Then the effect of a renewal depends on the requests before it.
    pub(crate) relays_renewals: bool,
    /// Whether the session's requests are served one after the other. Then a second keepalive is
    /// confirmed no sooner than the first, and delays the requests after it.
    pub(crate) one_at_a_time: bool,
    /// Whether the names of deleted keys cost the store anything, so that reusing names is better.
    pub(crate) keeps_old_names: bool,
    /// Whether a key that replaced another one under a new label has a name of its own. Then a read
    /// of two keys shows the change, and no list is needed.
    pub(crate) renames_relabelled: bool,
    /// Whether the [`SequencePoint`] of a key's deletion can directly follow that of another key's
    /// join only if that other key existed at the deletion.
    pub(crate) follows_if_there: bool,
    /// How many bytes of keys the session can watch. Beyond that, the client opens another session.
    pub(crate) watch_budget: usize,
    /// How many bytes of keys the session can own. Beyond that, the client opens another session.
    pub(crate) key_budget: usize,
    /// Whether the store may serve a request to join at any time after its client gave it up. The
    /// session then removes a key that such a request creates (see `session/claims.rs`).
    pub(crate) joins_late: bool,
    /// Parses the ticket in a key's name. `None`: the ticket is in the key's value. Then, if joins
    /// may be late, [`own_keys`](LockStore::own_keys) itself removes keys that belong to no
    /// attempt.
    pub(crate) ticket_in: Option<fn(&str) -> Option<Ticket>>,
}

impl Facts {
    /// Returns the default properties.
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            renewed_when_idle: true,
            relays_renewals: false,
            one_at_a_time: false,
            keeps_old_names: false,
            renames_relabelled: false,
            follows_if_there: false,
            watch_budget: usize::MAX,
            key_budget: usize::MAX,
            joins_late: false,
            ticket_in: None,
        }
    }
}

/// Notifies a key's holder of the loss. Returns `false` if the key is not known yet.
pub(crate) type LossListener = Box<dyn Fn(&str, LostReason) -> bool + Send + Sync>;

/// Forwards the losses that a store reports.
#[derive(Default)]
#[cfg_attr(not(any(feature = "redis", feature = "redlock")), allow(dead_code))]
pub(crate) struct Losses(OnceLock<LossListener>);

#[cfg_attr(not(any(feature = "redis", feature = "redlock")), allow(dead_code))]
impl Losses {
    /// Sets the listener, once for each session.
    pub(crate) fn listen(&self, listener: LossListener) {
        let _ = self.0.set(listener);
    }

    /// Reports a loss. Returns `false` if the key is not known yet.
    pub(crate) fn report(&self, key: &str, reason: LostReason) -> bool {
        self.0.get().is_none_or(|listener| listener(key, reason))
    }
}

impl Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Losses")
    }
}

/// One lease (etcd) or session (ZooKeeper), and its requests to the store.
///
/// Every call is one attempt with its own timeout, and uses another endpoint if the last one
/// failed. The caller of this trait lets `enqueue`, `enqueue_all`, `relabel` and `leave` finish,
/// unless the session is lost or the client's runtime is shut down. Every other call may be dropped
/// at any await.
pub(crate) trait Store: Specifics + Extras {}

impl<T: Specifics + Extras> Store for T {}

/// The operations that a lock needs on every store with queues.
#[async_trait]
pub(crate) trait LockStore: Debug + Send + Sync + 'static {
    /// Renews the session. `Ok(granted)`: the store has confirmed, after this call began, that it
    /// keeps the session for `granted` from then on. Calls may overlap.
    async fn keep_alive(&self) -> Result<Duration>;

    /// Joins the queue, and returns the position from the same round trip. Idempotent per ticket.
    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined>;

    /// Reads, in one consistent reply, whether the key exists and which key is just ahead.
    async fn standing(&self, entry: &Entry) -> Result<Standing>;

    /// Reads, in one consistent reply, whether two keys of one queue exist. The cost does not
    /// depend on the length of the queue. Where [`Facts::watch_budget`] has a limit, the two keys
    /// may belong to different queues.
    async fn present(&self, _entry: &Entry, _ahead: &Entry) -> Result<Present> {
        Err(missing("reading a queue"))
    }

    /// Returns all keys of this session, as the queried server knows them, in one request.
    ///
    /// The list has at least the keys that existed before the request and still exist. If a key is
    /// missing from it, the caller must read that key before it concludes anything.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>>;

    /// Starts to watch a key; `None` if it does not exist. Dropping the watch cancels it. With
    /// `urgent`, events are reported at once, even at the cost of more requests.
    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>>;

    /// Deletes the ticket's key.
    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome>;

    /// Lists a queue in its order. The reply is consistent, and contains every existing key of this
    /// session that the store has confirmed.
    async fn list(&self, _queue: &Queue, _ask: Ask) -> Result<Listing> {
        Err(missing("reading a queue"))
    }

    /// Ends the session, which deletes all its keys.
    async fn close(&self) -> Result<()>;
}

/// Operations that only some stores implement in their own way. The defaults apply to all others.
#[async_trait]
pub(crate) trait Specifics: LockStore {
    /// Like [`standing`](LockStore::standing), but with the current state and not that of a server
    /// that lags behind. A server that cannot confirm the state does not reply.
    async fn standing_now(&self, entry: &Entry) -> Result<Standing> {
        self.standing(entry).await
    }

    /// Like [`present`](LockStore::present), but with the current state.
    async fn present_now(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        self.present(entry, ahead).await
    }

    /// Returns `true` if a holder with this key leaves a release marker: [`Fate::Released`].
    fn marks_releases(&self, _ahead: &Entry) -> bool {
        false
    }

    /// Starts to watch the key ahead of an own one, and reports its events at once.
    ///
    /// `there`: the key is known to have existed at that point. With `own`, the state of both keys
    /// is returned as soon as it is known, because a short hold may end before its watch begins.
    async fn watch_ahead(
        &self,
        ahead: &Entry,
        _there: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        watch_and_look(self.watch(ahead, true), own.map(|own| self.present(own, ahead))).await
    }

    /// Returns when the server notifies the client that the session has ended. If it never returns,
    /// `keep_alive` detects the end.
    async fn ended(&self) -> LostReason {
        std::future::pending().await
    }

    /// Sets the listener for the loss of one key while the session lives.
    ///
    /// It is called before any renewal without that key counts. If keys end only with their
    /// session, it is never called.
    fn on_loss(&self, _listener: LossListener) {}

    /// Returns how long until a lock that was just found held is free, unless its holder renews it.
    fn free_within(&self, _queue: &Queue) -> Option<Duration> {
        None
    }

    /// Records that the user receives SQL, by which a transaction may lock this session's key at
    /// any time.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
        allow(dead_code)
    )]
    fn gives_sql(&self, _entry: &Entry) {}

    /// Records that a transaction of the user has deleted this session's key.
    fn was_released(&self, _queue: &Queue, _ticket: Ticket, _entry: &Entry) {}

    /// Reads one of this session's keys; `None` if it does not exist. Only for stores that can put
    /// a key late ([`Facts::ticket_in`]).
    async fn own_entry(&self, _key: &str) -> Result<Option<Entry>> {
        Err(missing("reading a key of the session"))
    }

    /// Deletes a key of this session if its create revision is still the entry's, in one
    /// transaction. Returns `false` if it is not. Only for stores that can put a key late
    /// ([`Facts::ticket_in`]).
    async fn remove(&self, _entry: &Entry) -> Result<bool> {
        Err(missing("deleting a key"))
    }
}

/// Starts to watch, and reads both keys at the same time.
pub(crate) async fn watch_and_look(
    watching: impl Future<Output = Result<Option<Watch>>>,
    look: Option<impl Future<Output = Result<Present>>>,
) -> Result<Watched> {
    let begun = |watch: Option<Watch>| watch.map_or(Watched::Gone, Watched::Begun);
    let mut watching = pin!(watching);
    let Some(look) = look else { return watching.await.map(begun) };
    tokio::select! {
        biased;
        watched = &mut watching => watched.map(begun),
        present = look => match present {
            Ok(Present { own: true, ahead: Fate::There }) | Err(_) => watching.await.map(begun),
            Ok(present) => Ok(Watched::Over(present)),
        },
    }
}

/// Operations that only some primitives need: guarded writes and the number of permits (`commit`,
/// `read`), an election's `proclaim` (`rewrite`), `downgrade` (`relabel`), and the list of all
/// locks (`queues`). `evict` and `durability` are for operators. `enqueue_all` is only faster.
#[async_trait]
pub(crate) trait Extras: Debug + Send + Sync + 'static {
    /// Overwrites an own key if it has this version, so that a write whose reply was lost cannot be
    /// applied after a later one. Watchers of the queue are notified.
    async fn rewrite(&self, _rewrite: Rewrite<'_>) -> Result<Rewritten> {
        Err(missing("rewriting a key"))
    }

    /// Replaces an own key by one with another label, in one transaction. The new key has the
    /// position and the token of the old one. `None`: the old key no longer exists. Idempotent.
    async fn relabel(&self, _to: Joiner<'_>, _: &Entry, _value: &[u8]) -> Result<Option<Entry>> {
        Err(missing("relabeling a key"))
    }

    /// Writes to the store's own data in one transaction, if all of `_guards`, which are keys of
    /// this session, exist at that moment. `false`: one does not exist, and nothing was written.
    /// Without guards it always writes.
    async fn commit(&self, _guards: &[Entry], _writes: &[Write]) -> Result<bool> {
        Err(missing("writing data"))
    }

    /// Deletes a key of any session if its revision is the entry's. `false`: it does not exist. The
    /// default compares only the name, which is sufficient if the names of deleted keys are never
    /// reused. It does not report whether the key existed.
    async fn evict(&self, entry: &Entry) -> Result<bool> {
        let delete = [Write::Delete { key: entry.key.to_string() }];
        self.commit(&[], &delete).await
    }

    /// Returns the newest value of a key of the store's own data; `None` if it does not exist.
    async fn read(&self, _key: &str) -> Result<Option<Vec<u8>>> {
        Err(missing("reading a key"))
    }

    /// Returns the current names directly below a namespace: queues' directories, and foreign
    /// entries.
    async fn queues(&self, _namespace: &str) -> Result<Vec<String>> {
        Err(missing("listing queues"))
    }

    /// Joins several queues in one transaction, if all of them are empty. `None`: they are not, or
    /// the store does not support it, and nothing was written. The outcomes are in the order of the
    /// queues. Not idempotent.
    async fn enqueue_all(&self, _: &[Joiner<'_>], _value: &[u8]) -> Result<Option<Vec<Joined>>> {
        Ok(None)
    }

    /// Returns the guarantees of the store as it is configured now.
    async fn durability(&self) -> Result<Durability> {
        Err(missing("reading the configuration"))
    }
}

fn missing(operation: &'static str) -> StoreError {
    StoreError::Fatal { operation, source: "not supported by this store".into() }
}
