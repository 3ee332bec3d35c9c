//! How a session talks to its server: one connection, owned by one task, which asks one request
//! after the other. Callers may drop what they wait for at any moment; the task never does.

use std::{io, sync::Arc, time::Duration};

use super::{
    connection::{Connector, Link, Sent},
    error::{is_useless, triage},
    looks,
    message::Message,
    statements::MysqlStatements,
    watches::{Due, Watches},
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::Verdict,
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            outcome::Outcome,
            released::Released,
            watched::until,
        },
    },
    lost::LostReason,
    runtime::clock,
};

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

    /// Keepalives first, then looks that are due, then the others in their order.
    async fn serve(&mut self, mut link: Link, inbox: &mut Inbox<Message>) -> Over {
        self.server.clone_from(&link.server);
        let mut looked = false;
        loop {
            inbox.collect();
            let urgent = inbox.waiting.iter().position(is_urgent);
            // Looks leave the others their turn.
            let busy = urgent.is_some() || looked && !inbox.waiting.is_empty();
            let due = if busy { Due::default() } else { self.watches.take_due() };
            looked = !due.is_empty();
            let over = if looked {
                self.look(&mut link, due).await
            } else if let Some(order) = inbox.waiting.remove(urgent.unwrap_or(0)) {
                self.follow(&mut link, order).await
            } else {
                self.rest(inbox).await
            };
            match over {
                Some(Over::Closed) => {
                    link.close().await;
                    return Over::Closed;
                }
                Some(over) => return over,
                None => {}
            }
        }
    }
}

impl Task {
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

    async fn follow(&self, link: &mut Link, order: Order<Message>) -> Option<Over> {
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

fn is_urgent(order: &Order<Message>) -> bool {
    matches!(order, Order::Ask(request) if request.message.urgent)
}
