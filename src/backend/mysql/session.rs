//! How a session talks to its server: one connection, owned by one task, which asks one request
//! after the other. Callers may drop what they wait for at any moment; the task never does.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use super::{
    batch::{self, Batch},
    connection::{Connector, Link, Sent},
    error::{is_useless, triage},
    looks,
    message::{Doubt, Message},
    statements::{JOINED, MysqlStatements},
    watches::{Due, Watches},
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::{Request, Verdict},
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            crowded::Crowded,
            released::Released,
            step::Step,
            watched::until,
        },
    },
    lost::LostReason,
    runtime::clock::{self, Instant},
};

/// How often dead sessions are removed that are in nobody's way.
const SWEEPS: Duration = Duration::from_secs(60);

/// A session's way to the server.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) connection: ConnectionHandle<Message>,
    pub(super) connector: Arc<Connector>,
    pub(super) statements: MysqlStatements,
    pub(super) watches: Arc<Watches>,
    pub(super) released: Arc<Released>,
}

impl Session {
    pub(super) fn start(
        connector: Arc<Connector>,
        link: Link,
        session: i64,
        ttl: Duration,
    ) -> Self {
        let (watches, released) = (Arc::new(Watches::new(session)), Arc::<Released>::default());
        connector.add(&watches);
        let task = Task {
            connector: Arc::clone(&connector),
            session,
            ttl,
            server: link.server.clone(),
            watches: Arc::clone(&watches),
            released: Arc::clone(&released),
            crowded: Crowded::default(),
            alone: VecDeque::new(),
            swept: Instant::now(),
        };
        let connection = ConnectionHandle::start(task, link, connector.remote.request_timeout);
        let statements = MysqlStatements { session };
        Self { connection, connector, statements, watches, released }
    }
}

struct Task {
    connector: Arc<Connector>,
    session: i64,
    ttl: Duration,
    /// Which one there was a connection to last.
    server: String,
    watches: Arc<Watches>,
    released: Arc<Released>,
    crowded: Crowded,
    /// What was begun with others, and has to be asked by itself.
    alone: VecDeque<Request<Message>>,
    /// When dead sessions were removed last that are in nobody's way.
    swept: Instant,
}

impl Served for Task {
    type Message = Message;
    type Link = Link;

    async fn connect(&self) -> Result<Link> {
        let Self { connector, session, ttl, server, released, .. } = self;
        // Soon enough to try again, or the session is over.
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
        let over = self.serve_all(&mut link, inbox).await;
        for request in self.alone.drain(..) {
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
    /// Keepalives first, then looks that are due, then the others in their order.
    async fn serve_all(&mut self, link: &mut Link, inbox: &mut Inbox<Message>) -> Over {
        let mut looked = false;
        loop {
            inbox.collect();
            let urgent = inbox.waiting.iter().position(is_urgent);
            let waits = !inbox.waiting.is_empty() || !self.alone.is_empty();
            // Looks leave the others their turn.
            let busy = urgent.is_some() || looked && waits;
            let due = if busy { Due::default() } else { self.watches.take_due() };
            looked = !due.is_empty();
            let over = if looked {
                self.look(link, due).await
            } else if let Some(order) = urgent.and_then(|at| inbox.waiting.remove(at)) {
                self.follow(link, order, inbox).await
            } else if let Some(request) = self.alone.pop_front() {
                self.answer(link, request).await
            } else if let Some(order) = inbox.waiting.pop_front() {
                self.follow(link, order, inbox).await
            } else {
                self.rest(inbox).await
            };
            if let Some(over) = over {
                return over;
            }
        }
    }

    /// Until there is something to do.
    async fn rest(&self, inbox: &mut Inbox<Message>) -> Option<Over> {
        let watches = Arc::clone(&self.watches);
        let due = watches.due();
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
            Order::Do(message) => {
                if message.sweeps {
                    self.swept = Instant::now();
                }
                return self.send(link, &message).await.err();
            }
            Order::Ask(request) if request.begin() => request,
            Order::Ask(_) => return None,
        };
        let together = self.together(request, inbox);
        match <[_; 1]>::try_from(together) {
            Ok([request]) => self.answer(link, request).await,
            Err(together) => self.answer_all(link, together).await,
        }
    }

    /// This request, and those that wait and can be asked with it.
    fn together(
        &self,
        first: Request<Message>,
        inbox: &mut Inbox<Message>,
    ) -> Vec<Request<Message>> {
        let fits = |step: &Step| match step {
            // Nobody else is in the queue, as far as is known.
            Step::Join { dir, .. } => !self.crowded.contains(dir),
            Step::Leave { successor, .. } => successor.is_none(),
        };
        let Some(step) = first.message.step.as_ref().filter(|step| fits(step)) else {
            return vec![first];
        };
        let others = batch::together(step, &mut inbox.waiting, step_of, fits);
        let asked = others.into_iter().filter_map(|order| match order {
            Order::Ask(request) if request.begin() => Some(request),
            _ => None,
        });
        std::iter::once(first).chain(asked).collect()
    }

    async fn answer(&self, link: &mut Link, request: Request<Message>) -> Option<Over> {
        let sent = match self.connector.ask(link, self.session, &request.message).await {
            Ok(sent) => sent,
            Err(error) => {
                let told = failure(&link.endpoint, &error);
                request.answer(Err(Verdict::Failed(StoreError::Unknown(told.into()))));
                return Some(over(&error));
            }
        };
        let useless = sent.refused.as_ref().is_some_and(|(told, _)| is_useless(told));
        if let (Some(Step::Join { dir, .. }), Some(joined)) =
            (&request.message.step, sent.outcomes.get(JOINED))
        {
            self.crowded.note(dir, joined.rows().len() != 1);
        }
        let answer = match sent.refused {
            Some((told, doubt)) => Err(triage(request.operation, &link.endpoint, &told, doubt)),
            None if sent.is_gone => Err(gone()),
            None => Ok(sent.outcomes),
        };
        request.answer(answer);
        useless.then_some(Over::Useless)
    }

    /// One request for all of these. Those for which it has done nothing are asked by themselves.
    async fn answer_all(
        &mut self,
        link: &mut Link,
        together: Vec<Request<Message>>,
    ) -> Option<Over> {
        let steps = together.iter().filter_map(|request| request.message.step.as_ref());
        let batch = Batch::of(self.session, steps);
        let sent = match self.connector.ask(link, self.session, &batch.message()).await {
            Ok(sent) => sent,
            Err(error) => {
                let told: Arc<str> = failure(&link.endpoint, &error).into();
                for request in together {
                    let error = StoreError::Unknown((&*told).into());
                    request.answer(Err(Verdict::Failed(error)));
                }
                return Some(over(&error));
            }
        };
        let mut came = batch.read(&sent.outcomes);
        for request in together {
            let done = request.message.step.as_ref().and_then(|step| came.take(step));
            match &sent.refused {
                Some((told, doubt)) if *doubt != Doubt::Nothing => {
                    let verdict = triage(request.operation, &link.endpoint, told, *doubt);
                    request.answer(Err(verdict));
                }
                None if sent.is_gone => request.answer(Err(gone())),
                None if done.is_some() => request.answer(Ok(done.unwrap_or_default())),
                _ => self.alone.push_back(request),
            }
        }
        let useless = sent.refused.as_ref().is_some_and(|(told, _)| is_useless(told));
        useless.then_some(Over::Useless)
    }

    async fn look(&self, link: &mut Link, due: Due) -> Option<Over> {
        let message = looks::look(self.session, &due.what, !due.own.is_empty());
        // A clock that was set back makes sessions seem to live on and on.
        let belief = self.connector.clock.belief(clock::now());
        let sweeps = due.sweeps || belief.is_some_and(|belief| belief.clips);
        let message = if sweeps { message.sweeping() } else { message };
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

    async fn send(&self, link: &mut Link, message: &Message) -> Result<Sent, Over> {
        self.connector.ask(link, self.session, message).await.map_err(|error| over(&error))
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
        io::ErrorKind::TimedOut => format!("{endpoint} did not answer in time"),
        _ => format!("{endpoint}: {error}"),
    }
}

fn gone() -> Verdict {
    Verdict::Failed(StoreError::SessionGone(LostReason::SessionExpired))
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
