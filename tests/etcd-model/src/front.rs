//! Serves a model on a port of this machine, by the machine's clock.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use etcd_client::proto::{
    PbClusterServer, PbKvServer, PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse, PbLeaseServer,
    PbMaintenanceServer, PbWatchRequest, PbWatchResponse, PbWatchServer,
};
use tokio::{net::TcpListener, runtime, sync::mpsc, time::sleep};
use tonic::{
    Response, Status,
    transport::{Server, server::TcpIncoming},
};

use crate::{Model, Settings, error::Result};

/// The largest message that the server accepts: `--max-request-bytes` plus the overhead of gRPC.
const MAX_MESSAGE: usize = 2 * 1024 * 1024;

/// A server that runs until the process exits.
#[derive(Clone, Debug)]
pub struct Front {
    /// Its address.
    pub address: SocketAddr,
    shared: Shared,
}

/// Counters by event (`started`, `msg_received` or `msg_sent`) and method, named as in etcd's own
/// metrics.
pub type Counts = BTreeMap<(&'static str, &'static str), u64>;

impl Front {
    /// Starts a server on a free port.
    ///
    /// # Errors
    ///
    /// Fails if no port or no thread is available.
    pub fn start(settings: Settings) -> io::Result<Self> {
        Self::serve(Shared::new(settings))
    }

    /// Starts another member with the same state.
    ///
    /// # Errors
    ///
    /// Fails if no port or no thread is available.
    pub fn start_member(&self) -> io::Result<Self> {
        Self::serve(Shared { hung: Arc::default(), ..self.shared.clone() })
    }

    fn serve(shared: Shared) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (serving, clock) = (shared.clone(), shared.clone());
        // A runtime of its own: each test has a different one.
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("etcd-model".into()).spawn(move || {
            runtime.block_on(async {
                tokio::spawn(async move { clock.keep_time().await });
                // It ends with the process; after a failure, each of its clients gets an error.
                let _ended = serve(listener, &serving).await;
            });
        })?;
        Ok(Self { address, shared })
    }

    /// Hangs this member's disk from now on. The member is a follower: it serves its last state,
    /// and the leader replies about leases.
    pub fn hang(&self) {
        let state = self.shared.lock();
        *lock(&self.shared.hung) = Some(state.model.clone());
    }

    /// Returns its counters.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.lock().counts.clone()
    }
}

async fn serve(
    listener: std::net::TcpListener,
    shared: &Shared,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let incoming = TcpIncoming::from(TcpListener::from_std(listener)?).with_nodelay(Some(true));
    let served = || shared.clone();
    Server::builder()
        .add_service(PbKvServer::new(served()).max_decoding_message_size(MAX_MESSAGE))
        .add_service(PbLeaseServer::new(served()))
        .add_service(PbWatchServer::new(served()))
        .add_service(PbClusterServer::new(served()))
        .add_service(PbMaintenanceServer::new(served()))
        .serve_with_incoming(incoming)
        .await?;
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that all connections to a member share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    /// Shared by all members.
    state: Arc<Mutex<State>>,
    hung: Hung,
    started: Instant,
}

/// The last state of a member whose disk hangs.
type Hung = Arc<Mutex<Option<Model>>>;

#[derive(Debug)]
struct State {
    model: Model,
    /// The client ends of the watch streams, and their members.
    streams: HashMap<u64, (Sender, Hung)>,
    last_stream: u64,
    counts: Counts,
}

type Sender = mpsc::UnboundedSender<Result<PbWatchResponse>>;

impl State {
    fn count(&mut self, what: &'static str, method: &'static str) {
        *self.counts.entry((what, method)).or_default() += 1;
    }

    /// Sends the events of the streams whose member's disk does not hang.
    fn deliver(&mut self) {
        let mut sent = self.model.take_sent();
        let is_hung = |(_, hung): &(Sender, Hung)| lock(hung).is_some();
        sent.retain(|(stream, _)| !self.streams.get(stream).is_some_and(is_hung));
        self.send(sent);
    }

    fn send(&mut self, responses: Vec<(u64, PbWatchResponse)>) {
        for (stream, response) in responses {
            if let Some((sender, _)) = self.streams.get(&stream) {
                // A disconnected client is removed by the task that reads its requests.
                let _gone = sender.send(Ok(response));
                self.count("msg_sent", "Watch");
            }
        }
    }
}

impl Shared {
    fn new(settings: Settings) -> Self {
        let (model, streams) = (Model::new(settings), HashMap::new());
        let state = State { model, streams, last_stream: 0, counts: Counts::new() };
        Self { state: Arc::new(Mutex::new(state)), hung: Hung::default(), started: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Makes a change at the current time, and sends its consequences.
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.model.set_time(self.started.elapsed());
        let outcome = change(&mut state);
        state.deliver();
        outcome
    }

    /// Serves one request. A member whose disk hangs replies from its last state if that is
    /// sufficient, and otherwise never.
    pub(crate) async fn call<T>(
        &self,
        method: &'static str,
        needs: Needs,
        serve: impl FnOnce(&mut Model) -> Result<T>,
    ) -> std::result::Result<Response<T>, Status> {
        let is_hung = match (needs, &mut *lock(&self.hung)) {
            (_, None) | (Needs::Leader, _) => false,
            (Needs::State, Some(model)) => return serve(model).map(Response::new),
            (Needs::Log, Some(_)) => true,
        };
        if is_hung {
            std::future::pending::<()>().await;
        }
        self.with(|state| {
            state.count("started", method);
            serve(&mut state.model).map(Response::new)
        })
    }

    /// Serves one keepalive.
    pub(crate) fn keep_alive(&self, request: &PbLeaseKeepAliveRequest) -> PbLeaseKeepAliveResponse {
        self.with(|state| {
            state.count("msg_received", "LeaseKeepAlive");
            state.model.lease_keep_alive(request)
        })
    }

    /// Serves one message of a watch stream.
    pub(crate) fn watch(&self, stream: u64, request: PbWatchRequest) {
        let replies = lock(&self.hung).as_mut().map(|model| {
            model.watch(stream, request.clone());
            model.take_sent()
        });
        self.with(|state| match replies {
            None => {
                state.count("msg_received", "Watch");
                state.model.watch(stream, request);
            }
            Some(replies) => state.send(replies),
        });
    }

    /// Opens a watch stream; its messages are sent to `sender`.
    pub(crate) fn open_stream(&self, sender: Sender) -> u64 {
        self.with(|state| {
            state.last_stream += 1;
            state.streams.insert(state.last_stream, (sender, Arc::clone(&self.hung)));
            state.last_stream
        })
    }

    pub(crate) fn close_stream(&self, stream: u64) {
        self.with(|state| {
            state.model.close_stream(stream);
            state.streams.remove(&stream);
        });
    }

    /// Does what is due without a request.
    async fn keep_time(&self) {
        loop {
            let due = self.with(|state| state.model.due());
            let wait = due.saturating_sub(self.started.elapsed());
            sleep(wait.max(Duration::from_millis(1))).await;
        }
    }
}

/// What a member needs to reply to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Needs {
    /// Its own state, however old.
    State,
    /// To write to its log, or to read up to its latest entry.
    Log,
    /// The leader, which replies in its place.
    Leader,
}
