//! A session's connection to its server, which one task owns.
//!
//! A caller may drop its future at any time, or stop polling it.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{
    FutureExt,
    future::Either,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{PushInfo, PushKind, Value};

use super::{
    connection::{Link, Use},
    message::Message,
    requester::Requester,
    shared::Shared,
};
use crate::{
    backend::{
        Result,
        sql::{
            asking::Request,
            connection_handle::{Inbox, Order, Over, Served},
            requested::{Done, Requested},
            watched::until,
        },
    },
    runtime::clock::{Instant, sleep_until},
};

/// The longest time without traffic on a connection that waiters depend on. Load balancers drop
/// idle connections, and a connection that was dropped silently delivers no notifications.
const IDLE: Duration = Duration::from_secs(12);

/// The task of one connection.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) used: Use,
}

impl Served for Task {
    type Message = Message;
    type Link = Link;

    async fn connect(&self) -> Result<Link> {
        let Shared { connector, session, latest, .. } = &*self.shared;
        // This leaves time for another attempt before the session ends.
        let patience = connector.remote.request_timeout * 2;
        let link = connector.connect_again(*session, self.used, patience).await?;
        latest.connected(&link.server.name);
        Ok(link)
    }

    fn lost(&self, useless: bool) {
        if useless {
            self.shared.connector.endpoints.leave();
        }
        if self.used == Use::Requests {
            self.shared.watches.lose();
            self.shared.channels.lose();
        }
    }

    /// Serves requests until the connection ends. The outcome of a request that is in flight at
    /// that time is unknown.
    async fn serve(&mut self, mut link: Link, inbox: &mut Inbox<Message>) -> Over {
        let mut under_way = FuturesUnordered::new();
        let requester = Requester {
            connection: link.connection.clone(),
            endpoint: link.endpoint.as_str().into(),
            server: link.server.name.as_str().into(),
            shared: Arc::clone(&self.shared),
        };
        let ask = |what| Either::Left(requester.clone().ask(what).map(|done| (done, false)));
        let ask_together = |requests| {
            Either::Right(requester.clone().ask_together(requests).map(|done| (done, true)))
        };
        // Requests that arrive while replicas are awaited are sent together.
        let (mut together, mut awaits_replicas) = (Vec::new(), false);
        let is_together = |request: &Request<Message>| {
            self.used == Use::Acks && request.message.for_replicas().is_some()
        };
        // No caller awaits the requests that were meant for the last connection only.
        inbox.waiting.retain(|order| matches!(order, Order::Ask(_)));
        let (watches, latest) = (Arc::clone(&self.shared.watches), &self.shared.latest);
        let server = Arc::clone(&requester.server);
        let mut elsewhere = pin!(latest.is_elsewhere(&server));
        let listens = self.used == Use::Requests;
        let own_channel = self.shared.connector.keys.channel(self.shared.session);
        let mut used = Instant::now();
        let over = loop {
            for order in inbox.waiting.drain(..) {
                match order {
                    Order::Ask(request) if is_together(&request) => together.push(request),
                    order => under_way.push(ask(Requested::Order(order))),
                }
            }
            if !awaits_replicas && !together.is_empty() {
                let requests = std::mem::take(&mut together);
                under_way.push(ask_together(requests));
                awaits_replicas = true;
            }
            if listens && self.shared.unfinished.swap(false, Ordering::AcqRel) {
                under_way.push(ask(Requested::Expiries(Vec::new())));
            }
            let has_waiters = watches.is_awaited() || !self.shared.channels.is_empty();
            let is_idle = listens && under_way.is_empty() && has_waiters;
            let due = watches.due();
            tokio::select! {
                biased;
                heard = link.heard() => match heard {
                    Some(push) => match payload(&push) {
                        Some((channel, payload)) if channel == own_channel => {
                            watches.notify_payload(payload);
                        }
                        Some((channel, _)) => self.shared.channels.tell(channel),
                        None => {}
                    },
                    None => break Over::Lost,
                },
                Some((done, for_replicas)) = under_way.next() => {
                    used = Instant::now();
                    awaits_replicas &= !for_replicas;
                    match done {
                        Done::Answered => {}
                        Done::Useless => break Over::Useless,
                        Done::Expiries(sessions) => {
                            watches.renew(sessions);
                            // The connection for requests checks them when they are due.
                            watches.changed.notify_one();
                        }
                    }
                }
                () = &mut elsewhere => break Over::Lost,
                order = inbox.next() => match order {
                    Some(order) => {
                        inbox.waiting.push_back(order);
                        inbox.collect();
                    }
                    None => break Over::Closed,
                },
                () = watches.changed.notified(), if listens => {}
                () = sleep_until(used + IDLE), if is_idle => under_way.push(ask(Requested::Ping)),
                () = until(due), if listens => {
                    let sessions = watches.take_due();
                    if !sessions.is_empty() {
                        under_way.push(ask(Requested::Expiries(sessions)));
                    }
                }
            }
        };
        inbox.waiting.extend(together.into_iter().map(Order::Ask));
        match over {
            Over::Useless if !latest.leave(&server) => Over::Lost,
            over => over,
        }
    }
}

/// Returns the channel of a published message and its text.
fn payload(push: &PushInfo) -> Option<(&str, &str)> {
    match (&push.kind, push.data.as_slice()) {
        (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) => {
            // Other programs may publish any bytes.
            Some((str::from_utf8(channel).ok()?, str::from_utf8(payload).unwrap_or_default()))
        }
        _ => None,
    }
}
