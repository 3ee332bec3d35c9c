//! The contract between the algorithm and the stores. Adapters report facts, `queue/` decides.

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

/// A store that can keep queues of ephemeral, totally ordered keys.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// Returns what kind of store it is.
    fn kind(&self) -> StoreKind;

    /// Whether it keeps queues. If not, locks alone can be had, by asking again and again, and of
    /// its sessions' calls only these are made: `keep_alive`, `enqueue` with [`Join::IfFree`],
    /// `standing`, `own_keys`, `watch`, `leave`, `on_loss`, `free_within`, `durability` and
    /// `close`.
    fn queues(&self) -> bool {
        true
    }

    /// Refuses what does not go with the others that it is to exclude: a name that no mutex can
    /// have.
    fn check_mutex(&self, _name: &str) -> std::result::Result<(), Error> {
        Ok(())
    }

    /// Whether it offers mutexes alone though it keeps queues: its mutexes exclude others, too, who
    /// know nothing of anything else.
    fn mutexes_alone(&self) -> bool {
        false
    }

    /// Opens a session, having tried each endpoint once. The server may grant another TTL than the
    /// one asked for.
    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)>;
}

/// What is true of a session as long as it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// What the server granted.
    pub(crate) ttl: Duration,
    /// Whether the session has to be renewed even while nothing is held or awaited.
    pub(crate) renewed_when_idle: bool,
    /// Whether the server that answers passes a renewal on to the one that decides with its next
    /// report only: then what a proof is worth depends on what was sent before it.
    pub(crate) relays_renewals: bool,
    /// Whether what is asked in its name is answered one after the other: then a second proof of
    /// life comes no sooner than the first, and what was asked meanwhile only later.
    pub(crate) one_at_a_time: bool,
    /// Whether the names of deleted keys cost the store anything, so that they had better come
    /// again.
    pub(crate) keeps_old_names: bool,
    /// Whether a key that took the place of another with another label has a name of its own: then
    /// a look at two keys shows that, and no list is needed for it.
    pub(crate) renames_relabelled: bool,
    /// Whether the point at which a key is deleted follows the one at which another key of its
    /// queue has joined only if that one was there at the deletion.
    pub(crate) follows_if_there: bool,
    /// How many bytes of keys the session can watch. Past that, the client opens another one.
    pub(crate) watch_budget: usize,
    /// The same for the keys that it has.
    pub(crate) key_budget: usize,
    /// Whether the store may serve a request to join at any time after its client gave it up. The
    /// session then removes a key that such a request puts (see `session/claims.rs`).
    pub(crate) joins_late: bool,
    /// Reads the ticket in a key's name. `None`: it is in the key's value, so that where joins come
    /// late, [`own_keys`](LockStore::own_keys) itself removes those that no attempt has.
    pub(crate) ticket_in: Option<fn(&str) -> Option<Ticket>>,
}

impl Facts {
    /// Of a session of which nothing is special.
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

/// Tells the holder of this key of its loss; `false`: it is not known yet.
pub(crate) type LossListener = Box<dyn Fn(&str, LostReason) -> bool + Send + Sync>;

/// Where a store tells of keys that are lost.
#[derive(Default)]
#[cfg_attr(not(any(feature = "redis", feature = "redlock")), allow(dead_code))]
pub(crate) struct Losses(OnceLock<LossListener>);

#[cfg_attr(not(any(feature = "redis", feature = "redlock")), allow(dead_code))]
impl Losses {
    /// Once for each session.
    pub(crate) fn listen(&self, listener: LossListener) {
        let _ = self.0.set(listener);
    }

    /// `false`: the key is not known yet.
    pub(crate) fn report(&self, key: &str, reason: LostReason) -> bool {
        self.0.get().is_none_or(|listener| listener(key, reason))
    }
}

impl Debug for Losses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Losses")
    }
}

/// One lease (etcd) or session (ZooKeeper), and what can be asked of the store in its name.
///
/// Every call is one attempt with a timeout of its own, at another endpoint than the last one if
/// that failed. Every call may be dropped at any await, but `enqueue` and `leave` are not: the
/// caller of this trait lets writes finish.
pub(crate) trait Store: Specifics + Extras {}

impl<T: Specifics + Extras> Store for T {}

/// What a lock needs of every store.
#[async_trait]
pub(crate) trait LockStore: Debug + Send + Sync + 'static {
    /// One proof of life. `Ok(granted)`: the store confirmed, after this call began, that it will
    /// keep the session for `granted` from then on. Calls may overlap.
    async fn keep_alive(&self) -> Result<Duration>;

    /// Joins the queue and tells, in the same round trip, who is ahead. Idempotent per ticket.
    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined>;

    /// One consistent answer to: is my key still there, and who is just ahead?
    async fn standing(&self, entry: &Entry) -> Result<Standing>;

    /// What there is of two keys of one queue: one consistent answer, at the same cost however long
    /// the queue is.
    async fn present(&self, _entry: &Entry, _ahead: &Entry) -> Result<Present> {
        Err(missing("look at a queue"))
    }

    /// All keys of this session, as the server that is asked knows them, in one request: at least
    /// those that were there before it, unless they are gone. That one is missing is a reason to
    /// look at it, never a conclusion.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>>;

    /// Starts to watch a key. `None`: it is not there. Dropping the watch takes it back. `urgent`:
    /// news are wanted at once, even at the price of more requests.
    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>>;

    /// Deletes the ticket's key.
    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome>;

    /// All that is in a queue, in its order: one consistent answer, which has every own key of
    /// which the store has told, unless that is gone.
    async fn list(&self, _queue: &Queue, _ask: Ask) -> Result<Listing> {
        Err(missing("look at a queue"))
    }

    /// Ends the session, and with it every key it holds.
    async fn close(&self) -> Result<()>;
}

/// What only one or two stores do in a way of their own. The defaults hold for all others.
#[async_trait]
pub(crate) trait Specifics: LockStore {
    /// [`standing`](LockStore::standing) as of now, not as of what a server that lags behind has. A
    /// server that cannot confirm it is silent.
    async fn standing_now(&self, entry: &Entry) -> Result<Standing> {
        self.standing(entry).await
    }

    /// [`present`](LockStore::present) as of now, in the same way.
    async fn present_now(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        self.present(entry, ahead).await
    }

    /// Whether a holder with this key that lets go leaves word of it: [`Fate::Released`].
    fn marks_releases(&self, _ahead: &Entry) -> bool {
        false
    }

    /// Starts to watch the key ahead of an own one, whose news are wanted at once. `there`: it is
    /// known to have been there at that moment. With `own`, what there is of both is told as soon
    /// as that is known: a short hold may end before its watch begins.
    async fn watch_ahead(
        &self,
        ahead: &Entry,
        _there: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        watch_and_look(self.watch(ahead, true), own.map(|own| self.present(own, ahead))).await
    }

    /// Returns when the client is told, unasked, that the server has ended the session. May never
    /// return: then `keep_alive` finds out.
    async fn ended(&self) -> LostReason {
        std::future::pending().await
    }

    /// Whom to tell when one key is lost while the session lives on, before any proof of life
    /// counts without that key. Where keys end with their session alone, nobody ever is.
    fn on_loss(&self, _listener: LossListener) {}

    /// Of a lock that was found to be taken a moment ago: it is free after so long, unless its
    /// holder keeps it.
    fn free_within(&self, _queue: &Queue) -> Option<Duration> {
        None
    }

    /// The user is given SQL, by which a transaction may lock this session's key at any time.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
        allow(dead_code)
    )]
    fn gives_sql(&self, _entry: &Entry) {}

    /// A transaction of the user's own has deleted this session's key.
    fn was_released(&self, _queue: &Queue, _ticket: Ticket, _entry: &Entry) {}

    /// Reads one of this session's keys. `None`: it is not there. Where a key can be put late
    /// ([`Facts::ticket_in`]).
    async fn own_entry(&self, _key: &str) -> Result<Option<Entry>> {
        Err(missing("read of an own key"))
    }

    /// Deletes a key of this session if its create revision is still the entry's, in one
    /// transaction. Returns `false` if it is not. Only for stores that can put a key late
    /// ([`Facts::ticket_in`]).
    async fn remove(&self, _entry: &Entry) -> Result<bool> {
        Err(missing("removal of an own key"))
    }
}

/// Starts to watch, and looks at both keys meanwhile.
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

/// What only some primitives need: guarded writes and the number of permits (`commit`, `read`), an
/// election's `proclaim` (`rewrite`), `downgrade` (`relabel`), the list of all locks (`queues`); or
/// what is only quicker (`enqueue_all`).
#[async_trait]
pub(crate) trait Extras: Debug + Send + Sync + 'static {
    /// Writes another value into an own key, if that is of this version: so that a write whose
    /// answer was lost cannot be applied after a later one. Those who watch the queue are told.
    async fn rewrite(&self, _rewrite: Rewrite<'_>) -> Result<Rewritten> {
        Err(missing("rewrite of a key"))
    }

    /// Puts a key with another label into the place of an own key, in one transaction: it stands
    /// where that stood, and has its token. `None`: that is not there any more. Idempotent.
    async fn relabel(&self, _to: Joiner<'_>, _: &Entry, _value: &[u8]) -> Result<Option<Entry>> {
        Err(missing("relabelling of a key"))
    }

    /// Writes to the store's own data in one transaction, if all of `_guards`, which are keys of
    /// this session, exist at that moment. `false`: one does not, and nothing was written. Without
    /// guards it always writes.
    async fn commit(&self, _guards: &[Entry], _writes: &[Write]) -> Result<bool> {
        Err(missing("write"))
    }

    /// Deletes another session's key, if it is this very one. `false`: it is not there. Where the
    /// names of deleted keys do not come again, the name is enough.
    async fn evict(&self, entry: &Entry) -> Result<bool> {
        let delete = [Write::Delete { key: entry.key.to_string() }];
        self.commit(&[], &delete).await
    }

    /// The newest value of a key of the store's own data; `None`: it is not there.
    async fn read(&self, _key: &str) -> Result<Option<Vec<u8>>> {
        Err(missing("read of a key"))
    }

    /// What there is right below a namespace, as of now: the names of queues' directories, and of
    /// what others have put there.
    async fn queues(&self, _namespace: &str) -> Result<Vec<String>> {
        Err(missing("list of queues"))
    }

    /// Joins several queues in one transaction, if all of them are empty. `None`: they are not, or
    /// the store can't; nothing was written. The outcomes are in the order of the queues; not
    /// idempotent.
    async fn enqueue_all(&self, _: &[Joiner<'_>], _value: &[u8]) -> Result<Option<Vec<Joined>>> {
        Ok(None)
    }

    /// What the store promises as it is configured now.
    async fn durability(&self) -> Result<Durability> {
        Err(missing("look at its configuration"))
    }
}

fn missing(operation: &'static str) -> StoreError {
    StoreError::Fatal { operation, source: "this store cannot do it".into() }
}
