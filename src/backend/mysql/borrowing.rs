//! A session's requests that use the user's pool. One task acquires a connection for each request,
//! or for several that can be sent together.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};

use super::{
    alone::Batch,
    connection::Connector,
    error::is_useless,
    later::Later,
    lent::{Failure, Lent, PLACE},
    message::Message,
    pool::UserPool,
    replies::Replies,
    sent::Sent,
    waiting::{Waiting, Waits},
};
use crate::{
    backend::{
        Result, StoreError,
        mysql::by_pool::Destination,
        sql::{
            asking::{Request, Verdict},
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            step::Step,
            watched::until,
        },
    },
    runtime::{
        clock::{Instant, timeout},
        mutex::Mutex,
    },
};

/// The maximum number of connections that a session borrows at a time.
const AT_ONCE: usize = 4;

/// The name of the request on the own connection that checks whether the server replies.
const PING: &str = "ping";

pub(super) struct Borrowing {
    pub(super) connector: Arc<Connector>,
    pub(super) pool: UserPool,
    /// The destination of the session's own connection.
    pub(super) destination: Arc<Mutex<Destination>>,
    pub(super) own: ConnectionHandle<Message>,
    pub(super) replies: Replies,
    pub(super) waiting: Waiting<Request<Message>>,
    /// The requests that a user's transaction has blocked.
    pub(super) later: Later<Waits<Request<Message>>>,
}

/// An event that the task handles.
enum Event {
    /// The pool lent a connection, or failed to, for a wait that began then.
    Lent(Instant, Result<Lent>),
    Ran(Turn, Result<Sent, Failure>),
}

/// Requests that are sent as one text.
struct Turn {
    requests: Vec<Request<Message>>,
    queues: Vec<String>,
    /// The requests are a batch, in which each of them is one statement.
    together: bool,
    /// How long a single request has waited before its repetition.
    waited: Duration,
}

impl Served for Borrowing {
    type Message = Message;
    type Link = ();

    async fn connect(&self) -> Result<()> {
        Ok(())
    }

    fn lost(&self, _useless: bool) {}

    async fn serve(&mut self, (): (), inbox: &mut Inbox<Message>) -> Over {
        let mut under_way = FuturesUnordered::new();
        let mut acquiring = 0;
        loop {
            inbox.collect();
            for order in inbox.waiting.drain(..) {
                if let Order::Ask(request) = order {
                    let queues = request.message.queues.clone();
                    self.waiting.push(request, queues);
                }
            }
            while let Some((waits, waited)) = self.later.next(false) {
                self.waiting.push_again(waits.request, waits.queues, waited);
            }
            while acquiring < self.texts() && under_way.len() < AT_ONCE {
                acquiring += 1;
                under_way.push(self.acquire());
            }
            tokio::select! {
                biased;
                Some(event) = under_way.next() => match event {
                    Event::Lent(began, lent) => {
                        acquiring -= 1;
                        under_way.extend(self.lent(began, lent));
                    }
                    Event::Ran(turn, sent) => self.ran(turn, sent),
                },
                order = inbox.next() => match order {
                    Some(order) => inbox.waiting.push_back(order),
                    None => return Over::Closed,
                },
                () = until(self.later.due()) => {}
            }
        }
    }
}

impl Borrowing {
    /// Returns the number of connections that are useful now.
    fn texts(&self) -> usize {
        let known = &self.replies.known;
        self.waiting.texts(|request| {
            let step = request.message.step.as_ref();
            step.filter(|step| known.travels(step)).map(Step::kind)
        })
    }

    fn acquire(&self) -> BoxFuture<'static, Event> {
        let (pool, own, began) = (self.pool.clone(), self.own.clone(), Instant::now());
        let patience = self.connector.remote.request_timeout;
        async move {
            let lent = match Lent::of(&pool, patience).await {
                // The cause may be the server instead of the pool.
                Err(StoreError::Exhausted(source)) if !is_served(&own, patience / 4).await => {
                    Err(StoreError::Unavailable(source))
                }
                lent => lent,
            };
            Event::Lent(began, lent)
        }
        .boxed()
    }

    /// Uses a connection for the next requests. Without one, the requests fail that have waited
    /// since `began`.
    fn lent(&mut self, began: Instant, lent: Result<Lent>) -> Option<BoxFuture<'static, Event>> {
        let lent = match lent {
            Ok(lent) => lent,
            Err(error) => {
                let error = Arc::new(error);
                for Waits { request, again, .. } in self.waiting.until(began) {
                    match again {
                        None => request.refuse(&error),
                        Some(_) => {
                            let error = StoreError::again(&error);
                            request.answer(Err(Verdict::Failed(error)));
                        }
                    }
                }
                return None;
            }
        };
        let Some(turn) = self.turn() else {
            lent.release();
            return None;
        };
        let message = self.message(&turn);
        let (session, destination) = (self.replies.session, self.destination.lock().clone());
        let beat = self.connector.beat();
        let run = async move {
            let sent = lent.run(session, &destination, beat, &message).await;
            Event::Ran(turn, sent)
        };
        Some(run.boxed())
    }

    /// Returns what to send next.
    fn turn(&mut self) -> Option<Turn> {
        loop {
            let Waits { request, queues, again, .. } = self.waiting.next()?;
            let is_wanted = if again.is_none() { request.begin() } else { request.is_awaited() };
            if !is_wanted {
                self.waiting.ended(&queues);
                continue;
            }
            let step = request
                .message
                .step
                .clone()
                .filter(|step| again.is_none() && self.replies.known.fits(step));
            let others = step.as_ref().filter(|step| self.replies.known.travels(step));
            let others = others.map_or_else(Vec::new, |step| self.with(step));
            let known = &self.replies.known;
            let together = !others.is_empty() || step.is_some() && known.is_open(&request.message);
            let waited = again.unwrap_or_default();
            let mut turn = Turn { requests: vec![request], queues, together, waited };
            for other in others {
                turn.queues.extend(other.queues);
                turn.requests.push(other.request);
            }
            return Some(turn);
        }
    }

    /// Takes the requests that can be sent together with this step.
    fn with(&mut self, step: &Step) -> Vec<Waits<Request<Message>>> {
        let known = &self.replies.known;
        let others = self.waiting.together(
            step,
            |request| request.message.step.as_ref(),
            |step| known.travels(step),
        );
        let (wanted, gone): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|waits| waits.request.begin());
        for waits in gone {
            self.waiting.ended(&waits.queues);
        }
        wanted
    }

    fn message(&self, turn: &Turn) -> Message {
        if let [request] = turn.requests.as_slice()
            && !turn.together
        {
            return self.replies.message_of(request).into_owned();
        }
        let steps = turn.requests.iter().filter_map(|request| request.message.step.as_ref());
        let batch = Batch::of(self.replies.session, steps).selecting(true);
        let known = &self.replies.known;
        batch.message(!turn.requests.iter().all(|request| known.is_open(&request.message)))
    }

    fn ran(&mut self, turn: Turn, sent: Result<Sent, Failure>) {
        let Turn { mut requests, queues, together, waited } = turn;
        self.waiting.ended(&queues);
        let sent = match sent {
            Ok(sent) => sent,
            Err(failure) => {
                let is_elsewhere = matches!(failure, Failure::Elsewhere(_));
                let operation = requests.first().map_or("", |request| request.operation);
                let error = Arc::new(failure.into_error(operation));
                for request in requests {
                    request.answer(Err(Verdict::Failed(StoreError::again(&error))));
                }
                if is_elsewhere {
                    self.see_where_it_is();
                }
                return;
            }
        };
        if sent.refused.as_ref().is_some_and(|(refusal, _)| is_useless(refusal)) {
            self.see_where_it_is();
        }
        if together {
            let came = self.replies.came(&requests, true, &sent);
            let left = self.replies.answer_all(PLACE, requests, came, &sent);
            // In their original order.
            for request in left.into_iter().rev() {
                let queues = request.message.queues.clone();
                self.waiting.push_again(request, queues, Duration::ZERO);
            }
        } else if let Some(request) = requests.pop() {
            let again = self.replies.answer(PLACE, request, sent);
            if let Some(request) = again.filter(Request::is_awaited) {
                let waits = Waits { request, queues, since: Instant::now(), again: Some(waited) };
                self.later.again(waits, waited);
            }
        }
    }

    /// Pings on the own connection, so that the session notices if it leads to a server that has
    /// gone.
    fn see_where_it_is(&self) {
        self.own.order(Message::default());
    }
}

/// Returns `true` if the server replies on the session's own connection.
async fn is_served(own: &ConnectionHandle<Message>, patience: Duration) -> bool {
    matches!(timeout(patience, own.ask(PING, Message::default().urgent())).await, Ok(Ok(_)))
}
