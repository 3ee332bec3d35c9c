//! A session's connection to its server, which one task owns and uses for one request at a time.
//! Callers may drop their futures at any moment. The task never does.

use std::{io, sync::Arc, time::Duration};

use super::{
    alone::{self, Batch},
    borrowing::Borrowing,
    by_pool::Destination,
    connection::{Connector, Link},
    error::is_useless,
    known_queues::KnownQueues,
    later::Later,
    lockable::Lockable,
    looks,
    message::Message,
    opening,
    replies::Replies,
    sent::Sent,
    statements::MysqlStatements,
    waiting::Waiting,
    watches::{Due, Watches},
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::{Request, Verdict},
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            outcome::Outcome,
            released::Released,
            step::Step,
            watched::until,
        },
    },
    runtime::{
        clock::{self, Instant},
        mutex::Mutex,
    },
};

/// How often a session removes dead sessions that block no lock, and rows of unused queues.
const SWEEPS: Duration = Duration::from_secs(30);

/// A session's access to the server.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) connection: ConnectionHandle<Message>,
    /// The handle for requests through the user's pool, if there is one.
    pub(super) by_pool: Option<ConnectionHandle<Message>>,
    pub(super) connector: Arc<Connector>,
    pub(super) statements: MysqlStatements,
    pub(super) watches: Arc<Watches>,
    pub(super) released: Arc<Released>,
    pub(super) lockable: Arc<Lockable>,
}

impl Session {
    pub(super) fn start(
        connector: Arc<Connector>,
        link: Link,
        session: i64,
        ttl: Duration,
    ) -> Self {
        let (watches, released) = (Arc::new(Watches::new(session)), Arc::<Released>::default());
        let lockable = Arc::<Lockable>::default();
        let replies = || Replies { session, known: KnownQueues::new(Arc::clone(&lockable)) };
        let destination = Arc::new(Mutex::new(link.destination.clone()));
        connector.add(&watches);
        let task = Task {
            connector: Arc::clone(&connector),
            session,
            ttl,
            server: link.server.clone(),
            watches: Arc::clone(&watches),
            released: Arc::clone(&released),
            replies: replies(),
            destination: Arc::clone(&destination),
            later: Later::default(),
            swept: Instant::now(),
            removes: false,
        };
        let patience = connector.remote.request_timeout;
        let connection = ConnectionHandle::start(task, link, patience);
        let by_pool = connector.remote.mysql_pool.clone().map(|pool| {
            let (connector, own) = (Arc::clone(&connector), connection.clone());
            let (replies, waiting, later) = (replies(), Waiting::default(), Later::default());
            let task = Borrowing { connector, pool, destination, own, replies, waiting, later };
            ConnectionHandle::start(task, (), patience)
        });
        let statements = MysqlStatements { session };
        Self { connection, by_pool, connector, statements, watches, released, lockable }
    }
}

struct Task {
    connector: Arc<Connector>,
    session: i64,
    ttl: Duration,
    /// The server of the last connection.
    server: String,
    watches: Arc<Watches>,
    released: Arc<Released>,
    replies: Replies,
    /// The destination of the last connection.
    destination: Arc<Mutex<Destination>>,
    /// Requests to be sent by themselves: now, or after a user's transaction has ended.
    later: Later<Request<Message>>,
    /// When the last sweep ran.
    swept: Instant,
    /// Ended sessions have left more than one request removes.
    removes: bool,
}

impl Served for Task {
    type Message = Message;
    type Link = Link;

    async fn connect(&self) -> Result<Link> {
        let Self { connector, session, ttl, server, released, .. } = self;
        // This leaves time for another attempt, unless the session expires first.
        let patience = connector.remote.request_timeout * 2;
        connector.connect_again(*session, *ttl, server, released, patience).await
    }

    fn lost(&self, useless: bool) {
        if useless {
            self.connector.endpoints.leave();
        }
        self.watches.lose();
    }

    async fn serve(&mut self, mut link: Link, inbox: &mut Inbox<Message>) -> Over {
        self.server.clone_from(&link.server);
        self.destination.lock().clone_from(&link.destination);
        let over = self.serve_all(&mut link, inbox).await;
        for request in self.later.drain() {
            let error = StoreError::Unavailable("the connection was lost".into());
            request.answer(Err(Verdict::Failed(error)));
        }
        if matches!(over, Over::Closed) {
            link.close().await;
        }
        over
    }
}

impl Task {
    /// Serves keepalives first. Due polls and other requests take turns.
    async fn serve_all(&mut self, link: &mut Link, inbox: &mut Inbox<Message>) -> Over {
        let mut looked = false;
        loop {
            inbox.collect();
            let urgent = inbox.waiting.iter().position(is_urgent);
            let waits = !inbox.waiting.is_empty() || self.later.is_due();
            // Polls alternate with other requests.
            let busy = urgent.is_some() || looked && waits;
            let due = if busy { Due::default() } else { self.watches.take_due() };
            looked = !due.is_empty();
            let over = if looked {
                self.look(link, due).await
            } else if let Some(order) = urgent.and_then(|at| inbox.waiting.remove(at)) {
                self.follow(link, order, inbox).await
            } else if let Some((request, waited)) = self.later.next(!inbox.waiting.is_empty()) {
                self.answer(link, request, waited).await
            } else if let Some(order) = inbox.waiting.pop_front() {
                self.follow(link, order, inbox).await
            } else if self.removes {
                self.send(link, &Message::default().sweeping()).await.err()
            } else {
                self.rest(inbox).await
            };
            if let Some(over) = over {
                return over;
            }
        }
    }

    /// Waits until there is something to do.
    async fn rest(&self, inbox: &mut Inbox<Message>) -> Option<Over> {
        let watches = Arc::clone(&self.watches);
        let due = [watches.due(), self.later.due()].into_iter().flatten().min();
        tokio::select! {
            biased;
            order = inbox.next() => match order {
                Some(order) => inbox.waiting.push_back(order),
                None => return Some(Over::Closed),
            },
            () = watches.changed.notified() => {}
            () = until(due) => {}
        }
        None
    }

    async fn follow(
        &mut self,
        link: &mut Link,
        order: Order<Message>,
        inbox: &mut Inbox<Message>,
    ) -> Option<Over> {
        let request = match order {
            Order::Do(message) if message.sweeps && self.swept.elapsed() < SWEEPS => return None,
            Order::Do(message) => return self.keep_house(link, message, inbox).await,
            Order::Ask(request) if request.begin() => request,
            Order::Ask(_) => return None,
        };
        match request.message.step.as_ref() {
            Some(step) if self.replies.known.fits(step) => {
                let together = self.together(request, inbox);
                self.answer_all(link, together).await
            }
            _ => self.answer(link, request, Duration::ZERO).await,
        }
    }

    /// Removes dead sessions, and rows of unused queues.
    async fn keep_house(
        &mut self,
        link: &mut Link,
        message: Message,
        inbox: &mut Inbox<Message>,
    ) -> Option<Over> {
        let (sweeps, tidies) = (message.sweeps, message.tidies);
        let sent = match self.send(link, &message).await {
            Ok(sent) => sent,
            Err(over) => return Some(over),
        };
        let more = sent.outcomes.last().and_then(Outcome::first).is_some_and(|row| row.flag(0));
        if sweeps {
            self.swept = Instant::now();
        }
        if sweeps || tidies && more {
            let tidying = [opening::tidy(), opening::tidied()].map(Order::Do);
            inbox.waiting.extend(tidying);
        }
        None
    }

    /// Returns this request and the waiting ones that can be sent with it.
    fn together(
        &self,
        first: Request<Message>,
        inbox: &mut Inbox<Message>,
    ) -> Vec<Request<Message>> {
        let known = &self.replies.known;
        let travels = |step: &&Step| known.travels(step);
        let Some(step) = first.message.step.as_ref().filter(travels) else { return vec![first] };
        let others =
            alone::together(step, &mut inbox.waiting, step_of, |_, step| known.travels(step));
        let asked = others.into_iter().filter_map(|order| match order {
            Order::Ask(request) if request.begin() => Some(request),
            _ => None,
        });
        std::iter::once(first).chain(asked).collect()
    }

    /// Sends a request by itself. If a user's transaction blocks it, it is repeated later.
    async fn answer(
        &mut self,
        link: &mut Link,
        request: Request<Message>,
        waited: Duration,
    ) -> Option<Over> {
        if !request.is_awaited() {
            return None;
        }
        let message = self.replies.message_of(&request);
        let sent = match self.connector.ask(link, self.session, &message).await {
            Ok(sent) => sent,
            Err(error) => {
                let reason = failure(&link.endpoint, &error);
                request.answer(Err(Verdict::Failed(StoreError::Unknown(reason.into()))));
                return Some(over(&error));
            }
        };
        self.removes |= sent.leaves_more;
        let useless = sent.refused.as_ref().is_some_and(|(refusal, _)| is_useless(refusal));
        if let Some(request) = self.replies.answer(&link.endpoint, request, sent) {
            self.later.again(request, waited);
        }
        useless.then_some(Over::Useless)
    }

    /// Sends all of these as one request. Those that it has not applied are sent by themselves.
    async fn answer_all(
        &mut self,
        link: &mut Link,
        mut together: Vec<Request<Message>>,
    ) -> Option<Over> {
        let known = &self.replies.known;
        if together.len() == 1 && !known.is_open(&together[0].message) {
            return self.answer(link, together.remove(0), Duration::ZERO).await;
        }
        let steps = together.iter().filter_map(|request| request.message.step.as_ref());
        let fresh = !together.iter().all(|request| known.is_open(&request.message));
        let message = Batch::of(self.session, steps).message(fresh);
        let sent = match self.connector.ask(link, self.session, &message).await {
            Ok(sent) => sent,
            Err(error) => {
                let reason: Arc<str> = failure(&link.endpoint, &error).into();
                for request in together {
                    let error = StoreError::Unknown((&*reason).into());
                    request.answer(Err(Verdict::Failed(error)));
                }
                return Some(over(&error));
            }
        };
        let came = self.replies.came(&together, false, &sent);
        let left = self.replies.answer_all(&link.endpoint, together, came, &sent);
        left.into_iter().for_each(|request| self.later.now(request));
        let useless = sent.refused.as_ref().is_some_and(|(refusal, _)| is_useless(refusal));
        useless.then_some(Over::Useless)
    }

    async fn look(&mut self, link: &mut Link, due: Due) -> Option<Over> {
        let message = looks::look(self.session, &due.what, !due.own.is_empty());
        // Sessions seem to live on if the clock was set back.
        let clock_trust = self.connector.clock.clock_trust(clock::now());
        let sweeps = due.sweeps || clock_trust.is_some_and(|clock_trust| clock_trust.clips);
        let message = if sweeps { message.sweeping_first(&due.what) } else { message };
        let sent = match self.send(link, &message).await {
            Ok(sent) => sent,
            Err(over) => return Some(over),
        };
        if sent.refused.is_some() {
            self.watches.missed(&due.what);
            self.watches.missed(&due.own);
            return None;
        }
        let shown = looks::read_all(due.what.len(), &sent.outcomes);
        self.watches.saw(&due.what, shown);
        if let Some(own) = sent.outcomes.last().filter(|_| !due.own.is_empty()) {
            self.watches.saw_own(&due.own, looks::read_own(own));
        }
        None
    }

    async fn send(&mut self, link: &mut Link, message: &Message) -> Result<Sent, Over> {
        let sent = self.connector.ask(link, self.session, message).await;
        let sent = sent.map_err(|error| over(&error))?;
        self.removes = sent.leaves_more || self.removes && !message.sweeps;
        Ok(sent)
    }
}

fn over(error: &io::Error) -> Over {
    match error.kind() {
        io::ErrorKind::TimedOut => Over::Useless,
        _ => Over::Lost,
    }
}

fn failure(endpoint: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("{endpoint} did not reply in time"),
        _ => format!("{endpoint}: {error}"),
    }
}

fn step_of(order: &Order<Message>) -> Option<&Step> {
    match order {
        Order::Ask(request) => request.message.step.as_ref(),
        Order::Do(_) => None,
    }
}

fn is_urgent(order: &Order<Message>) -> bool {
    matches!(order, Order::Ask(request) if request.message.urgent)
}
