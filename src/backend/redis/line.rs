//! How a session talks to its server: by a connection that one task owns.
//!
//! Callers may drop what they wait for at any moment, or leave it unpolled.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;

use super::{
    asker::{Asker, Done, Order, What},
    connection::{Link, Use},
    message::Message,
    script::Keys,
    shared::Shared,
};
use crate::{
    backend::{
        error::{Result, StoreError},
        sql::{
            asking::{Request, ask},
            outcome::Outcome,
        },
    },
    runtime::{
        backoff,
        clock::{sleep, sleep_until},
        executor::spawn_beside,
    },
};

/// The session's end of one connection. The task ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Line {
    orders: mpsc::UnboundedSender<Order>,
    shared: Arc<Shared>,
}

impl Line {
    pub(super) fn start(shared: &Arc<Shared>, link: Link, used: Use) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let shared = Arc::clone(shared);
        let task = Task { shared: Arc::clone(&shared), used, inbox };
        spawn_beside(task.run(link));
        Self { orders, shared }
    }

    /// Asks for one transaction.
    pub(super) async fn ask(
        &self,
        operation: &'static str,
        message: Message,
    ) -> Result<Vec<Outcome>> {
        let send = |request| {
            // An error drops the reply, which the caller notices.
            let _ = self.orders.send(Order::Ask(request));
        };
        ask(operation, message, self.shared.connector.patience(), send).await
    }

    /// Has something done in the background, if there is a connection.
    pub(super) fn order(&self, message: Message) {
        // The task has gone only if nothing is to be done any more.
        let _ = self.orders.send(Order::Do(message));
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// Why a connection is not used any more.
enum Over {
    /// Nobody has anything to ask any more.
    Closed,
    Lost,
    Useless,
}

struct Task {
    shared: Arc<Shared>,
    used: Use,
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
                    match self.serve(connected, std::mem::take(&mut waiting)).await {
                        Over::Closed => return,
                        Over::Lost => {}
                        Over::Useless => self.shared.connector.leave(),
                    }
                    if self.used == Use::Requests {
                        self.shared.watches.lose();
                        self.shared.channels.lose();
                    }
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
        let shared = Arc::clone(&self.shared);
        // Soon enough to try again, or the session is over.
        let patience = shared.connector.patience() * 2;
        let connecting = shared.connector.connect_again(shared.session, self.used, patience);
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
            connection: link.connection.clone(),
            endpoint: link.endpoint.clone(),
            server: link.server.name.as_str().into(),
            shared: Arc::clone(&self.shared),
        };
        let ask = |what| asker.clone().ask(what);
        for request in waiting {
            under_way.push(ask(What::Order(Order::Ask(request))));
        }
        let watches = Arc::clone(&self.shared.watches);
        let listens = self.used == Use::Requests;
        let own_channel = Keys::channel(self.shared.session);
        loop {
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
                    Some(push) => match payload(&push) {
                        Some((channel, told)) if channel == own_channel => watches.tell(told),
                        Some((channel, _)) => self.shared.channels.tell(channel),
                        None => {}
                    },
                    None => return Over::Lost,
                },
                Some(done) = under_way.next() => match done {
                    Done::Answered => {}
                    Done::Useless => return Over::Useless,
                    Done::Expiries(sessions) => {
                        watches.renew(sessions);
                        // The other line looks when they are due.
                        watches.changed.notify_one();
                    }
                },
                order = self.inbox.recv() => match order {
                    Some(order) => under_way.push(ask(What::Order(order))),
                    None => return Over::Closed,
                },
                () = watches.changed.notified(), if listens => {}
                () = due, if listens => {
                    let sessions = watches.take_due();
                    if !sessions.is_empty() {
                        under_way.push(ask(What::Expiries(sessions)));
                    }
                }
            }
        }
    }
}

/// What was published, and where.
fn payload(push: &PushInfo) -> Option<(&str, &str)> {
    match (&push.kind, push.data.as_slice()) {
        (PushKind::Message, [Value::BulkString(channel), Value::BulkString(told)]) => {
            // Others' words may be of any bytes.
            Some((str::from_utf8(channel).ok()?, str::from_utf8(told).unwrap_or_default()))
        }
        _ => None,
    }
}
