//! Sends a request to the server, and evaluates the reply.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::{Cmd, RedisError, RedisResult, Value, aio::MultiplexedConnection, from_redis_value};

use super::{
    answer::{Answer, forgotten},
    batch::{Batch, wait},
    call::{Acks, Call, Continues},
    connection::ask_settings,
    error::{is_useless, triage, words},
    message::{self, Message},
    shared::Shared,
};
use crate::{
    backend::{
        Result, StoreError,
        resp::Info,
        sql::{
            asking::{Request, Verdict},
            connection_handle::Order,
            dialect::WRITE,
            outcome::{Outcome, Row},
            replies::nonsense,
            requested::{Done, Requested},
        },
    },
    runtime::clock::{self, timeout},
};

/// Sends requests to the server.
#[derive(Clone)]
pub(super) struct Requester {
    pub(super) connection: MultiplexedConnection,
    pub(super) endpoint: Arc<str>,
    /// The server's identity when the connection was made.
    pub(super) server: Arc<str>,
    pub(super) shared: Arc<Shared>,
}

/// Outcomes, and whether the server has more of the same work to do.
type Reply = (Vec<Outcome>, bool);

/// The reason why there is no reply.
#[derive(Clone)]
enum Silence {
    /// The server has refused the request. `true`: it is useless to ask this server again.
    Refused(Arc<StoreError>, bool),
    /// The connection has ended.
    Over(Arc<StoreError>),
}

impl Silence {
    fn refused(error: StoreError, is_useless: bool) -> Self {
        Self::Refused(Arc::new(error), is_useless)
    }

    /// Returns the error for a request of which earlier parts were done, or may have been. It is
    /// not continued.
    fn in_doubt(self) -> Self {
        let (Self::Refused(error, _) | Self::Over(error)) = self;
        Self::refused(own(error).in_doubt(), true)
    }
}

/// Returns one call's copy of an error that several calls share.
fn own(error: Arc<StoreError>) -> StoreError {
    Arc::try_unwrap(error).unwrap_or_else(|shared| StoreError::again(&shared))
}

impl Requester {
    /// Sends one request when it is first polled.
    pub(super) async fn ask(self, what: Requested<Message>) -> Done {
        match what {
            Requested::Order(Order::Ask(request)) => {
                if !request.begin() {
                    return Done::Answered;
                }
                let answer = self.send(request.operation, &request.message).await;
                self.reply(request, answer)
            }
            Requested::Order(Order::Do(message)) => {
                match self.send("running background work", &message).await {
                    Err(Silence::Over(_)) => Done::Useless,
                    _ => Done::Answered,
                }
            }
            Requested::Ping => {
                let mut connection = self.connection.clone();
                let ping = redis::cmd("PING");
                let asked = ping.query_async::<Value>(&mut connection);
                match self.answered("pinging the server", asked).await {
                    Err(Silence::Over(_) | Silence::Refused(_, true)) => Done::Useless,
                    _ => Done::Answered,
                }
            }
            Requested::Expiries(sessions) => {
                match self.call("reading sessions", &message::expiries(&sessions)).await {
                    Ok(outcomes) => Done::expiries(&outcomes, session_of),
                    Err(_) => Done::Useless,
                }
            }
        }
    }

    /// Sends several calls at once that are [for replicas](Message::for_replicas). They wait for
    /// the replicas together.
    pub(super) async fn ask_together(self, requests: Vec<Request<Message>>) -> Done {
        let begun: Vec<_> = requests.into_iter().filter(Request::begin).collect();
        let calls = begun
            .iter()
            .filter_map(|request| Some((request.operation, request.message.for_replicas()?)));
        let calls: Vec<_> = calls.collect();
        if calls.is_empty() {
            return Done::Answered;
        }
        let replies = match self.exchange(&calls).await {
            Ok(replies) => replies,
            Err(silence) => begun.iter().map(|_| Err(silence.clone())).collect(),
        };
        let mut answers = Vec::new();
        for ((operation, call), reply) in calls.into_iter().zip(replies) {
            answers.push(match reply {
                Ok(reply) => self.continued(operation, call, reply).await,
                Err(silence) => Err(silence),
            });
        }
        let mut done = Done::Answered;
        for (request, answer) in begun.into_iter().zip(answers) {
            if matches!(self.reply(request, answer), Done::Useless) {
                done = Done::Useless;
            }
        }
        done
    }

    fn reply(&self, request: Request<Message>, answer: Result<Vec<Outcome>, Silence>) -> Done {
        let tells = matches!(&request.message, Message::Call(call) if call.tells_expiries);
        if let (Message::Call(call), Ok(_)) = (&request.message, &answer)
            && let Some(ends) = &call.ends
        {
            self.shared.watches.notify_payload(ends);
        }
        let (answer, done) = match answer {
            Ok(outcomes) if tells => {
                let done = Done::expiries(&outcomes, session_of);
                (Ok(outcomes), done)
            }
            Ok(outcomes) => (Ok(outcomes), Done::Answered),
            Err(Silence::Refused(error, false)) => (Err(own(error)), Done::Answered),
            Err(Silence::Refused(error, true) | Silence::Over(error)) => {
                (Err(own(error)), Done::Useless)
            }
        };
        request.answer(answer.map_err(Verdict::Failed));
        done
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

    async fn call(&self, operation: &'static str, call: &Call) -> Result<Vec<Outcome>, Silence> {
        let reply = self.call_once(operation, call).await?;
        self.continued(operation, call, reply).await
    }

    /// Completes a call after its first reply, which says whether the server has more to do.
    async fn continued(
        &self,
        operation: &'static str,
        call: &Call,
        (mut outcomes, mut is_unfinished): (Vec<Outcome>, bool),
    ) -> Result<Vec<Outcome>, Silence> {
        match call.continues {
            Continues::Later if is_unfinished => {
                self.shared.unfinished.store(true, Ordering::Release);
                // The task of the other connection continues it.
                self.shared.watches.changed.notify_one();
            }
            Continues::Later => {}
            Continues::Again => {
                while is_unfinished {
                    (outcomes, is_unfinished) = self.call_once(operation, call).await?;
                }
            }
            Continues::AfterLast => {
                let mut pages = outcomes;
                while is_unfinished
                    && let Some(last) = pages.last().and_then(|page| page.rows().last())
                {
                    let next = call.after(last);
                    let (page, more) = self.call_once(operation, &next).await?;
                    pages.extend(page);
                    is_unfinished = more;
                }
                outcomes = merged(pages);
            }
        }
        Ok(outcomes)
    }

    async fn call_once(&self, operation: &'static str, call: &Call) -> Result<Reply, Silence> {
        let replies = self.exchange(&[(operation, call)]).await?;
        replies.into_iter().next().unwrap_or_else(|| Err(Silence::refused(nonsense(), false)))
    }

    /// Runs scripts, and waits for replicas if these must have the data. All of it is sent at once.
    /// Returns the result of each script.
    async fn exchange(
        &self,
        calls: &[(&'static str, &Call)],
    ) -> Result<Vec<Result<Reply, Silence>>, Silence> {
        let Shared { connector, session, writes, .. } = &*self.shared;
        let (sent, known) = (clock::now(), writes.load(Ordering::Acquire));
        let sweeps = calls.iter().any(|(_, call)| call.sweeps);
        let clock_trust = connector.clock.clock_trust(&self.server, sent).filter(|_| sweeps);
        let words = clock_trust.as_ref().map(|trust| trust.words(connector.boot.as_deref(), sent));
        let acks = calls.iter().any(|(_, call)| call.acks != Acks::Nothing);
        let acks = connector.acks().filter(|_| acks);
        let confirms = acks.is_some() && calls.iter().any(|(_, call)| call.acks == Acks::Read);
        let confirm = confirms.then(message::confirm);
        let wait = acks.map(|acks| wait(acks, connector.remote.request_timeout));
        let batch = Batch {
            scripts: calls
                .iter()
                .map(|(_, call)| call.of(*session, words.clone().filter(|_| call.sweeps)))
                .collect(),
            last: confirm.as_ref().map(|confirm| confirm.of(*session, None)),
            then: confirms.then(history).into_iter().chain(wait).collect(),
        };
        // An error of the whole exchange is named after the first call.
        let operation = calls.first().map_or("sending a request", |(operation, _)| operation);
        let asked = batch.run(self.connection.clone(), connector.keys.all());
        let mut replies = self.answered(operation, asked).await?.into_iter();
        let mut next = || replies.next().unwrap_or(Ok(Value::Nil));
        let read = |(operation, _): &(&'static str, _)| self.read(operation, next(), sent, known);
        let results: Vec<_> = calls.iter().map(read).collect();
        let swept = calls.iter().zip(&results).filter(|((_, call), _)| call.sweeps);
        if let Some(clock_trust) = &clock_trust
            && swept.map(|(_, result)| result).all(|result| matches!(result, Ok(((_, false), _))))
        {
            connector.clock.acted_on(&self.server, clock_trust);
        }
        let confirmed = match confirms {
            true => self.confirmed(operation, [next(), next()], sent, known),
            false => Ok(()),
        };
        let have = acks.map_or(Ok(()), |acks| self.acknowledged(operation, next(), acks));
        let counts = |((_, call), result): (&(_, &Call), Result<(Reply, u64), Silence>)| {
            let (reply, counted) = result?;
            if call.acks == Acks::Read {
                confirmed.clone()?;
            }
            if call.acks != Acks::Nothing {
                have.clone()?;
            }
            writes.fetch_max(counted, Ordering::AcqRel);
            Ok(reply)
        };
        Ok(calls.iter().zip(results).map(counts).collect())
    }

    /// Checks that the server had all confirmed writes at the time of a read. The reply to a write
    /// that followed the read shows that, together with the name of the server's history
    /// afterwards. The server may have been a replica since the connection was made. (Redis
    /// Enterprise refuses `INFO` to scripts: <https://redis.io/docs/latest/commands/info/>.)
    fn confirmed(
        &self,
        operation: &'static str,
        [written, history]: [RedisResult<Value>; 2],
        sent: Duration,
        known: u64,
    ) -> Result<(), Silence> {
        self.read(operation, written, sent, known).map_err(Silence::in_doubt)?;
        let history = history.and_then(|info| Ok(from_redis_value::<String>(info)?));
        let history = history.map_err(|error| self.silence(operation, &error).in_doubt())?;
        match self.server.ends_with(&format!("/{}", Info::read(&history).field("master_replid"))) {
            true => Ok(()),
            false => {
                let reason = "the server's history has changed: confirmed writes may be missing";
                Err(Silence::refused(StoreError::Unknown(reason.into()), true))
            }
        }
    }

    /// Reads the reply of a script, and the session's number of writes. Each reply is also a
    /// reading of the server's clock.
    fn read(
        &self,
        operation: &'static str,
        reply: RedisResult<Value>,
        sent: Duration,
        known: u64,
    ) -> Result<(Reply, u64), Silence> {
        let Shared { connector, writes, .. } = &*self.shared;
        let reply = reply.map_err(|error| self.silence(operation, &error));
        let answer = Answer::read(reply?).map_err(|error| Silence::refused(error, false))?;
        connector.clock.read(&self.server, &answer.clock, sent);
        connector.newest.fetch_max(answer.newest, Ordering::AcqRel);
        let (counted, is_unfinished) = (answer.writes(known), answer.is_unfinished());
        let is_there = answer.written && operation == WRITE;
        let outcomes = answer.outcomes(operation);
        let outcomes = outcomes.map_err(|error| Silence::refused(error, false))?;
        let Some(counted) = counted else {
            // This server is a copy without all confirmed writes, and will never have them.
            writes.store(u64::MAX, Ordering::Release);
            return Err(Silence::refused(forgotten(is_there), false));
        };
        Ok(((outcomes, is_unfinished), counted))
    }

    /// Checks that enough replicas have the write. A write that fewer replicas have may be undone,
    /// and counts as not made. The other replicas may follow another primary.
    fn acknowledged(
        &self,
        operation: &'static str,
        reply: RedisResult<Value>,
        acks: u32,
    ) -> Result<(), Silence> {
        let unknown = |text: String| StoreError::Unknown(format!("{operation}: {text}").into());
        let (at, have) = (&self.endpoint, reply.and_then(|reply| Ok(from_redis_value(reply)?)));
        match have {
            Ok(have) if have >= acks => Ok(()),
            Ok::<u32, _>(have) => {
                let text = format!("{have} of {acks} required replicas of {at} have the write");
                Err(Silence::refused(unknown(text), true))
            }
            // This includes a server that has become a replica.
            Err(error) => Err(Silence::Over(unknown(words(&self.endpoint, &error)).into())),
        }
    }

    async fn settings(&self, operation: &'static str) -> Result<Vec<Outcome>, Silence> {
        let server = self.answered(operation, ask_settings(self.connection.clone())).await?;
        let connector = &self.shared.connector;
        let known = connector.known_replicas().await;
        let known = known.map_err(|error| Silence::refused(error, false))?;
        *self.shared.durability.lock() = Some(server.durability(connector.acks(), known));
        Ok(Vec::new())
    }

    /// Evaluates a reply. An error that the server did not send ends the connection.
    async fn answered<T>(
        &self,
        operation: &'static str,
        asked: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, Silence> {
        let late = |_| {
            let reason = format!("{} did not reply in time", self.endpoint);
            Silence::Over(StoreError::Unknown(reason.into()).into())
        };
        let answer =
            timeout(self.shared.connector.remote.request_timeout, asked).await.map_err(late)?;
        answer.map_err(|error| self.silence(operation, &error))
    }

    fn silence(&self, operation: &'static str, error: &RedisError) -> Silence {
        let failure = triage(operation, &self.endpoint, error);
        match error.code() {
            Some(_) => Silence::refused(failure, is_useless(error)),
            None => Silence::Over(failure.into()),
        }
    }
}

/// Queries the name of the server's replication history.
fn history() -> Cmd {
    redis::cmd("INFO").arg("replication").clone()
}

/// Merges the rows of all pages of a request with one outcome.
fn merged(pages: Vec<Outcome>) -> Vec<Outcome> {
    let count = pages.iter().map(|page| page.count).sum();
    let rows = pages.into_iter().flat_map(Outcome::into_rows).collect();
    vec![Outcome::new(rows, count)]
}

fn session_of(row: &Row) -> Option<i64> {
    i64::from_str_radix(row.text(0)?, 16).ok()
}
