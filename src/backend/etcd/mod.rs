//! etcd: one lease for a session, one key for each waiter, ordered by create revision.
//!
//! Keys are `{namespace}/{name}/{lease id in hex}-{ticket}`, the layout of Go's `clientv3/concurrency` and of `etcdctl lock`: they stand in the same queue.

mod error;
mod pool;
mod watcher;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, GetOptions, KeyValue, LeaseGrantOptions, PutOptions, SortOrder, SortTarget, Txn, TxnOp,
    TxnOpResponse, TxnResponse,
};
use tokio::time::timeout;

use super::{Backend, Entry, Join, Joined, Standing, Store};
use crate::{
    builder::Remote,
    error::StoreError,
    guard::LostReason,
    name::{Queue, Ticket},
    rig::{Bug, planted},
};
use error::Cause;
use pool::Pool;
use watcher::Watcher;

/// The backend of `etcd://`.
#[derive(Debug)]
pub(crate) struct Etcd {
    pool: Arc<Pool>,
    /// How long an endpoint may take to give a lease: less than its share of the time there is, so that each gets its turn.
    patience: Duration,
}

impl Etcd {
    pub(crate) fn new(remote: Remote) -> Self {
        let share = remote.connect_timeout.mul_f64(0.9) / u32::try_from(remote.endpoints.len()).unwrap_or(u32::MAX);
        Self { patience: share.min(remote.request_timeout), pool: Arc::new(Pool::new(remote)) }
    }
}

#[async_trait]
impl Backend for Etcd {
    fn name(&self) -> &'static str {
        "etcd"
    }

    async fn open(&self, ttl: Duration) -> Result<Arc<dyn Store>, StoreError> {
        // Whole seconds, at least one; the server may grant more.
        let seconds = i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX);
        let mut attempts_left = self.pool.len();
        let granted = loop {
            attempts_left -= 1;
            // An id of our own choice; should the answer be lost, that lease ends with its TTL.
            let id = fastrand::i64(1..);
            let grant = |client: Client| async move {
                client.lease_client().grant(seconds, Some(LeaseGrantOptions::new().with_id(id))).await
            };
            match self.pool.request_within(self.patience, "lease grant", grant).await {
                Ok(granted) => break granted,
                Err(error) if error.is_transient() && attempts_left > 0 => {}
                Err(error) => return Err(error),
            }
        };
        Ok(Arc::new(EtcdStore {
            pool: Arc::clone(&self.pool),
            lease: granted.id(),
            ttl: Duration::from_secs(granted.ttl().unsigned_abs()),
            watcher: Watcher::start(Arc::clone(&self.pool)),
            unanswered: AtomicUsize::new(0),
        }))
    }
}

#[derive(Debug)]
struct EtcdStore {
    pool: Arc<Pool>,
    lease: i64,
    ttl: Duration,
    watcher: Watcher,
    /// Keepalives under way.
    unanswered: AtomicUsize,
}

/// Counts itself as long as it lives.
struct Counted<'a> {
    count: &'a AtomicUsize,
    /// How many there were before it.
    before: usize,
}

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        Self { count, before: count.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl EtcdStore {
    fn key(&self, queue: &Queue, ticket: Ticket) -> String {
        format!("{}/{:x}-{ticket}", queue.dir(), self.lease)
    }

    async fn txn(&self, operation: &'static str, txn: Txn) -> Result<TxnResponse, StoreError> {
        self.pool.request(operation, |client| async move { client.kv_client().txn(txn).await }).await
    }

    /// Where the key created at `revision` stands, given what the server said is just ahead.
    async fn behind(&self, prefix: &str, mut ahead: Option<KeyValue>) -> Result<Standing, StoreError> {
        while let Some(kv) = ahead {
            if is_place(prefix, &kv) {
                return Ok(Standing::Behind(entry(&kv)));
            }
            // No waiter's key. Nobody can join ahead of us any more, so that reading on from here, later, tells the truth.
            let options = nearest_below(kv.create_revision()).with_limit(100);
            let read = |client: Client| async move { client.kv_client().get(prefix, Some(options)).await };
            let mut kvs = self.pool.request("read of a queue", read).await?.take_kvs();
            let found = kvs.iter().position(|kv| is_place(prefix, kv));
            ahead = found.map(|index| kvs.swap_remove(index)).or_else(|| kvs.pop());
        }
        Ok(Standing::First)
    }
}

/// Whether this is a place in the queue. A key without a lease would never go away, and no client writes such a one. One that lies deeper belongs to another
/// lock: that of namespace `/a/b` and name `c` is below what namespace `/a` and name `b` have for a prefix.
fn is_place(prefix: &str, kv: &KeyValue) -> bool {
    let deeper_too = planted(Bug::OpenPrefix) || planted(Bug::DeeperKeysCount);
    kv.lease() != 0 && (deeper_too || !kv.key().get(prefix.len()..).is_some_and(|rest| rest.contains(&b'/')))
}

/// The keys of a prefix created before `revision`, the newest first: one, unless told otherwise.
fn nearest_below(revision: i64) -> GetOptions {
    newest_first().with_max_create_revision(revision - 1).with_limit(1)
}

/// The keys of a prefix, the newest first, without their values: a foreign one may be large.
fn newest_first() -> GetOptions {
    GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Descend).with_keys_only()
}

fn entry(kv: &KeyValue) -> Entry {
    Entry { key: String::from_utf8_lossy(kv.key()).into_owned(), revision: kv.create_revision().unsigned_abs() }
}

/// The key is there, so that the failure of what came after it says nothing about the joining as a whole.
fn after_put(error: StoreError) -> StoreError {
    match error {
        StoreError::SessionGone(reason) => StoreError::SessionGone(reason),
        error => StoreError::Unknown(error.into_source()),
    }
}

/// The key-values of a transaction's reads, in the order of the reads.
fn reads(response: &TxnResponse) -> impl Iterator<Item = Vec<KeyValue>> {
    response.op_responses().into_iter().filter_map(|response| match response {
        TxnOpResponse::Get(mut get) => Some(get.take_kvs()),
        _ => None,
    })
}

#[async_trait]
impl Store for EtcdStore {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn needs_keepalive_when_idle(&self) -> bool {
        true
    }

    fn watch_budget(&self) -> usize {
        usize::MAX
    }

    /// One stream for one keepalive. A long-lived stream would have to be told apart from a dead one (its sender says Ok to a lease that is
    /// gone, and into a connection that is gone), re-opened, and re-opened again when its token expires, which the server checks on every renewal since 3.5.28. This one
    /// is new each time: its answer is the proof or there is none. It costs the server the same one message.
    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        const OPERATION: &str = "keepalive";
        // While others are without an answer, this one tries another member.
        let unanswered = Counted::new(&self.unanswered);
        let picked = self.pool.pick(unanswered.before).await.map_err(|error| error.triage(OPERATION))?;
        let mut lease = picked.client.lease_client();
        let mut call = std::pin::pin!(lease.keep_alive(self.lease));
        let mut reply = timeout(self.ttl / 3, &mut call).await;
        if reply.is_err() {
            // Others need not wait for this member any longer. The answer may still come, if the way is only long.
            self.pool.leave(picked.index);
            if planted(Bug::SilenceIsProof) {
                return Ok(self.ttl);
            }
            reply = timeout(self.ttl, call).await;
        }
        match reply {
            Ok(Ok((keeper, mut stream))) => {
                // Ends the stream in good order instead of by a reset.
                drop(keeper);
                tokio::spawn(timeout(self.pool.request_timeout, async move {
                    while let Ok(Some(_)) = stream.message().await {}
                }));
                Ok(self.ttl)
            }
            Ok(Err(error)) => Err(self.pool.failed(picked.index, Cause::Client(error)).triage(OPERATION)),
            Err(_) => Err(self.pool.failed(picked.index, Cause::Silence).triage(OPERATION)),
        }
    }

    async fn enqueue(&self, queue: &Queue, ticket: Ticket, value: &[u8], join: Join) -> Result<Joined, StoreError> {
        const OPERATION: &str = "joining a queue";
        let key = self.key(queue, ticket);
        let prefix = if planted(Bug::OpenPrefix) { queue.dir().to_owned() } else { format!("{}/", queue.dir()) };
        let absent = Compare::create_revision(key.as_str(), CompareOp::Equal, 0);
        // Compares every key of the range, and holds for an empty one.
        let free = Compare::create_revision(prefix.as_str(), CompareOp::Equal, 0).with_prefix();
        let put = TxnOp::put(key.as_str(), value, Some(PutOptions::new().with_lease(self.lease)));
        // Placed after the put it sees the put: one's own key and the one ahead.
        let last_two = TxnOp::get(prefix.as_str(), Some(newest_first().with_limit(2)));
        let own = TxnOp::get(key.as_str(), Some(GetOptions::new().with_keys_only()));
        let present = TxnOp::get(prefix.as_str(), Some(newest_first().with_limit(100)));
        let conditions = if join == Join::IfFree { vec![absent, free] } else { vec![absent] };
        let txn = Txn::new().when(conditions).and_then([put, last_two]).or_else([own, present]);
        let response = self.txn(OPERATION, txn).await?;

        let mut reads = reads(&response);
        if response.succeeded() {
            let (mine, ahead): (Vec<_>, Vec<_>) =
                reads.next().unwrap_or_default().into_iter().partition(|kv| kv.key() == key.as_bytes());
            // An answer without the key that was just put is no answer (a stale read: https://github.com/etcd-io/etcd/issues/20418).
            let Some(mine) = mine.first() else {
                return Err(StoreError::Unknown("the key just put is missing".into()));
            };
            let standing = self.behind(&prefix, ahead.into_iter().next()).await.map_err(after_put)?;
            return Ok(Joined::Queued { entry: entry(mine), standing, alive: None });
        }
        if let Some(mine) = reads.next().unwrap_or_default().first() {
            // An earlier attempt, whose answer was lost, did put it.
            let entry = entry(mine);
            let standing = self.standing(&entry).await.map_err(after_put)?;
            return Ok(Joined::Queued { entry, standing, alive: None });
        }
        if join == Join::IfFree && reads.next().is_some_and(|kvs| !kvs.iter().any(|kv| is_place(&prefix, kv))) {
            // Nobody there but keys that are no waiter's.
            return self.enqueue(queue, ticket, value, Join::Always).await;
        }
        Ok(Joined::Occupied)
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        let revision = i64::try_from(entry.revision).unwrap_or(i64::MAX);
        let prefix = &entry.key[..=entry.key.rfind('/').unwrap_or(0)];
        let mine = Compare::create_revision(entry.key.as_str(), CompareOp::Equal, revision);
        let mine = if planted(Bug::OwnKeyUnchecked) { vec![] } else { vec![mine] };
        let ahead = TxnOp::get(prefix, Some(nearest_below(revision)));
        let response = self.txn("read of a queue", Txn::new().when(mine).and_then([ahead])).await?;
        // A member that has not heard of our key yet cannot tell who is ahead, nor that our key is gone.
        if response.header().is_none_or(|header| header.revision() < revision) {
            return Err(StoreError::Unavailable("a stale read".into()));
        }
        if !response.succeeded() {
            return Ok(Standing::Evicted);
        }
        let ahead = reads(&response).next().unwrap_or_default().into_iter().next();
        self.behind(prefix, ahead).await
    }

    /// Watches from "now" and then looks once: what happened before the watch shows in the look, what happens after it comes as an event. A watch from a past revision
    /// would be exact without the look, but etcd serves those only every 100 ms.
    async fn gone(&self, entry: &Entry) -> Result<(), StoreError> {
        let broken = |error: watcher::Broken| StoreError::Unavailable(error.into());
        let mut watch = self.watcher.watch(&entry.key);
        timeout(self.pool.request_timeout, watch.created())
            .await
            .map_err(|late| StoreError::Unavailable(late.into()))?
            .map_err(broken)?;
        let look = |client: Client| {
            let options = GetOptions::new().with_keys_only();
            async move { client.kv_client().get(entry.key.as_str(), Some(options)).await }
        };
        let seen = self.pool.request("look at a key", look).await?;
        let changed = seen.kvs().first().is_none_or(|kv| kv.create_revision().unsigned_abs() != entry.revision);
        if changed && !planted(Bug::NoSecondLook) {
            return Ok(());
        }
        watch.deleted().await.map_err(broken)
    }

    async fn withdraw(&self, queue: &Queue, ticket: Ticket, _: Option<&Entry>) -> Result<bool, StoreError> {
        let key = self.key(queue, ticket);
        let delete = |client: Client| async move { client.kv_client().delete(key, None).await };
        let existed = self.pool.request("delete of a key", delete).await?.deleted() > 0;
        if planted(Bug::ReleaseByName) && !existed {
            let (dir, all) = (format!("{}/", queue.dir()), etcd_client::DeleteOptions::new().with_prefix());
            let delete = |client: Client| async move { client.kv_client().delete(dir, Some(all)).await };
            self.pool.request("delete of a name", delete).await?;
        }
        Ok(existed)
    }

    /// A lease dies silently.
    async fn ended(&self) -> LostReason {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        let lease = self.lease;
        let revoke = |client: Client| async move { client.lease_client().revoke(lease).await };
        match self.pool.request("lease revoke", revoke).await {
            Ok(_) | Err(StoreError::SessionGone(LostReason::SessionExpired)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
