//! How a session talks to its server: one connection, owned by one task, which asks one request
//! after the other. Callers may drop what they wait for at any moment; the task never does.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{
    connection::{Connector, Link, Sent},
    error::{is_useless, triage},
    looks,
    message::Message,
    watches::{Due, Watches},
};
use crate::{
    backend::{
        error::{Result, StoreError},
        sql::{
            asking::{Request, Verdict, ask},
            outcome::Outcome,
            released::Released,
        },
    },
    lost::LostReason,
    runtime::{
        backoff,
        clock::{self, sleep, sleep_until},
        executor::spawn_beside,
    },
};

/// The session's end of it. The task ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Line {
    orders: mpsc::UnboundedSender<Order>,
    pub(super) connector: Arc<Connector>,
    pub(super) session: i64,
    pub(super) watches: Arc<Watches>,
    pub(super) released: Arc<Released>,
}

#[derive(Debug)]
enum Order {
    Ask(Request<Message>),
    /// Of which nobody wants to hear.
    Do(Message),
}

impl Order {
    fn is_urgent(&self) -> bool {
        matches!(self, Self::Ask(request) if request.message.urgent)
    }
}

impl Line {
    pub(super) fn start(
        connector: Arc<Connector>,
        link: Link,
        session: i64,
        ttl: Duration,
    ) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let watches = Arc::new(Watches::new(session));
        connector.add(&watches);
        let released = Arc::<Released>::default();
        let task = Task {
            connector: Arc::clone(&connector),
            session,
            ttl,
            server: link.server.clone(),
            watches: Arc::clone(&watches),
            released: Arc::clone(&released),
            inbox,
            waiting: VecDeque::new(),
        };
        spawn_beside(task.run(link));
        Self { orders, connector, session, watches, released }
    }

    /// Asks for one request to be done.
    pub(super) async fn ask(
        &self,
        operation: &'static str,
        message: Message,
    ) -> Result<Vec<Outcome>> {
        let send = |request| {
            // An error drops the reply, which the caller notices.
            let _ = self.orders.send(Order::Ask(request));
        };
        ask(operation, message, self.connector.patience(), send).await
    }

    /// Has something done in the background, if there is a connection.
    pub(super) fn order(&self, message: Message) {
        // The task has gone only if nothing is to be done any more.
        let _ = self.orders.send(Order::Do(message));
    }
}

/// Why a connection is not used any more.
enum Over {
    /// Nobody has anything to ask any more.
    Closed,
    Lost,
    /// The server has fallen silent, or has become one that cannot be written to.
    Useless,
}

struct Task {
    connector: Arc<Connector>,
    session: i64,
    ttl: Duration,
    /// Which one there was a connection to last.
    server: String,
    watches: Arc<Watches>,
    released: Arc<Released>,
    inbox: mpsc::UnboundedReceiver<Order>,
    waiting: VecDeque<Order>,
}

impl Task {
    async fn run(mut self, link: Link) {
        let mut link = Some(link);
        let mut failures = 0;
        loop {
            let connected = match link.take() {
                Some(link) => Ok(link),
                None => match self.connect().await {
                    Some(connected) => connected,
                    None => return,
                },
            };
            match connected {
                Ok(mut connected) => {
                    failures = 0;
                    self.server.clone_from(&connected.server);
                    match self.serve(&mut connected).await {
                        Over::Closed => return connected.close().await,
                        Over::Lost => {}
                        Over::Useless => self.connector.leave(),
                    }
                    self.watches.lose();
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for order in self.waiting.drain(..) {
                        refuse(order, &error);
                    }
                    if !self.pause(backoff(failures), &error).await {
                        return;
                    }
                    failures += 1;
                }
            }
        }
    }

    /// `None`: nobody asks any more.
    async fn connect(&mut self) -> Option<Result<Link>> {
        let connector = Arc::clone(&self.connector);
        // Soon enough to try again, or the session is over.
        let patience = connector.patience() * 2;
        let (server, released) = (&self.server, &self.released);
        let connecting =
            connector.connect_again(self.session, self.ttl, server, released, patience);
        let mut connecting = std::pin::pin!(connecting);
        loop {
            tokio::select! {
                biased;
                connected = &mut connecting => return Some(connected),
                order = self.inbox.recv() => self.waiting.push_back(order?),
            }
        }
    }

    /// Until the next attempt to connect, those who ask are told why there is no connection.
    /// `false`: nobody asks any more.
    async fn pause(&mut self, time: Duration, error: &Arc<StoreError>) -> bool {
        let mut over = std::pin::pin!(sleep(time));
        loop {
            tokio::select! {
                biased;
                () = &mut over => return true,
                order = self.inbox.recv() => match order {
                    None => return false,
                    Some(order) => refuse(order, error),
                }
            }
        }
    }

    /// Does what is asked, as long as the connection lasts: keepalives first, then looks that are
    /// due, then the others in their order.
    async fn serve(&mut self, link: &mut Link) -> Over {
        let mut looked = false;
        loop {
            while let Ok(order) = self.inbox.try_recv() {
                self.waiting.push_back(order);
            }
            let urgent = self.waiting.iter().position(Order::is_urgent);
            // Looks leave the others their turn.
            let busy = urgent.is_some() || looked && !self.waiting.is_empty();
            let due = if busy { Due::default() } else { self.watches.take_due() };
            looked = !due.is_empty();
            let over = if looked {
                self.look(link, due).await
            } else if let Some(order) = self.waiting.remove(urgent.unwrap_or(0)) {
                self.follow(link, order).await
            } else {
                self.rest().await
            };
            if let Some(over) = over {
                return over;
            }
        }
    }

    /// Until there is something to do.
    async fn rest(&mut self) -> Option<Over> {
        let watches = Arc::clone(&self.watches);
        let due = watches.due();
        let due = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = self.inbox.recv() => match order {
                Some(order) => self.waiting.push_back(order),
                None => return Some(Over::Closed),
            },
            () = watches.changed.notified() => {}
            () = due => {}
        }
        None
    }

    async fn follow(&self, link: &mut Link, order: Order) -> Option<Over> {
        let request = match order {
            Order::Do(message) => return self.send(link, &message).await.err(),
            Order::Ask(request) if request.begin() => request,
            Order::Ask(_) => return None,
        };
        let sent = match self.connector.ask(link, self.session, &request.message).await {
            Ok(sent) => sent,
            Err(error) => {
                let told = match error.kind() {
                    io::ErrorKind::TimedOut => format!("{} did not answer in time", link.endpoint),
                    _ => format!("{}: {error}", link.endpoint),
                };
                request.answer(Err(Verdict::Failed(StoreError::Unknown(told.into()))));
                return Some(over(&error));
            }
        };
        let useless = sent.refused.as_ref().is_some_and(|(told, _)| is_useless(told));
        let answer = match sent.refused {
            Some((told, doubt)) => Err(triage(request.operation, &link.endpoint, &told, doubt)),
            None if request.message.enters && is_gone(&sent.outcomes) => {
                Err(Verdict::Failed(StoreError::SessionGone(LostReason::SessionExpired)))
            }
            None => Ok(sent.outcomes),
        };
        request.answer(answer);
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

/// The first statement of a message that enters has not found the session.
fn is_gone(outcomes: &[Outcome]) -> bool {
    outcomes.first().is_none_or(|outcome| outcome.first().is_none())
}

/// It was not sent.
fn refuse(order: Order, error: &Arc<StoreError>) {
    if let Order::Ask(request) = order {
        request.refuse(error);
    }
}
