//! A session's connection to its server, which one task owns.
//!
//! Callers may drop their futures at any moment, or stop polling them. The client crate's
//! connection reads nothing while a caller does not take its reply (`poll_read` in
//! <https://docs.rs/tokio-postgres/0.7.18/src/tokio_postgres/connection.rs.html>). Therefore this
//! task takes all replies, and callers get copies.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio_postgres::AsyncMessage;

use super::{
    connection::{Connector, Link},
    lane::Lane,
    leaving::Leaving,
    listening::LINGERS,
    message::Message,
    pooled::Polling,
    requester::{Ended, Requester, What},
    statements::PostgresStatements,
    turns::Turns,
};
use crate::{
    backend::{
        Result,
        sql::{
            asking::Request,
            connection_handle::{ConnectionHandle, Inbox, Order, Over, Served},
            released::Released,
            requested::{Done, Requested},
            step::{Kind, Step},
            watched::until,
            watches::Watches,
        },
    },
    runtime::{clock::Instant, jittered},
};

/// A session's access to the server.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) connection: ConnectionHandle<Message>,
    pub(super) statements: PostgresStatements,
    pub(super) watches: Arc<Watches>,
    pub(super) released: Arc<Released>,
    /// Set only with a user's pool.
    pub(super) leaving: Option<Arc<Leaving>>,
}

impl Session {
    pub(super) fn start(connector: Arc<Connector>, link: Link, session: i64) -> Self {
        let (watches, released) = (Arc::<Watches>::default(), Arc::<Released>::default());
        let patience = connector.remote.request_timeout;
        let leaving = connector.remote.pool.as_ref().map(|_| Arc::default());
        let (heard, let_go) = (Arc::clone(&watches), Arc::clone(&released));
        let task = Task { connector, session, watches: heard, released: let_go };
        Self {
            connection: ConnectionHandle::start(task, link, patience),
            statements: PostgresStatements { session, in_rows: Arc::default() },
            watches,
            released,
            leaving,
        }
    }
}

struct Task {
    connector: Arc<Connector>,
    session: i64,
    watches: Arc<Watches>,
    released: Arc<Released>,
}

impl Served for Task {
    type Message = Message;
    type Link = Link;

    async fn connect(&self) -> Result<Link> {
        // This leaves time for another attempt, unless the session expires first.
        let patience = self.connector.remote.request_timeout * 2;
        self.connector.connect_again(self.session, &self.released, patience).await
    }

    fn lost(&self, useless: bool) {
        if useless {
            self.connector.endpoints.leave();
        }
        self.watches.lose();
    }

    async fn serve(&mut self, link: Link, inbox: &mut Inbox<Message>) -> Over {
        let mut lanes = Lanes::default();
        let over = self.serve_by(link, inbox, &mut lanes).await;
        inbox.waiting.extend(lanes.unsent());
        over
    }
}

impl Task {
    /// Serves orders. Requests that are pending when the connection ends are dropped, and their
    /// outcome is unknown.
    async fn serve_by(
        &mut self,
        mut link: Link,
        inbox: &mut Inbox<Message>,
        lanes: &mut Lanes,
    ) -> Over {
        let mut under_way = FuturesUnordered::new();
        let requester = Requester {
            client: Arc::clone(&link.client),
            endpoint: link.endpoint.as_str().into(),
            server: link.server.as_str().into(),
            name: link.name,
            session: self.session,
            connector: Arc::clone(&self.connector),
            pooled: link.pooled.clone(),
            by_pool: link.by_pool.clone(),
            kept: link.kept.clone(),
            looks: link.looks.clone(),
            batches: link.batches.clone(),
            listening: Arc::default(),
            crowded: Arc::default(),
            locked: Arc::default(),
            turns: Turns::default(),
            tidying: Arc::default(),
        };
        let ask = |what| requester.clone().ask(what);
        let mut quiet_until = Instant::now() + ping_after();
        let mut unwatched = None;
        let mut polling = Polling::default();
        // No caller waits for the background requests of the last connection.
        inbox.waiting.retain(|order| matches!(order, Order::Ask(_)));
        loop {
            for order in inbox.waiting.drain(..) {
                if let Some(order) = lanes.take(order) {
                    under_way.push(ask(What::One(Requested::Order(order))));
                }
            }
            for request in lanes.crowded(|dir| requester.crowded.contains(dir)) {
                under_way.push(ask(What::One(Requested::Order(Order::Ask(request)))));
            }
            lanes.next(|kind, calls| under_way.push(ask(What::Calls(kind, calls))));
            let watches = Arc::clone(&self.watches);
            let due = watches.due();
            let is_awaited = watches.is_awaited();
            let ping = is_awaited.then_some(quiet_until);
            let unlisten = match requester.listening.is_on() && !is_awaited {
                true => Some(*unwatched.get_or_insert_with(|| Instant::now() + LINGERS)),
                false => None,
            };
            if unlisten.is_none() {
                unwatched = None;
            }
            let poll = requester.pooled.as_ref().and_then(|_| polling.due(is_awaited));
            tokio::select! {
                biased;
                heard = link.heard() => match heard {
                    Some(Ok(AsyncMessage::Notification(sent))) => {
                        watches.notify_payload(sent.payload());
                    }
                    // The standbys have not confirmed the next replies.
                    Some(Ok(AsyncMessage::Notice(notice))) if gave_up(&notice) => return Over::Lost,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Over::Lost,
                },
                Some(Ended { done, calls, rest, polled }) = under_way.next() => {
                    if let Some(gone) = polled {
                        gone.iter().for_each(|(dir, number)| watches.notify(dir, *number));
                        polling.asked(!gone.is_empty(), watches.waits_for_others());
                    }
                    if let Some((kind, calls)) = calls {
                        lanes.ended(kind, calls);
                    }
                    rest.into_iter().for_each(|what| under_way.push(ask(what)));
                    match done {
                        Done::Answered => {}
                        Done::Useless => return Over::Useless,
                        Done::Expiries(sessions) => watches.renew(sessions),
                    }
                },
                order = inbox.next() => match order {
                    Some(order) => {
                        if requester.by_pool.is_none() || !goes_by_pool(&order) {
                            quiet_until = Instant::now() + ping_after();
                        }
                        inbox.waiting.push_back(order);
                        // Orders that arrived together are sent together.
                        inbox.collect();
                    }
                    None => return Over::Closed,
                },
                () = watches.changed.notified() => if requester.pooled.is_some() {
                    polling.begin(watches.waits_for_others());
                },
                () = until(poll) => {
                    polling.ask();
                    under_way.push(ask(What::Polled(watches.watched())));
                }
                () = until(ping) => {
                    quiet_until = Instant::now() + ping_after();
                    under_way.push(ask(What::One(Requested::Ping)));
                }
                () = until(due) => {
                    let sessions = watches.take_due();
                    if !sessions.is_empty() {
                        under_way.push(ask(What::One(Requested::Expiries(sessions))));
                    }
                }
                () = until(unlisten) => under_way.push(ask(What::Unlisten)),
            }
        }
    }
}

/// The calls that wait for the connection.
#[derive(Default)]
struct Lanes {
    joins: Lane<Request<Message>>,
    leaves: Lane<Request<Message>>,
}

impl Lanes {
    /// Takes a call into its lane, and returns any other order.
    fn take(&mut self, order: Order<Message>) -> Option<Order<Message>> {
        match order {
            Order::Ask(request) => match request.message.step().map(Step::kind) {
                Some(kind) => self.of(kind).push(request),
                None => return Some(Order::Ask(request)),
            },
            order @ Order::Do(_) => return Some(order),
        }
        None
    }

    /// Takes the calls that need more than a batch does.
    fn crowded(&mut self, is_crowded: impl Fn(&str) -> bool) -> Vec<Request<Message>> {
        let mut crowded = self.leaves.take(&is_crowded);
        crowded.extend(self.joins.take(&is_crowded));
        crowded
    }

    /// Passes on what is to be sent now. Leaves precede joins, because a join may wait for one.
    fn next(&mut self, mut send: impl FnMut(Kind, Vec<Request<Message>>)) {
        for kind in [Kind::Leave, Kind::Join] {
            while let Some(calls) = self.of(kind).next() {
                send(kind, calls);
            }
        }
    }

    fn ended(&mut self, kind: Kind, calls: usize) {
        self.of(kind).ended(calls);
    }

    fn of(&mut self, kind: Kind) -> &mut Lane<Request<Message>> {
        match kind {
            Kind::Join => &mut self.joins,
            Kind::Leave => &mut self.leaves,
        }
    }

    fn unsent(self) -> impl Iterator<Item = Order<Message>> {
        self.leaves.unsent().chain(self.joins.unsent()).map(Order::Ask)
    }
}

/// Returns `true` if the order uses the user's pool where there is one.
fn goes_by_pool(order: &Order<Message>) -> bool {
    matches!(order, Order::Ask(request) if request.message.goes_by_pool())
}

/// Returns how long a connection is silent before the query: 12.5 to 15 s.
fn ping_after() -> Duration {
    Duration::from_secs(10) + jittered(Duration::from_secs(5)).min(Duration::from_secs(5))
}

/// Returns `true` if an operator made the server stop waiting for its standbys. It then continues
/// as if they had confirmed the writes
/// (<https://github.com/postgres/postgres/blob/REL_17_STABLE/src/backend/replication/syncrep.c>).
fn gave_up(notice: &tokio_postgres::error::DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}
