//! How a session talks to its server: by a connection that one task owns.
//!
//! Callers may drop what they wait for at any moment, or leave it unpolled.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{PushInfo, PushKind, Value, aio::MultiplexedConnection};
use tokio::sync::mpsc;

use super::{
    answer::Answer,
    channels::Channels,
    connection::{Connector, Link, Use, ask_settings, run},
    error::{is_useless, triage, words},
    gate::Losses,
    message::{self, Acks, Call, Message},
    opening::acknowledged,
    script::Keys,
};
use crate::{
    backend::{
        durability::Durability,
        error::{Result, StoreError},
        sql::{
            asking::{Request, Verdict, ask},
            outcome::Outcome,
            told::left,
            watches::Watches,
        },
    },
    lost::LostReason,
    runtime::{
        backoff,
        clock::{self, sleep, sleep_until, timeout},
        executor::spawn_beside,
        mutex::Mutex,
    },
};

/// The session's end of one connection. The task ends with the last clone.
#[derive(Clone, Debug)]
pub(super) struct Line {
    orders: mpsc::UnboundedSender<Order>,
    shared: Arc<Shared>,
}

/// What a session's lines have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connector: Arc<Connector>,
    pub(super) session: i64,
    pub(super) watches: Arc<Watches>,
    /// How often the session has written, by the highest answer.
    writes: AtomicU64,
    pub(super) durability: Mutex<Option<Durability>>,
    pub(super) channels: Channels,
    pub(super) losses: Losses,
}

#[derive(Debug)]
enum Order {
    Ask(Request<Message>),
    /// Of which nobody wants to hear.
    Do(Message),
}

impl Shared {
    pub(super) fn new(connector: Arc<Connector>, session: i64) -> Self {
        let (watches, writes, durability, channels, losses) = <_>::default();
        Self { connector, session, watches, writes, durability, channels, losses }
    }
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

enum What {
    Order(Order),
    Expiries(Vec<i64>),
}

/// Asks the server.
#[derive(Clone)]
struct Asker {
    connection: MultiplexedConnection,
    endpoint: String,
    /// As it was when the connection was made.
    server: Arc<str>,
    shared: Arc<Shared>,
}

/// Why there is no answer.
enum Silence {
    /// The server has said so, and whether there is any use in asking it again.
    Refused(StoreError, bool),
    /// It is the connection's end.
    Over(StoreError),
}

impl Silence {
    /// What was asked before has been done, or may have been. There is no use in going on.
    fn in_doubt(self) -> Self {
        let (Self::Refused(error, _) | Self::Over(error)) = self;
        Self::Refused(error.in_doubt(), true)
    }
}

impl Asker {
    /// One request, sent as this is first polled.
    async fn ask(self, what: What) -> Done {
        match what {
            What::Order(Order::Ask(request)) => {
                if !request.begin() {
                    return Done::Answered;
                }
                let operation = request.operation;
                let answer = self.send(operation, &request.message).await;
                let tells = matches!(&request.message, Message::Call(call) if call.tells_expiries);
                if let (Message::Call(Call { ends: Some(ends), .. }), Ok(_)) =
                    (&request.message, &answer)
                {
                    self.shared.watches.tell(ends);
                }
                let (answer, done) = match answer {
                    Ok(outcomes) if tells => {
                        let expiries = read_expiries(&outcomes);
                        (Ok(outcomes), Done::Expiries(expiries))
                    }
                    Ok(outcomes) => (Ok(outcomes), Done::Answered),
                    Err(Silence::Refused(error, false)) => (Err(error), Done::Answered),
                    Err(Silence::Refused(error, true) | Silence::Over(error)) => {
                        (Err(error), Done::Useless)
                    }
                };
                request.answer(answer.map_err(Verdict::Failed));
                done
            }
            What::Order(Order::Do(message)) => match self.send("background work", &message).await {
                Err(Silence::Over(_)) => Done::Useless,
                _ => Done::Answered,
            },
            What::Expiries(sessions) => {
                match self.call("look at sessions", &message::expiries(&sessions)).await {
                    Ok(outcomes) => Done::Expiries(read_expiries(&outcomes)),
                    Err(_) => Done::Useless,
                }
            }
        }
    }

    async fn send(
        &self,
        operation: &'static str,
        message: &Message,
    ) -> Result<Vec<Outcome>, Silence> {
        let mut connection = self.connection.clone();
        match message {
            Message::Call(call) => return self.call(operation, call).await,
            Message::Settings => return self.settings(operation).await,
            Message::Listen(channel) => {
                self.answered(operation, connection.subscribe(&**channel)).await?;
            }
            Message::Deafen(channel) => {
                self.answered(operation, connection.unsubscribe(&**channel)).await?;
            }
        }
        Ok(Vec::new())
    }

    /// With each answer the server's clock is read.
    async fn call(&self, operation: &'static str, call: &Call) -> Result<Vec<Outcome>, Silence> {
        let Shared { connector, session, writes, .. } = &*self.shared;
        let (sent, clock, known) = (clock::now(), &connector.clock, writes.load(Ordering::Acquire));
        let belief = clock.belief(sent).filter(|_| call.sweeps);
        let arguments = call.arguments(*session, belief.as_ref());
        let asked = run(self.connection.clone(), &connector.keys, call, arguments);
        let value = self.answered(operation, asked).await?;
        let answer = Answer::read(value).map_err(|error| Silence::Refused(error, false))?;
        clock.read(&answer.clock, sent);
        connector.newest.fetch_max(answer.newest, Ordering::AcqRel);
        if let Some(belief) = &belief {
            clock.acted_on(belief);
        }
        let told = answer.writes(known);
        let outcomes = answer.outcomes(operation);
        let outcomes = outcomes.map_err(|error| Silence::Refused(error, false))?;
        let Some(told) = told else {
            // It is a copy that does not have all that was confirmed. Nor will it ever.
            writes.store(u64::MAX, Ordering::Release);
            let gone = StoreError::SessionGone(LostReason::SessionExpired);
            return Err(Silence::Refused(gone, false));
        };
        writes.fetch_max(told, Ordering::AcqRel);
        match (call.acks, connector.acks()) {
            (Acks::Written, Some(acks)) => self.acknowledged(operation, acks, sent).await?,
            (Acks::Read, Some(acks)) => {
                let confirmed =
                    Box::pin(self.call(operation, &message::confirm(&self.server))).await;
                confirmed.map_err(Silence::in_doubt)?;
                self.acknowledged(operation, acks, sent).await?;
            }
            (Acks::Nothing, _) | (_, None) => {}
        }
        Ok(outcomes)
    }

    /// Waits until so many replicas have what this connection has written, in what is left of the
    /// time since the request was sent. What fewer have may be undone, and did not happen.
    async fn acknowledged(
        &self,
        operation: &'static str,
        acks: u32,
        sent: Duration,
    ) -> Result<(), Silence> {
        let patience = self.shared.connector.patience();
        let left = patience.saturating_sub(clock::now().saturating_sub(sent));
        let unknown = |told: String| StoreError::Unknown(format!("{operation}: {told}").into());
        let asked = acknowledged(self.connection.clone(), acks, left);
        match timeout(patience, asked).await {
            Ok(Ok(have)) if have >= acks => Ok(()),
            Ok(Ok(have)) => {
                let told = format!("{have} of {acks} replicas of {} have it", self.endpoint);
                Err(Silence::Refused(unknown(told), false))
            }
            // A server that has become a replica among them.
            Ok(Err(error)) => Err(Silence::Over(unknown(words(&self.endpoint, &error)))),
            Err(_) => {
                let told = format!("{} did not answer in time", self.endpoint);
                Err(Silence::Over(unknown(told)))
            }
        }
    }

    async fn settings(&self, operation: &'static str) -> Result<Vec<Outcome>, Silence> {
        let server = self.answered(operation, ask_settings(self.connection.clone())).await?;
        let connector = &self.shared.connector;
        let known = connector.known_replicas().await;
        let known = known.map_err(|error| Silence::Refused(error, false))?;
        *self.shared.durability.lock() = Some(server.durability(connector.acks(), known));
        Ok(Vec::new())
    }

    /// An error that is not the server's word is the connection's end.
    async fn answered<T>(
        &self,
        operation: &'static str,
        asked: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, Silence> {
        let late = |_| {
            let told = format!("{} did not answer in time", self.endpoint);
            Silence::Over(StoreError::Unknown(told.into()))
        };
        let answer = timeout(self.shared.connector.patience(), asked).await.map_err(late)?;
        answer.map_err(|error| {
            let told = triage(operation, &self.endpoint, &error);
            match error.code() {
                Some(_) => Silence::Refused(told, is_useless(&error)),
                None => Silence::Over(told),
            }
        })
    }
}

fn read_expiries(outcomes: &[Outcome]) -> Vec<(i64, Duration)> {
    let rows = outcomes.first().map(Outcome::rows).unwrap_or_default();
    let read = |row: &crate::backend::sql::outcome::Row| {
        Some((i64::from_str_radix(row.text(0)?, 16).ok()?, left(row.number(1)?)))
    };
    rows.iter().filter_map(read).collect()
}
