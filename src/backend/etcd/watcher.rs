//! The one watch stream of a session, with a watch for each key that somebody waits for.

use std::{collections::HashMap, sync::Arc};

use etcd_client::{
    Error, EventType, WatchFilterType, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{error::Cause, pool::Pool};

/// A handle on the task that owns the stream; dropping it ends the task.
#[derive(Debug)]
pub(super) struct Watcher {
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Debug)]
enum Command {
    Watch { key: String, signals: Signals, id: oneshot::Sender<i64> },
    Cancel(i64),
}

/// How a watch reports. Both are dropped when its stream breaks.
#[derive(Debug)]
struct Signals {
    created: Option<oneshot::Sender<()>>,
    deleted: oneshot::Sender<()>,
}

/// A watch on one key; dropping it cancels it.
pub(super) struct Watch {
    id: oneshot::Receiver<i64>,
    created: oneshot::Receiver<()>,
    deleted: oneshot::Receiver<()>,
    commands: mpsc::UnboundedSender<Command>,
    over: bool,
}

/// The watch's stream broke: nothing is known of the key.
#[derive(Debug, thiserror::Error)]
#[error("the watch stream broke")]
pub(super) struct Broken;

impl Watcher {
    pub(super) fn start(pool: Arc<Pool>) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        tokio::spawn(run(pool, inbox));
        Self { commands }
    }

    /// Starts to watch `key` for its deletion, from the server's "now".
    pub(super) fn watch(&self, key: &str) -> Watch {
        let (created, created_rx) = oneshot::channel();
        let (deleted, deleted_rx) = oneshot::channel();
        let (id, id_rx) = oneshot::channel();
        let signals = Signals { created: Some(created), deleted };
        // Should the task be gone, the senders are dropped here and the watch is broken from the start.
        let _ = self.commands.send(Command::Watch { key: key.to_owned(), signals, id });
        Watch { id: id_rx, created: created_rx, deleted: deleted_rx, commands: self.commands.clone(), over: false }
    }
}

impl Watch {
    /// Returns once the server has the watch: what happens from now on will be told.
    pub(super) async fn created(&mut self) -> Result<(), Broken> {
        (&mut self.created).await.map_err(|_| Broken)
    }

    /// Returns when the key was deleted.
    pub(super) async fn deleted(&mut self) -> Result<(), Broken> {
        let deleted = (&mut self.deleted).await;
        self.over = true;
        deleted.map_err(|_| Broken)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        // From here on a task that has not asked for the watch yet sees that nobody wants to know.
        self.id.close();
        if let Ok(id) = self.id.try_recv() {
            let _ = self.commands.send(Command::Cancel(id));
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
    let mut last_id = 0;
    loop {
        let broken = tokio::select! {
            command = inbox.recv() => match command {
                None => return,
                Some(Command::Cancel(id)) => cancel(&mut stream, &mut watches, id).await.is_err(),
                Some(Command::Watch { key, signals, id }) => {
                    last_id += 1;
                    // Its own id, never 0 (the server's choice) and never used twice, so that answers are matched by id and not by order.
                    let options = WatchOptions::new().with_watch_id(last_id).with_filters([WatchFilterType::NoPut]);
                    if id.send(last_id).is_err() {
                        continue;
                    }
                    watches.insert(last_id, signals);
                    match &mut stream {
                        Some(stream) => stream.requests.watch(key, Some(options)).await.is_err(),
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
                    Told::Deleted(id) => cancel(&mut stream, &mut watches, id).await.is_err(),
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

async fn open(pool: &Pool, key: String, options: WatchOptions) -> Option<Stream> {
    let picked = pool.pick(0).await.ok()?;
    let mut client = picked.client.watch_client();
    let cause = match timeout(pool.request_timeout, client.watch(key, Some(options))).await {
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

async fn cancel(stream: &mut Option<Stream>, watches: &mut HashMap<i64, Signals>, id: i64) -> Result<(), Error> {
    watches.remove(&id);
    match stream {
        Some(stream) => stream.requests.cancel(id).await,
        None => Ok(()),
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
            let _ = created.send(());
        }
        return Told::Nothing;
    }
    // Puts are filtered out, so whatever else is told is the deletion.
    if message.events().iter().any(|event| event.event_type() == EventType::Delete) {
        if let Some(signals) = watches.remove(&id) {
            let _ = signals.deleted.send(());
        }
        return Told::Deleted(id);
    }
    Told::Nothing
}
