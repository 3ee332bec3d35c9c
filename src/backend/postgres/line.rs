//! How a session talks to its server: one connection, owned by one task.
//!
//! Callers may drop what they wait for at any moment, or leave it unpolled. The client crate's
//! connection reads nothing more while a caller does not take its answer (`poll_read` in
//! <https://docs.rs/tokio-postgres/0.7.18/src/tokio_postgres/connection.rs.html>). So this task
//! takes all answers, and callers get copies.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio_postgres::AsyncMessage;

use super::{
    connection::{Connector, Link, outcomes},
    error::{is_read_only, triage},
    message::Message,
    statements,
};
use crate::{
    backend::{
        error::{Result, StoreError},
        sql::{
            asking::{Request, Verdict, ask},
            outcome::Outcome,
            released::Released,
            told::left,
            watches::Watches,
        },
    },
    runtime::{
        backoff,
        clock::{self, sleep, sleep_until, timeout},
        executor::spawn_beside,
    },
};

/// The session's end of it. The task ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Line {
    orders: mpsc::UnboundedSender<Order>,
    patience: Duration,
    pub(super) session: i64,
    pub(super) watches: Arc<Watches>,
    pub(super) released: Arc<Released>,
}

#[derive(Debug)]
enum Order {
    Ask(Request<Message>),
    /// Of which nobody wants to hear.
    Do(String),
}

impl Line {
    pub(super) fn start(connector: Arc<Connector>, link: Link, session: i64) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let watches = Arc::<Watches>::default();
        let released = Arc::<Released>::default();
        let patience = connector.patience();
        let task = Task {
            connector,
            session,
            server: link.server.clone(),
            watches: Arc::clone(&watches),
            released: Arc::clone(&released),
            inbox,
        };
        spawn_beside(task.run(link));
        Self { orders, patience, session, watches, released }
    }

    /// Asks for one transaction.
    pub(super) async fn ask(
        &self,
        operation: &'static str,
        message: impl Into<Message>,
    ) -> Result<Vec<Outcome>> {
        let send = |request| {
            // An error drops the reply, which the caller notices.
            let _ = self.orders.send(Order::Ask(request));
        };
        ask(operation, message.into(), self.patience, send).await
    }

    /// Has something done in the background, if there is a connection.
    pub(super) fn order(&self, sql: String) {
        // The task has gone only if nothing is to be done any more.
        let _ = self.orders.send(Order::Do(sql));
    }
}

/// What came of one request to the server.
enum Done {
    Answered,
    /// The server has fallen silent, or has become one that cannot be written to.
    Useless,
    /// How long the sessions have to live that were asked after.
    Expiries(Vec<(i64, Duration)>),
}

/// Why a connection is not used any more.
enum Over {
    /// Nobody has anything to ask any more.
    Closed,
    Lost,
    Useless,
}

struct Task {
    connector: Arc<Connector>,
    session: i64,
    /// Which one there was a connection to last.
    server: String,
    watches: Arc<Watches>,
    released: Arc<Released>,
    inbox: mpsc::UnboundedReceiver<Order>,
}

impl Task {
    async fn run(mut self, link: Link) {
        let mut link = Some(link);
        let mut waiting = VecDeque::new();
        let mut failures = 0;
        loop {
            let connected = match link.take() {
                Some(link) => Ok(link),
                None => match self.connect(&mut waiting).await {
                    Some(connected) => connected,
                    None => return,
                },
            };
            match connected {
                Ok(connected) => {
                    failures = 0;
                    self.server.clone_from(&connected.server);
                    match self.serve(connected, std::mem::take(&mut waiting)).await {
                        Over::Closed => return,
                        Over::Lost => {}
                        Over::Useless => self.connector.leave(),
                    }
                    self.watches.lose();
                }
                Err(error) => {
                    let error = Arc::new(error);
                    for request in waiting.drain(..) {
                        request.refuse(&error);
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
    async fn connect(&mut self, waiting: &mut VecDeque<Request<Message>>) -> Option<Result<Link>> {
        let connector = Arc::clone(&self.connector);
        // Soon enough to try again, or the session is over.
        let patience = connector.patience() * 2;
        let (server, released) = (&self.server, &self.released);
        let connecting = connector.connect_again(self.session, server, released, patience);
        let mut connecting = std::pin::pin!(connecting);
        loop {
            tokio::select! {
                biased;
                connected = &mut connecting => return Some(connected),
                order = self.inbox.recv() => match order? {
                    Order::Ask(request) => waiting.push_back(request),
                    Order::Do(_) => {}
                }
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
                    Some(Order::Ask(request)) => request.refuse(error),
                    Some(Order::Do(_)) => {}
                }
            }
        }
    }

    /// Does what is asked, as long as the connection lasts. What is under way then is dropped: it
    /// is not known what became of it.
    async fn serve(&mut self, mut link: Link, waiting: VecDeque<Request<Message>>) -> Over {
        let mut under_way = FuturesUnordered::new();
        let asker = Asker {
            client: Arc::clone(&link.client),
            endpoint: link.endpoint.clone(),
            name: link.name,
            session: self.session,
            connector: Arc::clone(&self.connector),
        };
        let ask = |what| asker.clone().ask(what);
        for request in waiting {
            under_way.push(ask(What::Order(Order::Ask(request))));
        }
        loop {
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
                heard = link.heard() => match heard {
                    Some(Ok(AsyncMessage::Notification(told))) => watches.tell(told.payload()),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Over::Lost,
                },
                Some(done) = under_way.next() => match done {
                    Done::Answered => {}
                    Done::Useless => return Over::Useless,
                    Done::Expiries(sessions) => watches.renew(sessions),
                },
                order = self.inbox.recv() => match order {
                    Some(order) => under_way.push(ask(What::Order(order))),
                    None => return Over::Closed,
                },
                () = watches.changed.notified() => {}
                () = due => {
                    let sessions = watches.take_due();
                    if !sessions.is_empty() {
                        under_way.push(ask(What::Expiries(sessions)));
                    }
                }
            }
        }
    }
}

enum What {
    Order(Order),
    Expiries(Vec<i64>),
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
    async fn ask(self, what: What) -> Done {
        match what {
            What::Order(Order::Ask(request)) => {
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
                let expiries = answer.as_ref().ok().filter(|_| request.message.tells_expiries);
                let expiries = expiries.map(|outcomes| read_expiries(outcomes));
                request.answer(answer.map_err(|error| triage(operation, &self.endpoint, &error)));
                match expiries {
                    _ if useless => Done::Useless,
                    Some(sessions) => Done::Expiries(sessions),
                    None => Done::Answered,
                }
            }
            What::Order(Order::Do(sql)) => match self.send(&sql.into()).await {
                Ok(_) => Done::Answered,
                Err(_) => Done::Useless,
            },
            What::Expiries(sessions) => match self.send(&statements::expiries(&sessions)).await {
                Ok(Ok(outcomes)) => Done::Expiries(read_expiries(&outcomes)),
                // Undone for others' sake, perhaps: they are looked for again soon.
                Ok(Err(_)) => {
                    Done::Expiries(sessions.into_iter().map(|id| (id, Duration::ZERO)).collect())
                }
                Err(_) => Done::Useless,
            },
        }
    }

    /// With each answer the server's clock is read. An error is the connection's end.
    async fn send(&self, message: &Message) -> Result<Result<Vec<Outcome>, tokio_postgres::Error>> {
        let (sent, clock) = (clock::now(), &self.connector.clock);
        let belief = clock.belief(sent).filter(|_| message.sweeps);
        let (text, before) = message.text(self.session, belief.as_ref());
        let query = self.client.simple_query(&text);
        let answer = timeout(self.connector.patience(), query).await.map_err(|_| {
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

fn read_expiries(outcomes: &[Outcome]) -> Vec<(i64, Duration)> {
    let rows = outcomes.first().map(Outcome::rows).unwrap_or_default();
    rows.iter().filter_map(|row| Some((row.number(0)?, left(row.number(1)?)))).collect()
}
