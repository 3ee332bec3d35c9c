//! How a session talks to its server: one connection, owned by one task.
//!
//! Callers may drop what they wait for at any moment, or leave it unpolled. The client crate's
//! connection reads nothing more while a caller does not take its answer (`poll_read` in
//! <https://docs.rs/tokio-postgres/0.7.18/src/tokio_postgres/connection.rs.html>). So this task
//! takes all answers, and callers get copies.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_postgres::AsyncMessage;

use super::{
    connection::{Connector, Link, outcomes},
    error::{is_read_only, triage},
    message::Message,
    statements::{self, PostgresStatements},
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::Verdict,
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            outcome::{Outcome, Row},
            released::Released,
            requested::{Done, Requested},
            watched::until,
            watches::Watches,
        },
    },
    runtime::{
        clock::{self, Instant, timeout},
        jittered,
    },
};

/// A session's way to the server.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) connection: ConnectionHandle<Message>,
    pub(super) statements: PostgresStatements,
    pub(super) watches: Arc<Watches>,
    pub(super) released: Arc<Released>,
}

impl Session {
    pub(super) fn start(connector: Arc<Connector>, link: Link, session: i64) -> Self {
        let (watches, released) = (Arc::<Watches>::default(), Arc::<Released>::default());
        let patience = connector.remote.request_timeout;
        let (heard, let_go) = (Arc::clone(&watches), Arc::clone(&released));
        let server = link.server.clone();
        let task = Task { connector, session, server, watches: heard, released: let_go };
        Self {
            connection: ConnectionHandle::start(task, link, patience),
            statements: PostgresStatements { session },
            watches,
            released,
        }
    }
}

struct Task {
    connector: Arc<Connector>,
    session: i64,
    /// Which one there was a connection to last.
    server: String,
    watches: Arc<Watches>,
    released: Arc<Released>,
}

impl Served for Task {
    type Message = Message;
    type Link = Link;

    async fn connect(&self) -> Result<Link> {
        // Soon enough to try again, or the session is over.
        let patience = self.connector.remote.request_timeout * 2;
        self.connector.connect_again(self.session, &self.server, &self.released, patience).await
    }

    fn lost(&self, useless: bool) {
        if useless {
            self.connector.endpoints.leave();
        }
        self.watches.lose();
    }

    /// What is under way at its end is dropped: it is not known what became of it.
    async fn serve(&mut self, mut link: Link, inbox: &mut Inbox<Message>) -> Over {
        self.server.clone_from(&link.server);
        let mut under_way = FuturesUnordered::new();
        let asker = Asker {
            client: Arc::clone(&link.client),
            endpoint: link.endpoint.clone(),
            name: link.name,
            session: self.session,
            connector: Arc::clone(&self.connector),
        };
        let ask = |what| asker.clone().ask(what);
        let mut quiet_until = Instant::now() + ping_after();
        // Nobody waits any more for what was to be done on the last connection.
        let waiting = inbox.waiting.drain(..).filter(|order| matches!(order, Order::Ask(_)));
        waiting.for_each(|order| under_way.push(ask(Requested::Order(order))));
        loop {
            let watches = Arc::clone(&self.watches);
            let due = watches.due();
            let ping = watches.is_awaited().then_some(quiet_until);
            tokio::select! {
                biased;
                heard = link.heard() => match heard {
                    Some(Ok(AsyncMessage::Notification(told))) => watches.tell(told.payload()),
                    // What is answered next was not confirmed.
                    Some(Ok(AsyncMessage::Notice(told))) if gave_up(&told) => return Over::Lost,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Over::Lost,
                },
                Some(done) = under_way.next() => match done {
                    Done::Answered => {}
                    Done::Useless => return Over::Useless,
                    Done::Expiries(sessions) => watches.renew(sessions),
                },
                order = inbox.next() => match order {
                    Some(order) => {
                        quiet_until = Instant::now() + ping_after();
                        under_way.push(ask(Requested::Order(order)));
                    }
                    None => return Over::Closed,
                },
                () = watches.changed.notified() => {}
                () = until(ping) => {
                    quiet_until = Instant::now() + ping_after();
                    under_way.push(ask(Requested::Ping));
                }
                () = until(due) => {
                    let sessions = watches.take_due();
                    if !sessions.is_empty() {
                        under_way.push(ask(Requested::Expiries(sessions)));
                    }
                }
            }
        }
    }
}

/// The query that is sent on a silent connection with waiters, so that no load balancer or firewall
/// drops it.
const PING: &str = "SELECT 1";

/// How long a connection is silent before that query: 10 to 15 s.
fn ping_after() -> Duration {
    Duration::from_secs(10) + jittered(Duration::from_secs(5)).min(Duration::from_secs(5))
}

/// Asks the server.
#[derive(Clone)]
struct Asker {
    client: Arc<tokio_postgres::Client>,
    endpoint: String,
    /// The connection's.
    name: i64,
    session: i64,
    connector: Arc<Connector>,
}

impl Asker {
    /// One request, sent as this is first polled.
    async fn ask(self, what: Requested<Message>) -> Done {
        match what {
            Requested::Order(Order::Ask(request)) => {
                if !request.begin() {
                    return Done::Answered;
                }
                let answer = match self.send(&request.message).await {
                    Ok(answer) => answer,
                    Err(error) => {
                        request.answer(Err(Verdict::Failed(error)));
                        return Done::Useless;
                    }
                };
                let useless = matches!(&answer, Err(error) if is_read_only(error));
                let operation = request.operation;
                let done = match &answer {
                    _ if useless => Done::Useless,
                    Ok(outcomes) if request.message.tells_expiries => {
                        Done::expiries(outcomes, session_of)
                    }
                    _ => Done::Answered,
                };
                request.answer(answer.map_err(|error| triage(operation, &self.endpoint, &error)));
                done
            }
            Requested::Order(Order::Do(message)) => self.have_done(&message).await,
            Requested::Ping => self.have_done(&PING.to_owned().into()).await,
            Requested::Expiries(sessions) => {
                match self.send(&statements::expiries(&sessions)).await {
                    Ok(Ok(outcomes)) => Done::expiries(&outcomes, session_of),
                    // Undone for others' sake, perhaps: they are looked for again soon.
                    Ok(Err(_)) => Done::Expiries(
                        sessions.into_iter().map(|id| (id, Duration::ZERO)).collect(),
                    ),
                    Err(_) => Done::Useless,
                }
            }
        }
    }

    /// Whatever the answer is.
    async fn have_done(&self, message: &Message) -> Done {
        match self.send(message).await {
            Ok(_) => Done::Answered,
            Err(_) => Done::Useless,
        }
    }

    /// With each answer the server's clock is read. An error is the connection's end.
    async fn send(&self, message: &Message) -> Result<Result<Vec<Outcome>, tokio_postgres::Error>> {
        let (sent, clock) = (clock::now(), &self.connector.clock);
        let belief = clock.belief(sent).filter(|_| message.sweeps);
        let (text, before) = message.text(self.session, belief.as_ref());
        let query = self.client.simple_query(&text);
        let answer = timeout(self.connector.remote.request_timeout, query).await.map_err(|_| {
            StoreError::Unknown(format!("{} did not answer in time", self.endpoint).into())
        })?;
        let mut outcomes = match answer {
            Ok(messages) => outcomes(messages),
            Err(error) => return Ok(Err(error)),
        };
        self.connector.check(self.name, &outcomes)?;
        clock.read(&outcomes, sent);
        if let Some(belief) = &belief {
            clock.acted_on(belief);
        }
        outcomes.drain(..before.min(outcomes.len()));
        Ok(Ok(outcomes))
    }
}

/// An operator has had the server give up waiting for its standbys: it goes on as if they had
/// confirmed what was written
/// (<https://github.com/postgres/postgres/blob/REL_17_STABLE/src/backend/replication/syncrep.c>).
fn gave_up(told: &tokio_postgres::error::DbError) -> bool {
    told.routine() == Some("SyncRepWaitForLSN")
}

fn session_of(row: &Row) -> Option<i64> {
    row.number(0)
}
