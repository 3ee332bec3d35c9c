//! One lease, and what is asked of etcd in its name.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use etcd_client::{
    Client, DeleteOptions, KeyValue, LeaseTimeToLiveOptions, Txn, TxnOp, TxnOpResponse, TxnResponse,
};

use super::{
    error::{Cause, in_time},
    heat::{Heat, LONG, Level},
    pool::Pool,
    queue::{self, Answer, Paths},
    spare::Spare,
    watcher::{self, Watcher},
    word,
};
use crate::{
    backend::{
        Ask, Entry, Fate, Join, Joined, Leaving, Left, Listing, Moment, Predecessor, Present,
        Standing, Store, Watch, Watched,
        error::{Result, StoreError},
        name::{Queue, Ticket},
    },
    lost::LostReason,
    runtime::{clock::timeout, executor::spawn_beside, random},
};

pub(super) const JOIN: &str = "joining a queue";
pub(super) const READ: &str = "read of a queue";
const LEAVE: &str = "delete of a key";

#[derive(Debug)]
pub(super) struct EtcdStore {
    pub(super) pool: Arc<Pool>,
    pub(super) lease: i64,
    ttl: Duration,
    pub(super) watcher: Watcher,
    spare: Spare<watcher::Watch>,
    heat: Heat,
    /// Joins under way.
    joining: AtomicUsize,
    /// Keepalives under way.
    unanswered: AtomicUsize,
    /// The latest revision that a transaction's answer told.
    pub(super) told: AtomicU64,
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
    pub(super) fn new(pool: Arc<Pool>, lease: i64, ttl: Duration) -> Self {
        let watcher = Watcher::start(Arc::clone(&pool));
        Self {
            pool,
            lease,
            ttl,
            watcher,
            spare: Spare::default(),
            heat: Heat::new(),
            joining: AtomicUsize::new(0),
            unanswered: AtomicUsize::new(0),
            told: AtomicU64::new(0),
        }
    }

    pub(super) async fn txn(
        &self,
        operation: &'static str,
        txn: Txn,
    ) -> Result<(TxnResponse, u64)> {
        let request = async |client: Arc<Client>| client.kv_client().txn(txn).await;
        let response = self.pool.request(operation, request).await?;
        let revision = response.header().map_or(0, |header| header.revision().unsigned_abs());
        self.told.fetch_max(revision, Ordering::Relaxed);
        Ok((response, revision))
    }

    /// A read of keys, one of them `own`, that is no older than that one: a member that has not
    /// heard of it yet cannot tell who is ahead, nor that it is gone.
    async fn read(&self, own: &Entry, txn: Txn) -> Result<(TxnResponse, u64)> {
        let (response, revision) = self.txn(READ, txn).await?;
        if revision < own.revision {
            return Err(StoreError::Unavailable("a stale read".into()));
        }
        Ok((response, revision))
    }

    /// What there is of two keys, and as of which revision.
    async fn both(&self, entry: &Entry, ahead: &Entry) -> Result<(Present, u64)> {
        let word = self.tells_releases(ahead).then(|| word::last(queue::dir_of(&ahead.key)));
        let both = [queue::one(&entry.key), queue::one(&ahead.key)];
        let look = Txn::new().and_then(both.into_iter().chain(word).collect::<Vec<_>>());
        let (response, revision) = self.read(entry, look).await?;
        let mut reads = response.op_responses().into_iter();
        let own = queue::is_there(reads.next(), entry, Some(self.lease));
        let there = queue::is_there(reads.next(), ahead, None);
        let ahead = match reads.next() {
            Some(read) if !there && word::tells_of(ahead, &read) => Fate::Released,
            _ => Fate::of(there),
        };
        Ok((Present { own, ahead }, revision))
    }

    /// Where the key created at `revision` stands, given what the server said is just ahead.
    async fn behind(&self, prefix: &str, mut ahead: Option<KeyValue>) -> Result<Standing> {
        while let Some(kv) = ahead {
            if queue::is_place(prefix, &kv) {
                let entry = queue::entry(&kv);
                return Ok(Standing::Behind(Predecessor { entry, first: false, seen: true }));
            }
            // No waiter's key. Nobody can join ahead of us any more, so that reading on from here,
            // later, tells the truth.
            let options = queue::nearest_below(kv.create_revision()).with_limit(100);
            // In a box, as it is rarely needed: each join would carry its room.
            let mut kvs = Box::pin(self.pool.get(READ, prefix, options)).await?.take_kvs();
            let found = kvs.iter().position(|kv| queue::is_place(prefix, kv));
            ahead = found.map(|index| kvs.swap_remove(index)).or_else(|| kvs.pop());
        }
        Ok(Standing::First)
    }

    /// Joins in one request, whether somebody is there or not.
    async fn join(&self, paths: &Paths<'_>, dir: &str, value: &[u8], long: bool) -> Result<Joined> {
        let (joined, revision) = self.txn(JOIN, paths.join(value, long)).await?;
        // Where there was no tail, and none was made, none can be its own.
        let mut entry = Entry::new(Arc::clone(&paths.key), revision);
        entry.crowded = long || !joined.succeeded();
        let answer = paths.answer(&joined);
        let alone = matches!(answer, Answer::Joined { count: ..=1, .. });
        match &answer {
            Answer::Joined { count: ..=1, .. } => self.heat.cool(dir),
            Answer::Joined { count: ..LONG, .. } => self.heat.set(dir, Level::Few),
            Answer::Joined { .. } | Answer::BehindTail(_) | Answer::AmongOthers => {
                self.heat.set(dir, Level::Many)
            }
            Answer::Before(_) | Answer::Nonsense => {}
        }
        let standing = match answer {
            Answer::BehindTail(ahead) => {
                Ok(Standing::Behind(Predecessor { entry: ahead, first: false, seen: false }))
            }
            // What is not text cannot be asked for again by its name as it is kept here.
            Answer::Joined { ahead: Some(ahead), count: 2 }
                if queue::is_place(&paths.prefix(), &ahead) && ahead.key_str().is_ok() =>
            {
                let entry = queue::entry(&ahead);
                Ok(Standing::Behind(Predecessor { entry, first: true, seen: true }))
            }
            Answer::Joined { ahead, .. } => self.behind(&paths.prefix(), ahead).await,
            Answer::AmongOthers => self.standing(&entry).await,
            Answer::Before(kv) => {
                entry.revision = kv.create_revision().unsigned_abs();
                entry.token = entry.revision;
                self.standing(&entry).await
            }
            Answer::Nonsense => Err(StoreError::Unknown("the key just put is missing".into())),
        };
        let at = Moment(entry.revision);
        // The key is there, so that the failure of what came after it says nothing about the
        // joining as a whole.
        let standing = standing.map_err(StoreError::in_doubt)?;
        Ok(Joined::Queued { entry, standing, at, alive: None, alone })
    }
}

/// What joining says of one who is alone.
pub(super) fn alone(paths: &Paths<'_>, revision: u64) -> Joined {
    let (entry, standing) = (Entry::new(Arc::clone(&paths.key), revision), Standing::First);
    Joined::Queued { entry, standing, at: Moment(revision), alive: None, alone: true }
}

#[async_trait]
impl Store for EtcdStore {
    /// One stream for one keepalive. A long-lived stream would have to be told apart from a dead
    /// one (its sender says Ok to a lease that is gone, and into a connection that is gone),
    /// re-opened, and re-opened again when its token expires, which the server checks on every
    /// renewal since 3.5.28. This one is new each time: its answer is the proof or there is none.
    /// It costs the server the same one message.
    async fn keep_alive(&self) -> Result<Duration> {
        const OPERATION: &str = "keepalive";
        // While others are without an answer, this one tries another member.
        let unanswered = Counted::new(&self.unanswered);
        let picked =
            self.pool.pick(unanswered.before).await.map_err(|error| error.triage(OPERATION))?;
        let mut lease = picked.client.lease_client();
        let mut call = std::pin::pin!(lease.keep_alive(self.lease));
        let mut reply = in_time(self.ttl / 3, &mut call).await;
        if matches!(reply, Err(Cause::Silence)) {
            // Others need not wait for this member any longer. The answer may still come, if the
            // way is only long.
            self.pool.leave(picked.index);
            reply = in_time(self.ttl, call).await;
        }
        let (keeper, mut stream) =
            reply.map_err(|cause| self.pool.refused(&picked, cause).triage(OPERATION))?;
        // Ends the stream in good order instead of by a reset.
        drop(keeper);
        let patience = self.pool.request_timeout;
        spawn_beside(async move {
            let rest = async { while let Ok(Some(_)) = stream.message().await {} };
            let _ = timeout(patience, rest).await;
        });
        Ok(self.ttl)
    }

    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined> {
        let (paths, dir) = (Paths::new(queue, self.lease, ticket), queue.dir());
        if join == Join::IfFree {
            let (joined, revision) = self.txn(JOIN, paths.join_if_free(value)).await?;
            if joined.succeeded() {
                return Ok(alone(&paths, revision));
            }
            let mut reads =
                joined.op_responses().into_iter().filter_map(|response| match response {
                    TxnOpResponse::Get(mut get) => Some(get.take_kvs()),
                    _ => None,
                });
            let before = reads.next().is_some_and(|own| !own.is_empty());
            let prefix = paths.prefix();
            let junk =
                reads.next().is_some_and(|kvs| !kvs.iter().any(|kv| queue::is_place(&prefix, kv)));
            // An earlier attempt, whose answer was lost, did put it. Or nobody is there but keys
            // that are no waiter's.
            return if before || junk {
                self.join(&paths, dir, value, false).await
            } else {
                Ok(Joined::Occupied)
            };
        }
        if !queue.label().is_empty() {
            // An entry with a label reads the whole queue to know what it means: no tail would
            // spare it that.
            return self.join(&paths, dir, value, false).await;
        }
        let joining = Counted::new(&self.joining);
        // All those under way may be for this queue, for all that is known.
        let mut long = joining.before >= LONG as usize;
        match self.heat.level(dir) {
            Level::Cold => {
                // Others who come meanwhile will not be alone.
                self.heat.set(dir, Level::Few);
                let (joined, revision) = self.txn(JOIN, paths.join_empty(value)).await?;
                if joined.succeeded() {
                    self.heat.set(dir, Level::Cold);
                    return Ok(alone(&paths, revision));
                }
                let count = joined.op_responses().pop();
                long |= matches!(count, Some(TxnOpResponse::Get(get)) if get.count() >= LONG);
                // Thousands of clients may have come in this very instant, and each has counted
                // those who were there before all of them. One in so many makes the tail that
                // spares the others a look at an ever longer queue.
                long |= random::below(LONG as usize) == 0;
            }
            level => long |= level == Level::Many,
        }
        self.join(&paths, dir, value, long).await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let revision = i64::try_from(entry.revision).unwrap_or(i64::MAX);
        let prefix = queue::prefix_of(&entry.key);
        // As others see it: written over without its lease, it is nobody's place.
        let mine = queue::is_still_there(entry, self.lease);
        let ahead = TxnOp::get(prefix, Some(queue::nearest_below(revision).with_serializable()));
        let (response, _) = self.read(entry, Txn::new().when(mine).and_then([ahead])).await?;
        if !response.succeeded() {
            return Ok(Standing::Evicted);
        }
        let ahead = match response.op_responses().pop() {
            Some(TxnOpResponse::Get(mut get)) => get.take_kvs().into_iter().next(),
            _ => return Err(StoreError::Unavailable("an answer without a read".into())),
        };
        self.behind(prefix, ahead).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        self.both(entry, ahead).await.map(|(present, _)| present)
    }

    /// One that was in the tail, and so has joined where one was.
    fn tells_releases(&self, ahead: &Entry) -> bool {
        ahead.crowded && queue::leaves_word(ahead)
    }

    /// The leader tells them, of what it has applied. An answer of more than 4 MiB cannot be read,
    /// as the crate has no option for that here: 50,000 keys and more are watched and nothing else.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let lease = self.lease;
        let ask = async |client: Arc<Client>| {
            let keys = LeaseTimeToLiveOptions::new().with_keys();
            client.lease_client().time_to_live(lease, Some(keys)).await
        };
        let told = self.pool.request("look at a lease", ask).await?;
        Ok(told.keys().iter().map(|key| String::from_utf8_lossy(key).into()).collect())
    }

    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>> {
        watcher::watch(&self.watcher, &self.pool, entry, urgent, &self.spare).await
    }

    async fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<Moment>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        if let Some(watch) = self.spare.take(|watch| watch.began_before(ahead)) {
            return Ok(Watched::Since(watch.end_of(ahead, &self.spare)));
        }
        let watch = self.watcher.watch(&ahead.key, false, false).await?;
        // Nothing had happened to it when the watch began.
        if there.is_some_and(|Moment(there)| there >= watch.start()) {
            return Ok(Watched::Begun(watch.end(&self.pool, ahead, None, &self.spare)));
        }
        let Some(own) = own else {
            let watching = watcher::begin(watch, &self.pool, ahead, true, &self.spare).await?;
            return Ok(watching.map_or(Watched::Gone, Watched::Begun));
        };
        let (present, seen) = self.both(own, ahead).await?;
        watch.check(seen)?;
        Ok(match present {
            Present { own: true, ahead: Fate::There } => {
                Watched::Begun(watch.end(&self.pool, ahead, Some(seen), &self.spare))
            }
            present => Watched::Over(present),
        })
    }

    async fn leave(&self, queue: &Queue, ticket: Ticket, leave: Leaving<'_>) -> Result<Left> {
        // It was alone, and has written no tail.
        if let Leaving { entry: Some(entry), successor: None, .. } = leave
            && !entry.crowded
        {
            let options = DeleteOptions::new().with_prev_key();
            let delete = async |client: Arc<Client>| {
                client.kv_client().delete(&*entry.key, Some(options)).await
            };
            let deleted = self.pool.request(LEAVE, delete).await?;
            let at = deleted.header().map_or(0, |header| header.revision().unsigned_abs());
            let existed = queue::was_there(&deleted, self.lease, Some(entry));
            return Ok(Left { existed, successor: false, at: Moment(at) });
        }
        let paths = Paths::new(queue, self.lease, ticket);
        let txn = match leave {
            Leaving { successor: Some(successor), .. } => paths.leave_to(successor),
            Leaving { entry: Some(entry), held: true, .. } if queue::leaves_word(entry) => {
                paths.leave_word(entry)
            }
            Leaving { .. } => paths.leave(),
        };
        let (left, revision) = self.txn(LEAVE, txn).await?;
        let mut told = left.op_responses().into_iter();
        let existed = match told.next() {
            Some(TxnOpResponse::Delete(delete)) => {
                queue::was_there(&delete, self.lease, leave.entry)
            }
            _ => false,
        };
        let successor = leave
            .successor
            .is_some_and(|successor| queue::is_there(told.next(), successor, Some(self.lease)));
        Ok(Left { existed, successor, at: Moment(revision) })
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        self.read_all(queue, ask).await
    }

    /// A lease dies silently.
    async fn close(&self) -> Result<()> {
        let lease = self.lease;
        let revoke = async |client: Arc<Client>| client.lease_client().revoke(lease).await;
        match self.pool.request("lease revoke", revoke).await {
            Ok(_) | Err(StoreError::SessionGone(LostReason::SessionExpired)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
