//! A node, and the task of a session that owns the connection to it. Callers may drop their
//! requests at any time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{
    future::FusedFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::sync::{mpsc, oneshot};

use super::{
    link::{self, Link},
    node_state::NodeState,
    script::{Call, Reply},
};
use crate::{
    backend::{Result, StoreError, remote::Remote, resp::is_denied},
    runtime::{
        Backoff,
        clock::{self, Instant, timeout_at},
        executor::spawn_beside,
        mutex::Mutex,
    },
};

/// A clock that is off by more than a hundredth of this was set. A client with a longer TTL uses
/// this bound, too, as other clients may have a shorter TTL.
const USUAL_TTL: Duration = Duration::from_secs(10);

/// How long a connection may be silent while a reply is awaited.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// A node, which all sessions of a client share.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) endpoint: String,
    remote: Arc<Remote>,
    pub(super) state: Mutex<NodeState>,
}

/// A request to a node.
struct Order {
    call: Call,
    until: Instant,
    /// Set when the request is sent, or when its caller gives it up before that.
    settled: Arc<AtomicBool>,
    /// The node's reply, or its error if it denies the request to this user.
    answer: oneshot::Sender<Result<Reply, Arc<str>>>,
}

/// The result of a request.
pub(super) struct Answered {
    pub(super) reply: Option<Reply>,
    /// The request was sent, or may have been, and so may have taken effect.
    pub(super) sent: bool,
    /// The node's error, if it denies the request to this user.
    pub(super) denied: Option<Arc<str>>,
}

/// A handle for requests to a node.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) node: Arc<Node>,
    orders: mpsc::UnboundedSender<Order>,
}

impl Node {
    pub(super) fn new(endpoint: &str, remote: &Arc<Remote>) -> Self {
        let state = Mutex::new(NodeState::new(remote.longest_ttl));
        Self { endpoint: endpoint.to_owned(), remote: Arc::clone(remote), state }
    }

    pub(super) async fn connect(&self) -> Result<Link> {
        let connected = link::connect(&self.endpoint, &self.remote).await;
        let mut state = self.state.lock();
        match &connected {
            Ok(Link { server, answered, .. }) => {
                state.connected(&server.run, server.uptime, *answered);
            }
            Err(error) => state.trouble = Some(error.reason()),
        }
        connected
    }

    /// Starts a task that serves a session's requests. The task ends when no handle is left. `ttl`:
    /// the session's.
    pub(super) fn serve(self: &Arc<Self>, link: Option<Link>, ttl: Duration) -> Asking {
        let (orders, asked) = mpsc::unbounded_channel();
        let node = Arc::clone(self);
        spawn_beside(async move { node.work(link, asked, ttl).await });
        Asking { node: Arc::clone(self), orders }
    }

    async fn work(
        &self,
        mut link: Option<Link>,
        mut orders: mpsc::UnboundedReceiver<Order>,
        ttl: Duration,
    ) {
        let mut backoff = Backoff::default();
        let mut retry = Instant::now();
        // The node's error, if it denied the last attempt to connect.
        let mut denied: Option<Arc<str>> = None;
        loop {
            if let Some(link) = link.take() {
                (backoff, denied) = (Backoff::default(), None);
                if self.talk(link, &mut orders, ttl).await.is_none() {
                    return;
                }
                continue;
            }
            let Some(order) = orders.recv().await else { return };
            if order.until <= Instant::now() || Instant::now() < retry {
                // The caller has given up, or there was no connection a moment ago. Dropping the
                // request means that there is no reply.
                if let Some(denied) = &denied {
                    let _gone = order.answer.send(Err(Arc::clone(denied)));
                }
                continue;
            }
            match timeout_at(order.until, self.connect()).await {
                Ok(Ok(mut connected)) => {
                    self.begin(order, &mut connected, ttl).await;
                    link = Some(connected);
                }
                failed => {
                    denied = match &failed {
                        Ok(Err(error @ StoreError::Denied(_))) => Some(error.reason().into()),
                        _ => None,
                    };
                    if let Some(denied) = &denied {
                        let _gone = order.answer.send(Err(Arc::clone(denied)));
                    }
                    if failed.is_err() {
                        self.state.lock().trouble =
                            Some(format!("{}: no connection within the time limit", self.endpoint));
                    }
                    retry = Instant::now() + backoff.next_pause();
                }
            }
        }
    }

    /// Sends the first request on a new connection.
    async fn begin(&self, order: Order, link: &mut Link, ttl: Duration) {
        let asking = self.ask(order, link.connection.clone(), ttl);
        let mut asking = std::pin::pin!(asking);
        loop {
            tokio::select! {
                biased;
                () = &mut link.driver => {}
                _ = &mut asking => return,
            }
        }
    }

    /// Serves requests on this connection until it ends or stops replying. Returns `None` if no
    /// handle is left.
    async fn talk(
        &self,
        mut link: Link,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        ttl: Duration,
    ) -> Option<()> {
        let mut asked = FuturesUnordered::new();
        let silence = LONGEST_SILENCE.min(ttl / 3);
        // The time of the last reply.
        let mut heard = link.answered;
        // The connection may have ended with the first request.
        while !link.driver.is_terminated() {
            tokio::select! {
                biased;
                () = &mut link.driver => {}
                Some((sent, answered)) = asked.next() => match answered {
                    Some(answered) => heard = heard.max(answered),
                    // A slow node may still reply, and replies in order. The connection is kept, so
                    // that a request that was sent is followed by its release. Other requests may
                    // have been answered since.
                    None if heard < sent && clock::now() >= heard + silence => {
                        self.state.lock().trouble = Some(format!("{}: no reply", self.endpoint));
                        return Some(());
                    }
                    None => {}
                },
                order = orders.recv() => asked.push(self.ask(order?, link.connection.clone(), ttl)),
            }
        }
        self.state.lock().trouble = Some(format!("{}: disconnected", self.endpoint));
        Some(())
    }

    /// Returns when the request was sent, and when there was a reply.
    async fn ask(
        &self,
        order: Order,
        connection: redis::aio::MultiplexedConnection,
        ttl: Duration,
    ) -> (Duration, Option<Duration>) {
        let sent = clock::now();
        let Order { mut call, until, settled, answer } = order;
        if settled.swap(true, Ordering::AcqRel) {
            // The request was given up, which says nothing about the connection.
            return (Duration::ZERO, None);
        }
        {
            // The node may have restarted since it was known to count.
            let state = self.state.lock();
            if state.spoiled(sent, state.longest.max(ttl), false).is_some() {
                call = call.without_taking();
            }
        }
        let reply = match timeout_at(until, call.run(connection)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => {
                let reason = format!("{}: {error}", self.endpoint);
                self.state.lock().trouble = Some(reason.clone());
                if is_denied(&error) {
                    let _gone = answer.send(Err(reason.into()));
                }
                // An error reply counts as a reply, unless the connection has ended.
                let said = error.code().is_some();
                return (sent, said.then(clock::now));
            }
            Err(_late) => return (sent, None),
        };
        let answered = clock::now();
        {
            let mut state = self.state.lock();
            // `longest_ttl` is a bound for all clients, whatever the node reports: a node that
            // restarted has lost the TTLs of clients that still hold locks.
            state.longest = reply.longest.max(self.remote.longest_ttl);
            let (longest, shortest) = (state.longest.max(ttl), ttl.min(USUAL_TTL));
            state.clock.read(reply.time, sent, answered, longest, shortest);
            state.trouble = None;
        }
        // The caller may have gone.
        let _gone = answer.send(Ok(reply));
        (sent, Some(answered))
    }
}

impl Asking {
    /// Sends a request at once. The reply arrives by `until`, or never.
    pub(super) fn ask(
        &self,
        call: Call,
        until: Instant,
    ) -> impl Future<Output = Answered> + Send + use<> {
        let (answer, answered) = oneshot::channel();
        let settled = Arc::<AtomicBool>::default();
        // Without a task there is no reply.
        let _ended = self.orders.send(Order { call, until, settled: Arc::clone(&settled), answer });
        async move {
            let (reply, denied) = match timeout_at(until, answered).await {
                Ok(Ok(Ok(reply))) => (Some(reply), None),
                Ok(Ok(Err(denied))) => (None, Some(denied)),
                _ => (None, None),
            };
            // A request with a reply was sent. Others are given up, unless they were sent.
            Answered { reply, sent: settled.swap(true, Ordering::AcqRel), denied }
        }
    }
}
