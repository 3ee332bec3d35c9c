//! The one watch stream of a session, with a watch for each key that somebody waits for.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use etcd_client::{
    Client, Error, EventType, GetOptions, WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse,
    WatchResponseStream,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

use super::{error::Cause, pool::Pool};
use crate::{
    backend::{Entry, Event},
    error::StoreError,
    rig::{Bug, planted},
};

/// When to look again for a key whose watch may not be in step with the server yet. etcd serves such watches every 100 ms
/// (`syncWatchersLoop`, <https://github.com/etcd-io/etcd/blob/v3.5.16/server/mvcc/watchable_store.go#L211>).
const LOOKS: [Duration; 5] = [
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
    Duration::from_millis(32),
    Duration::from_millis(64),
];

/// A handle on the task that owns the stream; dropping it ends the task.
#[derive(Debug)]
pub(super) struct Watcher {
    commands: mpsc::UnboundedSender<Command>,
    last_id: AtomicI64,
}

#[derive(Debug)]
enum Command {
    Watch { id: i64, key: Arc<str>, signals: Signals },
    Cancel(i64),
}

/// How a watch reports. Both are dropped when its stream breaks.
#[derive(Debug)]
struct Signals {
    created: Option<oneshot::Sender<i64>>,
    deleted: Option<oneshot::Sender<()>>,
}

impl Signals {
    fn is_unwanted(&self) -> bool {
        self.deleted.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

/// A watch on one key; dropping it cancels it.
struct Watch {
    id: i64,
    deleted: oneshot::Receiver<()>,
    commands: mpsc::UnboundedSender<Command>,
    over: bool,
}

/// The watch's stream broke: nothing is known of the key.
#[derive(Debug, thiserror::Error)]
#[error("the watch stream broke")]
struct Broken;

impl From<Broken> for StoreError {
    fn from(broken: Broken) -> Self {
        Self::Unavailable(broken.into())
    }
}

/// Watches a key from "now" and then looks once: what happened before the watch shows in the look, what happens after it comes as an event. A watch from a past
/// revision would be exact without the look, but etcd serves those only every 100 ms.
///
/// It may happen to a watch from "now" as well: the server takes the next revision for "now" and registers the watch a moment later, and if something was written in between the
/// watch is late from the start. Nothing was if the look, made later still, has the revision from which the server started (the
/// header of its answer): then the watch is in step. Else, if it is `urgent`, the key is looked at again at growing intervals until the watch must have caught up: news is never
/// later than the time that has passed since the start of the watch, and a little.
pub(super) async fn watch(
    watcher: &Watcher,
    pool: &Arc<Pool>,
    entry: &Entry,
    urgent: bool,
) -> Result<Option<crate::backend::Watch>, StoreError> {
    let (mut watch, created) = watcher.watch(&entry.key);
    let start = timeout(pool.request_timeout, created).await;
    let start = start.map_err(|late| StoreError::Unavailable(late.into()))?.map_err(|_| Broken)?;
    let seen = look(pool, entry).await?;
    if seen < start {
        return Err(StoreError::Unavailable("a stale read".into()));
    }
    if seen == GONE && !planted(Bug::NoSecondLook) {
        return Ok(None);
    }
    if seen == start || !urgent || planted(Bug::NoSecondLook) {
        return Ok(Some(Box::pin(async move { Ok(watch.deleted().await?) })));
    }
    let (pool, entry) = (Arc::clone(pool), entry.clone());
    Ok(Some(Box::pin(async move {
        for pause in LOOKS {
            tokio::select! {
                deleted = watch.deleted() => return Ok(deleted?),
                () = sleep(pause) => {}
            }
            if matches!(look(&pool, &entry).await, Ok(GONE)) {
                return Ok(Event::Deleted);
            }
        }
        Ok(watch.deleted().await?)
    })))
}

/// What [`look`] says of a key that is not there, or is another one by now.
const GONE: i64 = i64::MAX;

/// Looks for the key; tells as of which revision it is there. The member that has the watch knows best what the watch may have missed, so that
/// the others need not be asked.
async fn look(pool: &Pool, entry: &Entry) -> Result<i64, StoreError> {
    let look = |client: Arc<Client>| {
        let options = GetOptions::new().with_keys_only().with_serializable();
        async move { client.kv_client().get(&*entry.key, Some(options)).await }
    };
    let seen = pool.request("look at a key", look).await?;
    let revision = seen.header().map_or(0, |header| header.revision());
    if revision.unsigned_abs() < entry.revision {
        return Err(StoreError::Unavailable("a stale read".into()));
    }
    let there = seen.kvs().first().is_some_and(|kv| kv.create_revision().unsigned_abs() == entry.revision);
    Ok(if there { revision } else { GONE })
}

impl Watcher {
    pub(super) fn start(pool: Arc<Pool>) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(pool, inbox));
        Self { commands, last_id: AtomicI64::new(0) }
    }

    /// Starts to watch `key` for its deletion, from the server's "now". What comes first is that the server has the watch, and from which revision it took that.
    fn watch(&self, key: &Arc<str>) -> (Watch, oneshot::Receiver<i64>) {
        let (created, created_rx) = oneshot::channel();
        let (deleted, deleted_rx) = oneshot::channel();
        // Its own id, never 0 (the server's choice) and never used twice, so that answers are matched by id and not by order.
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let signals = Signals { created: Some(created), deleted: Some(deleted) };
        // Should the task be gone, the senders are dropped here and the watch is broken from the start.
        let _ = self.commands.send(Command::Watch { id, key: Arc::clone(key), signals });
        (Watch { id, deleted: deleted_rx, commands: self.commands.clone(), over: false }, created_rx)
    }
}

impl Watch {
    /// Returns when the key was deleted.
    async fn deleted(&mut self) -> Result<Event, Broken> {
        let deleted = (&mut self.deleted).await;
        self.over = true;
        deleted.map(|()| Event::Deleted).map_err(|_| Broken)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.commands.send(Command::Cancel(self.id));
        }
    }
}

/// The stream and its watches.
struct Stream {
    endpoint: usize,
    requests: WatchRequestSender,
    responses: WatchResponseStream,
}

async fn run(pool: Arc<Pool>, mut inbox: mpsc::UnboundedReceiver<Command>) {
    let mut stream: Option<Stream> = None;
    let mut watches: HashMap<i64, Signals> = HashMap::new();
    let mut current = pool.watch_current();
    loop {
        let broken = tokio::select! {
            command = inbox.recv() => match command {
                None => return,
                Some(Command::Cancel(id)) => cancel(&mut stream, &mut watches, id).await.is_err(),
                // Nobody wants to know any more.
                Some(Command::Watch { signals, .. }) if signals.is_unwanted() => false,
                Some(Command::Watch { id, key, signals }) => {
                    let options = WatchOptions::new().with_watch_id(id).with_filters([WatchFilterType::NoPut]);
                    watches.insert(id, signals);
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
                Ok(Some(message)) => match on_message(&mut watches, &message) {
                    Told::Nothing => false,
                    // The server keeps a watch on a deleted key: it may come again. Nobody here waits for that.
                    Told::Deleted(id) => {
                        if let Some(deleted) = watches.get_mut(&id).and_then(|signals| signals.deleted.take()) {
                            let _ = deleted.send(());
                        }
                        cancel(&mut stream, &mut watches, id).await.is_err()
                    }
                    // Canceled by the server, for an expired token perhaps: a new stream brings a new one.
                    Told::Canceled => true,
                },
                ended => {
                    if let (Some(stream), Err(error)) = (&stream, ended) {
                        drop(pool.failed(stream.endpoint, Cause::Client(error)));
                    }
                    true
                }
            },
            // The endpoint is found dead by another request: its stream will not say so itself.
            _ = current.changed() => stream.is_some(),
        };
        if broken {
            // Dropping the signals tells every waiter to look again; that brings a new stream.
            watches.clear();
            stream = None;
        }
    }
}

async fn open(pool: &Pool, key: Arc<str>, options: WatchOptions) -> Option<Stream> {
    let picked = pool.pick(0).await.ok()?;
    let mut client = picked.client.watch_client();
    let cause = match timeout(pool.request_timeout, client.watch(&*key, Some(options))).await {
        Ok(Ok(stream)) => {
            let (requests, responses) = stream.split();
            return Some(Stream { endpoint: picked.index, requests, responses });
        }
        Ok(Err(error)) => Cause::Client(error),
        Err(_) => Cause::Silence,
    };
    drop(pool.failed(picked.index, cause));
    None
}

async fn next(stream: &mut Option<Stream>) -> Result<Option<WatchResponse>, Error> {
    match stream {
        Some(stream) => stream.responses.message().await,
        None => std::future::pending().await,
    }
}

/// Ends a watch; the server may not have it, if its stream broke or it was never asked for.
async fn cancel(stream: &mut Option<Stream>, watches: &mut HashMap<i64, Signals>, id: i64) -> Result<(), Error> {
    match (watches.remove(&id), stream) {
        (Some(_), Some(stream)) => stream.requests.cancel(id).await,
        _ => Ok(()),
    }
}

/// What a message of the server means for the stream.
enum Told {
    Nothing,
    Deleted(i64),
    Canceled,
}

fn on_message(watches: &mut HashMap<i64, Signals>, message: &WatchResponse) -> Told {
    let id = message.watch_id();
    if message.canceled() {
        // Also the answer to a cancel of ours, when the watch is forgotten already.
        return if message.created() || watches.contains_key(&id) { Told::Canceled } else { Told::Nothing };
    }
    let Some(signals) = watches.get_mut(&id) else { return Told::Nothing };
    if message.created() {
        if let Some(created) = signals.created.take() {
            let _ = created.send(message.header().map_or(0, |header| header.revision()));
        }
        return Told::Nothing;
    }
    // Puts are filtered out, so whatever else is told is the deletion.
    if message.events().iter().any(|event| event.event_type() == EventType::Delete) {
        return Told::Deleted(id);
    }
    Told::Nothing
}
