//! One lease, and the requests of its session.

pub(super) mod join;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{
    Client, DeleteOptions, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::{
    cached_watch::CachedWatch,
    contention::Contention,
    error::{Cause, in_time, is_full},
    keys,
    pool::Pool,
    reading::Reading,
    release_marker,
    renewal::Unanswered,
    transactions::{self, Paths},
    watcher::{self, Watcher},
};
use crate::{
    backend::{
        Ask, Entry, Fate, Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore,
        Predecessor, Present, Queue, Result, SequencePoint, Specifics, Standing, StoreError, Watch,
        Watched,
    },
    lost::LostReason,
    runtime::{
        OnDrop,
        clock::{self, timeout},
        executor::spawn_beside,
    },
};

pub(super) const JOIN: &str = "joining a queue";
pub(super) const READ: &str = "reading a queue";
pub(super) const LEAVE: &str = "deleting a key";

#[derive(Debug)]
pub(super) struct EtcdStore {
    pub(super) pool: Arc<Pool>,
    pub(super) lease: i64,
    ttl: Duration,
    pub(super) watcher: Watcher,
    cached_watch: CachedWatch<watcher::Watch>,
    contention: Contention,
    /// Joins under way.
    joining: AtomicUsize,
    /// Keepalives under way.
    renewing: AtomicUsize,
    unanswered: Unanswered,
    /// The latest revision in a reply to a transaction or to [`newest`](Self::newest).
    pub(super) latest: AtomicU64,
}

impl EtcdStore {
    pub(super) fn new(pool: Arc<Pool>, lease: i64, ttl: Duration) -> Self {
        let watcher = Watcher::start(Arc::clone(&pool));
        Self {
            pool,
            lease,
            ttl,
            watcher,
            cached_watch: CachedWatch::default(),
            contention: Contention::new(),
            joining: AtomicUsize::new(0),
            renewing: AtomicUsize::new(0),
            unanswered: Unanswered::default(),
            latest: AtomicU64::new(0),
        }
    }

    pub(super) async fn txn(
        &self,
        operation: &'static str,
        txn: Txn,
    ) -> Result<(TxnResponse, u64)> {
        self.txn_since(0, operation, txn).await
    }

    async fn txn_since(
        &self,
        least: u64,
        operation: &'static str,
        txn: Txn,
    ) -> Result<(TxnResponse, u64)> {
        let request = async |client: Arc<Client>| client.kv_client().txn(txn).await;
        let header = TxnResponse::header;
        let (response, revision) = self.pool.read(operation, least, header, request).await?;
        self.latest.fetch_max(revision, Ordering::Relaxed);
        Ok((response, revision))
    }

    /// Reads keys, one of which is `own`, no earlier than that key's revision. A member that does
    /// not know it yet knows neither who is ahead nor that it is gone.
    async fn read(&self, own: &Entry, txn: Txn) -> Result<(TxnResponse, u64)> {
        self.txn_since(own.revision, READ, txn).await
    }

    /// Reads which of two keys exist. Also returns the revision of the read.
    async fn both(&self, entry: &Entry, ahead: &Entry, reading: Reading) -> Result<(Present, u64)> {
        let marker = self
            .marks_releases(ahead)
            .then(|| release_marker::last(keys::dir_of(&ahead.key), reading));
        let both = [transactions::one(&entry.key, reading), transactions::one(&ahead.key, reading)];
        let look = Txn::new().and_then(both.into_iter().chain(marker).collect::<Vec<_>>());
        let (response, revision) = self.read(entry, look).await?;
        let mut reads = response.op_responses().into_iter();
        let own = transactions::is_there(reads.next(), entry, Some(self.lease));
        let there = transactions::is_there(reads.next(), ahead, None);
        let ahead = match reads.next() {
            Some(read) if !there && release_marker::concerns(ahead, &read) => Fate::Released,
            _ => Fate::of(there),
        };
        Ok((Present { own, ahead }, revision))
    }

    async fn stands(&self, entry: &Entry, reading: Reading) -> Result<Standing> {
        let revision = i64::try_from(entry.revision).unwrap_or(i64::MAX);
        let prefix = keys::prefix_of(&entry.key);
        // Other clients ignore a key that was overwritten without its lease: it holds no place.
        let mine = transactions::is_still_there(entry, self.lease);
        let ahead = TxnOp::get(prefix, Some(reading.of(transactions::nearest_below(revision))));
        let (response, _) = self.read(entry, Txn::new().when(mine).and_then([ahead])).await?;
        if !response.succeeded() {
            return Ok(Standing::Evicted);
        }
        let ahead = match response.op_responses().pop() {
            Some(TxnOpResponse::Get(mut get)) => get.take_kvs().into_iter().next(),
            _ => {
                return Err(StoreError::Unavailable(
                    "malformed reply: the result of the read is missing".into(),
                ));
            }
        };
        self.behind(prefix, ahead).await
    }

    /// Returns the position of a key, given the one that the server returned as just ahead.
    async fn behind(&self, prefix: &str, mut ahead: Option<KeyValue>) -> Result<Standing> {
        while let Some(kv) = ahead {
            if keys::is_place(prefix, &kv) {
                let entry = keys::entry(&kv);
                return Ok(Standing::Behind(Predecessor { entry, first: false, seen: true }));
            }
            // This key is not a waiter's. No client can join ahead of us any longer, so a later
            // read from here on is still correct. An older one could lack the holder's key.
            let options = transactions::nearest_below(kv.create_revision()).with_limit(100);
            // Boxed: it is rarely needed, and the future of every join would be larger.
            let mut kvs = Box::pin(self.newest(prefix, options)).await?.take_kvs();
            let found = kvs.iter().position(|kv| keys::is_place(prefix, kv));
            ahead = found.map(|index| kvs.swap_remove(index)).or_else(|| kvs.pop());
        }
        Ok(Standing::First)
    }
}

#[async_trait]
impl LockStore for EtcdStore {
    /// Opens a stream for each keepalive.
    ///
    /// A long-lived stream would have to be distinguished from a dead one: its sender returns `Ok`
    /// for an expired lease and for a lost connection. It would have to be reopened, also when its
    /// token expires, which the server has checked on every renewal since 3.5.28. With a new
    /// stream, a reply proves the renewal. It costs the server the same one message.
    async fn keep_alive(&self) -> Result<Duration> {
        const OPERATION: &str = "renewing a lease";
        // While other keepalives have no reply, this one tries another member.
        let (before, _renewing) = counted(&self.renewing);
        let picked = self.pool.pick(before).await.map_err(|error| error.triage(OPERATION))?;
        let sent = self.unanswered.send(picked.index, clock::now());
        let mut call = std::pin::pin!(picked.renew(self.lease, sent.in_doubt()));
        let mut reply = in_time(self.ttl / 3, &mut call).await;
        if matches!(reply, Err(Cause::ProcessStall)) {
            // Other requests need not wait for this member. The reply may still come, if the
            // network is only slow.
            self.pool.leave(&picked);
            reply = in_time(self.ttl, call).await;
        }
        let (reply, rest) =
            reply.map_err(|cause| self.pool.refused(&picked, cause).triage(OPERATION))?;
        let patience = self.pool.remote.request_timeout;
        spawn_beside(async move { drop(timeout(patience, rest.end()).await) });
        if reply.ttl <= 0 {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        }
        Ok(self.unanswered.answered(sent, self.ttl, reply))
    }

    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined> {
        self.join(joiner, value, join).await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        self.stands(entry, Reading::Local).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        self.both(entry, ahead, Reading::Local).await.map(|(present, _)| present)
    }

    /// Reads the keys from the leader's applied state.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        const OPERATION: &str = "reading a lease";
        let picked = self.pool.pick(0).await.map_err(|error| error.triage(OPERATION))?;
        let keys = in_time(self.pool.remote.request_timeout, picked.keys(self.lease)).await;
        let keys = keys.map_err(|cause| self.pool.refused(&picked, cause).triage(OPERATION))?;
        Ok(keys.iter().map(|key| String::from_utf8_lossy(key).into()).collect())
    }

    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>> {
        // A waiter need not be notified of each write to its predecessor. A holder's own key may be
        // overwritten without its lease or with another lease, which ends it as well.
        let watch = self.watcher.watch(&entry.key, false, !urgent).await?;
        watcher::begin(watch, &self.pool, entry, urgent, &self.cached_watch).await
    }

    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        // It was alone, and wrote no tail.
        if let LeaveRequest { entry: Some(entry), successor: None, .. } = leave
            && !entry.crowded
        {
            let options = DeleteOptions::new().with_prev_key();
            let delete = async |client: Arc<Client>| {
                client.kv_client().delete(&*entry.key, Some(options)).await
            };
            let deleted = self.pool.request(LEAVE, delete).await?;
            let at = deleted.header().map_or(0, |header| header.revision().unsigned_abs());
            let existed = transactions::was_there(&deleted, self.lease, Some(entry));
            return Ok(LeaveOutcome { existed, successor: false, at: SequencePoint(at) });
        }
        let paths = Paths::new(joiner, self.lease);
        let txn = match leave {
            LeaveRequest { successor: Some(successor), .. } => paths.leave_to(successor),
            LeaveRequest { entry: Some(entry), held: true, .. } if keys::leaves_marker(entry) => {
                paths.leave_word(entry)
            }
            LeaveRequest { .. } => paths.leave(),
        };
        let (left, revision) = match self.txn(LEAVE, txn).await {
            // The release marker is a write, for which a full server has no space. A delete needs
            // none.
            Err(error) if is_full(&error) => self.txn(LEAVE, paths.leave()).await?,
            left => left?,
        };
        let mut responses = left.op_responses().into_iter();
        let existed = match responses.next() {
            Some(TxnOpResponse::Delete(delete)) => {
                transactions::was_there(&delete, self.lease, leave.entry)
            }
            _ => false,
        };
        let successor = leave.successor.is_some_and(|successor| {
            transactions::is_there(responses.next(), successor, Some(self.lease))
        });
        Ok(LeaveOutcome { existed, successor, at: SequencePoint(revision) })
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        self.read_all(queue, ask).await
    }

    /// Revokes the lease. The server does not notify the client of a lease's end.
    async fn close(&self) -> Result<()> {
        let lease = self.lease;
        let revoke = async |client: Arc<Client>| client.lease_client().revoke(lease).await;
        match self.pool.request("revoking a lease", revoke).await {
            Ok(_) | Err(StoreError::SessionGone(LostReason::SessionExpired)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Specifics for EtcdStore {
    async fn standing_now(&self, entry: &Entry) -> Result<Standing> {
        self.stands(entry, Reading::Confirmed).await
    }

    async fn present_now(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        self.both(entry, ahead, Reading::Confirmed).await.map(|(present, _)| present)
    }

    /// Returns `true` for a key that was in the tail, and so joined where there was one.
    fn marks_releases(&self, ahead: &Entry) -> bool {
        ahead.crowded && keys::leaves_marker(ahead)
    }

    async fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        if let Some(watch) = self.cached_watch.take(|watch| watch.began_before(ahead)) {
            return Ok(Watched::Since(watch.end_of(ahead, &self.cached_watch)));
        }
        let watch = self.watcher.watch(&ahead.key, false, false).await?;
        // The key was unchanged when the watch began.
        if there.is_some_and(|SequencePoint(there)| there >= watch.start()) {
            return Ok(Watched::Begun(watch.end(&self.pool, ahead, None, &self.cached_watch)));
        }
        let Some(own) = own else {
            let watching =
                watcher::begin(watch, &self.pool, ahead, true, &self.cached_watch).await?;
            return Ok(watching.map_or(Watched::Gone, Watched::Begun));
        };
        let (present, seen) = self.both(own, ahead, Reading::Local).await?;
        watch.check(seen)?;
        Ok(match present {
            Present { own: true, ahead: Fate::There } => {
                Watched::Begun(watch.end(&self.pool, ahead, Some(seen), &self.cached_watch))
            }
            present => Watched::Over(present),
        })
    }

    /// Reads from the leader: a member that lags behind could return the revision of an earlier
    /// key.
    async fn own_entry(&self, key: &str) -> Result<Option<Entry>> {
        let options = GetOptions::new().with_keys_only();
        let kvs = self.pool.get(READ, key, options).await?.take_kvs();
        let own = kvs.first().filter(|kv| kv.lease() == self.lease);
        Ok(own.map(keys::entry))
    }

    async fn remove(&self, entry: &Entry) -> Result<bool> {
        let Some((queue, ticket)) = keys::place_in(&entry.key) else { return Ok(false) };
        let paths = Paths::new(Joiner { queue: &queue, ticket }, self.lease);
        if paths.key != entry.key {
            return Ok(false);
        }
        let (removed, _) = self.txn(LEAVE, paths.remove(entry)).await?;
        Ok(removed.succeeded())
    }
}

/// Counts one more until the returned value is dropped, and returns the count before.
fn counted(count: &AtomicUsize) -> (usize, OnDrop<impl Fn()>) {
    let before = count.fetch_add(1, Ordering::Relaxed);
    let uncount = || {
        count.fetch_sub(1, Ordering::Relaxed);
    };
    (before, OnDrop(uncount))
}
