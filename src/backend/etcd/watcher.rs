//! The watch stream of a session. It has a watch for each key that a client waits for, and one for
//! each watched queue.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use etcd_client::{
    Client, Error, EventType, KeyValue, Txn, TxnResponse, WatchFilterType, WatchOptions,
    WatchRequestSender, WatchResponse, WatchResponseStream,
};
use tokio::sync::{mpsc, oneshot, watch::Sender};

use super::{
    cached_watch::CachedWatch,
    error::{Cause, in_time},
    keys,
    pool::{Picked, Pool},
    reading::Reading,
    transactions,
};
use crate::{
    backend::{self, Entry, Event, Result, StoreError},
    runtime::{clock::timeout, executor::spawn_beside},
};

/// When to read a key again whose watch may not be synced with the server yet. etcd serves unsynced
/// watches every 100 ms (`syncWatchersLoop`,
/// <https://github.com/etcd-io/etcd/blob/v3.5.16/server/mvcc/watchable_store.go#L211>). At most one
/// of 125 watches is unsynced, at 2,800 writes a second, so the first read can wait.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(8), Duration::from_millis(24), Duration::from_millis(72)];

/// A handle to the task that owns the stream. Dropping it ends the task.
#[derive(Debug)]
pub(super) struct Watcher {
    commands: mpsc::UnboundedSender<Command>,
    last_id: AtomicI64,
    /// How long the server may take to create a watch.
    patience: Duration,
}

#[derive(Debug)]
enum Command {
    Watch { id: i64, key: Arc<str>, puts: bool, signals: Signals },
    Cancel(i64),
}

/// How a watch reports. Both senders are dropped when its stream breaks.
#[derive(Debug)]
struct Signals {
    created: Option<oneshot::Sender<i64>>,
    /// The revision of the latest event; zero before the first one.
    changes: Sender<i64>,
    /// The prefix, if a prefix is watched.
    prefix: Option<Arc<str>>,
}

/// A watch on one key, or on the keys of a prefix. Dropping it cancels it.
pub(super) struct Watch {
    id: i64,
    key: Arc<str>,
    /// The revision at which the watch began. Earlier events are not reported.
    start: i64,
    /// Events up to this revision are not reported either.
    known: i64,
    changes: tokio::sync::watch::Receiver<i64>,
    commands: mpsc::UnboundedSender<Command>,
}

/// The watch's stream broke, so the key's state is unknown.
#[derive(Debug, thiserror::Error)]
#[error("the watch stream ended")]
struct Broken;

impl From<Broken> for StoreError {
    fn from(broken: Broken) -> Self {
        Self::Unavailable(broken.into())
    }
}

/// Returns a watch that began at the server's current revision, after a read of its key; `None` if
/// the key does not exist.
///
/// The read shows what happened before the watch, and events show what happens after it. A watch
/// from a past revision would need no read, but etcd serves such watches only every 100 ms.
pub(super) async fn begin(
    watch: Watch,
    pool: &Arc<Pool>,
    entry: &Entry,
    urgent: bool,
    cached_watch: &CachedWatch<Watch>,
) -> Result<Option<backend::Watch>> {
    // A waiter's predecessor may be on any lease. All other keys must be on their own lease.
    let lease = if urgent { None } else { keys::lease_in(&entry.key) };
    let Some(seen) = look(pool, entry, lease).await? else { return Ok(None) };
    watch.check(seen)?;
    Ok(Some(if urgent {
        watch.end(pool, entry, Some(seen), cached_watch)
    } else {
        watch.end_some_time()
    }))
}

/// Returns the revision of the read if the key exists, and is on this lease if one is given.
///
/// The member that has the watch knows best what the watch may have missed, so it need not query
/// the others. The read is a transaction, because etcd's grpc-proxy may serve a simple serializable
/// read from an old cache.
async fn look(pool: &Pool, entry: &Entry, lease: Option<i64>) -> Result<Option<u64>> {
    let look = Txn::new().and_then([transactions::one(&entry.key, Reading::Local)]);
    let read = async |client: Arc<Client>| client.kv_client().txn(look).await;
    let (seen, revision) =
        pool.read("reading a key", entry.revision, TxnResponse::header, read).await?;
    let there = transactions::is_there(seen.op_responses().pop(), entry, lease);
    Ok(there.then_some(revision))
}

fn stale() -> StoreError {
    StoreError::Unavailable("stale read".into())
}

impl Watcher {
    pub(super) fn start(pool: Arc<Pool>) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let patience = pool.remote.request_timeout;
        spawn_beside(run(pool, inbox));
        Self { commands, last_id: AtomicI64::new(0), patience }
    }

    /// Watches `key` for its deletion, or a prefix for all changes, from the server's current
    /// revision on. A read after this call misses nothing.
    pub(super) async fn watch(&self, key: &Arc<str>, prefix: bool, puts: bool) -> Result<Watch> {
        let (created, created_rx) = oneshot::channel();
        let (changes, changes_rx) = tokio::sync::watch::channel(0);
        // Never used twice, so that a late `Cancel` ends no other watch.
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let signals =
            Signals { created: Some(created), changes, prefix: prefix.then(|| Arc::clone(key)) };
        // If the task has ended, the senders are dropped here and the watch is broken from the
        // start.
        let _ = self.commands.send(Command::Watch { id, key: Arc::clone(key), puts, signals });
        let (key, commands) = (Arc::clone(key), self.commands.clone());
        let mut watch = Watch { id, key, start: 0, known: 0, changes: changes_rx, commands };
        let start = timeout(self.patience, created_rx).await;
        let start = start.map_err(|late| StoreError::Unavailable(late.into()))?;
        watch.start = start.map_err(|_| Broken)?;
        Ok(watch)
    }
}

impl Watch {
    /// Returns after an event with a later revision.
    async fn changed_after(&mut self, after: i64) -> Result<()> {
        self.changes.wait_for(|latest| *latest > after).await.map_err(|_| Broken)?;
        Ok(())
    }

    /// Returns the revision at which the watch began.
    pub(super) fn start(&self) -> u64 {
        self.start.unsigned_abs()
    }

    /// Returns `true` if the watch reports all events of this key since it was put.
    pub(super) fn began_before(&self, entry: &Entry) -> bool {
        // A watch whose stream broke has ended.
        let goes_on = self.changes.has_changed().is_ok();
        goes_on && self.key == entry.key && self.start() <= entry.revision
    }

    /// Waits for the deletion of a key that was put after the watch began. The watch is synced with
    /// the server, because it has reported another deletion.
    pub(super) fn end_of(
        mut self,
        entry: &Entry,
        cached_watch: &CachedWatch<Self>,
    ) -> backend::Watch {
        self.known = i64::try_from(entry.revision).unwrap_or(i64::MAX);
        let cached_watch = cached_watch.clone();
        Box::pin(async move {
            self.deleted().await?;
            cached_watch.keep(self);
            Ok(Event::Deleted)
        })
    }

    /// Rejects a read at a revision before the watch began.
    pub(super) fn check(&self, seen: u64) -> Result<()> {
        if seen < self.start() { Err(stale()) } else { Ok(()) }
    }

    /// Waits for events after the revision of a read. They may be late by 100 ms (see [`begin`]),
    /// and none is lost.
    pub(super) fn since(mut self, read: i64) -> Result<backend::Watch> {
        self.check(read.unsigned_abs())?;
        Ok(Box::pin(async move { self.changed_after(read).await.map(|()| Event::Touched) }))
    }

    /// Waits for the deletion of a key that existed when the watch began. `seen` is the revision of
    /// a later read, if there was one.
    ///
    /// Events are never lost, but may be late. The server takes the next revision as the start and
    /// registers the watch a moment later. If a write comes in between, the watch is not synced,
    /// and the server serves it only every 100 ms. There was no such write if a later read has the
    /// revision at which the watch started. Otherwise the key is read at growing intervals, until a
    /// read shows that or the watch must be synced.
    pub(super) fn end(
        mut self,
        pool: &Arc<Pool>,
        entry: &Entry,
        mut seen: Option<u64>,
        cached_watch: &CachedWatch<Self>,
    ) -> backend::Watch {
        let (pool, entry, cached_watch) = (Arc::clone(pool), entry.clone(), cached_watch.clone());
        Box::pin(async move {
            for pause in LOOKS {
                if seen == Some(self.start()) {
                    break;
                }
                if timeout(pause, self.deleted()).await.is_ok() {
                    break;
                }
                seen = match look(&pool, &entry, None).await {
                    Ok(None) => return Ok(Event::Deleted),
                    looked => looked.ok().flatten(),
                };
            }
            self.deleted().await?;
            cached_watch.keep(self);
            Ok(Event::Deleted)
        })
    }

    /// Waits for the deletion, which may be reported late.
    fn end_some_time(mut self) -> backend::Watch {
        Box::pin(async move { self.deleted().await })
    }

    /// Returns when the key was deleted.
    async fn deleted(&mut self) -> Result<Event> {
        self.changed_after(self.known).await.map(|()| Event::Deleted)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.commands.send(Command::Cancel(self.id));
    }
}

struct Stream {
    by: Picked,
    requests: WatchRequestSender,
    responses: WatchResponseStream,
}

/// The watches of a stream, by number: 0 for the first one, and so on.
///
/// The client requests these numbers as IDs, because replies are matched by them and not by their
/// order. ID 0 leaves the choice to the server, which chooses 0 for the first watch of a stream.
/// `etcd grpc-proxy` ignores the requested IDs, and counts in the same way
/// (<https://github.com/etcd-io/etcd/blob/v3.5.16/server/proxy/grpcproxy/watch.go>).
#[derive(Default)]
struct Watches {
    signals: HashMap<i64, Signals>,
    /// The number of each watch, by the ID of its handle.
    numbers: HashMap<i64, i64>,
    requested: i64,
}

impl Watches {
    /// Adds the watch that is requested next, and returns its number.
    fn add(&mut self, id: i64, signals: Signals) -> i64 {
        let number = self.requested;
        self.requested += 1;
        self.numbers.insert(id, number);
        self.signals.insert(number, signals);
        number
    }

    /// Removes a watch, and returns its number.
    fn remove(&mut self, id: i64) -> Option<i64> {
        let number = self.numbers.remove(&id)?;
        self.signals.remove(&number);
        Some(number)
    }
}

async fn run(pool: Arc<Pool>, mut inbox: mpsc::UnboundedReceiver<Command>) {
    let mut stream: Option<Stream> = None;
    let mut watches = Watches::default();
    let mut current = pool.watch_current();
    loop {
        let broken = tokio::select! {
            biased;
            command = inbox.recv() => match command {
                None => return,
                Some(Command::Cancel(id)) => cancel(&mut stream, &mut watches, id).await.is_err(),
                // The watch was dropped.
                Some(Command::Watch { signals, .. }) if signals.changes.is_closed() => false,
                Some(Command::Watch { id, key, puts, signals }) => {
                    let options = match signals.prefix {
                        Some(_) => WatchOptions::new().with_prefix(),
                        None if puts => WatchOptions::new(),
                        None => WatchOptions::new().with_filters([WatchFilterType::NoPut]),
                    };
                    let options = options.with_watch_id(watches.add(id, signals));
                    match &mut stream {
                        Some(stream) => stream.requests.watch(&*key, Some(options)).await.is_err(),
                        None => {
                            current.mark_unchanged();
                            stream = open(&pool, key, options).await;
                            stream.is_none()
                        }
                    }
                }
            },
            message = next(&mut stream) => match message {
                // Canceled by the server, perhaps because the token has expired. A new stream uses
                // a new one.
                Ok(Some(message)) => is_canceled(&mut watches, &message),
                ended => {
                    if let (Some(stream), Err(error)) = (&stream, ended) {
                        drop(pool.refused(&stream.by, Cause::Client(error)));
                    }
                    true
                }
            },
            // Another request has found the endpoint dead. Its stream will not report that by
            // itself.
            _ = current.changed() => stream.is_some(),
        };
        if broken {
            // Dropping the signals makes every waiter read again, which opens a new stream.
            (stream, watches) = (None, Watches::default());
        }
    }
}

async fn open(pool: &Pool, key: Arc<str>, options: WatchOptions) -> Option<Stream> {
    let picked = pool.pick(0).await.ok()?;
    let mut client = picked.client.watch_client();
    let stream = in_time(pool.remote.request_timeout, client.watch(&*key, Some(options))).await;
    let stream = stream.map_err(|cause| pool.refused(&picked, cause)).ok()?;
    let (requests, responses) = stream.split();
    Some(Stream { by: picked, requests, responses })
}

async fn next(stream: &mut Option<Stream>) -> Result<Option<WatchResponse>, Error> {
    match stream {
        Some(stream) => stream.responses.message().await,
        None => std::future::pending().await,
    }
}

/// Cancels a watch. The server may not have it, if its stream broke or it was never requested.
async fn cancel(stream: &mut Option<Stream>, watches: &mut Watches, id: i64) -> Result<(), Error> {
    match (watches.remove(id), stream) {
        (Some(number), Some(stream)) => stream.requests.cancel(number).await,
        _ => Ok(()),
    }
}

/// Forwards a message of the server. Returns `true` if the server has canceled a watch.
fn is_canceled(watches: &mut Watches, message: &WatchResponse) -> bool {
    let number = message.watch_id();
    if message.canceled() {
        // This is also the reply to our own cancel, after the watch was removed.
        return message.created() || watches.signals.contains_key(&number);
    }
    let Some(signals) = watches.signals.get_mut(&number) else { return false };
    if message.created() {
        if let Some(created) = signals.created.take() {
            let _ = created.send(message.header().map_or(0, |header| header.revision()));
        }
        return false;
    }
    let prefix = &signals.prefix;
    let is_change = |event: &&etcd_client::Event| match (prefix, event.kv()) {
        (Some(prefix), Some(kv)) => keys::is_direct(prefix, kv),
        // A read then decides whether the key still holds its place.
        (None, Some(kv)) => event.event_type() == EventType::Delete || keys::lost_its_lease(kv),
        (_, None) => false,
    };
    let changes = message.events().iter().filter(is_change).filter_map(|event| event.kv());
    if let Some(latest) = changes.map(KeyValue::mod_revision).max() {
        signals.changes.send_replace(latest);
    }
    false
}
