//! One request to the server, and what is concluded from its answer.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use redis::{RedisError, RedisResult, Value, aio::MultiplexedConnection, from_redis_value};

use super::{
    answer::Answer,
    call::{Acks, Call, Continues},
    connection::{ask_settings, run, wait},
    error::{is_useless, triage, words},
    message::{self, Message},
    shared::Shared,
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::Verdict,
            connection_handle::Order,
            outcome::{Outcome, Row},
            requested::{Done, Requested},
        },
    },
    lost::LostReason,
    runtime::clock::{self, timeout},
};

/// Asks the server.
#[derive(Clone)]
pub(super) struct Requester {
    pub(super) connection: MultiplexedConnection,
    pub(super) endpoint: Arc<str>,
    /// As it was when the connection was made.
    pub(super) server: Arc<str>,
    pub(super) shared: Arc<Shared>,
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

impl Requester {
    /// One request, sent as this is first polled.
    pub(super) async fn ask(self, what: Requested<Message>) -> Done {
        match what {
            Requested::Order(Order::Ask(request)) => {
                if !request.begin() {
                    return Done::Answered;
                }
                let operation = request.operation;
                let answer = self.send(operation, &request.message).await;
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
                    Err(Silence::Refused(error, false)) => (Err(error), Done::Answered),
                    Err(Silence::Refused(error, true) | Silence::Over(error)) => {
                        (Err(error), Done::Useless)
                    }
                };
                request.answer(answer.map_err(Verdict::Failed));
                done
            }
            Requested::Order(Order::Do(message)) => {
                match self.send("background work", &message).await {
                    Err(Silence::Over(_)) => Done::Useless,
                    _ => Done::Answered,
                }
            }
            Requested::Ping => {
                let mut connection = self.connection.clone();
                let ping = redis::cmd("PING");
                let asked = ping.query_async::<Value>(&mut connection);
                match self.answered("ping", asked).await {
                    Err(Silence::Over(_) | Silence::Refused(_, true)) => Done::Useless,
                    _ => Done::Answered,
                }
            }
            Requested::Expiries(sessions) => {
                match self.call("look at sessions", &message::expiries(&sessions)).await {
                    Ok(outcomes) => Done::expiries(&outcomes, session_of),
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

    /// Runs a script and, where replicas are to have what counts, asks for that behind it: all of
    /// it is sent at once.
    async fn call(&self, operation: &'static str, call: &Call) -> Result<Vec<Outcome>, Silence> {
        let (mut outcomes, mut is_unfinished) = self.call_once(operation, call).await?;
        match call.continues {
            Continues::Later if is_unfinished => {
                self.shared.unfinished.store(true, Ordering::Release);
                // The other connection's task goes on with it.
                self.shared.watches.changed.notify_one();
            }
            Continues::Later => {}
            Continues::Again => {
                while is_unfinished {
                    (outcomes, is_unfinished) = self.call_once(operation, call).await?;
                }
            }
            Continues::AfterLast => {
                let mut rows = std::mem::take(&mut outcomes);
                while let Some(last) = rows.last().and_then(|page| page.rows().last())
                    && is_unfinished
                {
                    let next = call.after(last.text(0).unwrap_or_default());
                    let (page, more) = self.call_once(operation, &next).await?;
                    (is_unfinished, rows) = (more, merged(rows, page));
                }
                outcomes = rows;
            }
        }
        Ok(outcomes)
    }

    /// The outcomes, and whether the server has more of the same to do.
    async fn call_once(
        &self,
        operation: &'static str,
        call: &Call,
    ) -> Result<(Vec<Outcome>, bool), Silence> {
        let Shared { connector, session, writes, .. } = &*self.shared;
        let (sent, known) = (clock::now(), writes.load(Ordering::Acquire));
        let clock_trust = connector.clock.clock_trust(&self.server, sent).filter(|_| call.sweeps);
        let acks = connector.acks().filter(|_| call.acks != Acks::Nothing);
        let confirms = acks.is_some() && call.acks == Acks::Read;
        let confirm = confirms.then(|| message::confirm(&self.server));
        let words = clock_trust.as_ref().map(|trust| trust.words(connector.boot.as_deref(), sent));
        let mut calls = vec![call.of(*session, words)];
        calls.extend(confirm.iter().map(|confirm| confirm.of(*session, None)));
        let wait = acks.map(|acks| wait(acks, connector.remote.request_timeout));
        let asked = run(self.connection.clone(), connector.keys.all(), &calls, wait);
        let mut answers = self.answered(operation, asked).await?.into_iter();
        let (outcomes, is_unfinished) = self.read(operation, answers.next(), sent, known)?;
        if let Some(clock_trust) = clock_trust.as_ref().filter(|_| !is_unfinished) {
            connector.clock.acted_on(&self.server, clock_trust);
        }
        if confirms {
            let confirmed = self.read(operation, answers.next(), sent, known);
            confirmed.map_err(Silence::in_doubt)?;
        }
        if let Some(acks) = acks {
            self.acknowledged(operation, answers.next(), acks)?;
        }
        Ok((outcomes, is_unfinished))
    }

    /// What a script has answered, and whether it has more to do. With each answer the server's
    /// clock is read.
    fn read(
        &self,
        operation: &'static str,
        told: Option<RedisResult<Value>>,
        sent: Duration,
        known: u64,
    ) -> Result<(Vec<Outcome>, bool), Silence> {
        let Shared { connector, writes, .. } = &*self.shared;
        let told = told.unwrap_or(Ok(Value::Nil)).map_err(|error| self.silence(operation, &error));
        let answer = Answer::read(told?).map_err(|error| Silence::Refused(error, false))?;
        connector.clock.read(&self.server, &answer.clock, sent);
        connector.newest.fetch_max(answer.newest, Ordering::AcqRel);
        let (counted, is_unfinished) = (answer.writes(known), answer.is_unfinished());
        let outcomes = answer.outcomes(operation);
        let outcomes = outcomes.map_err(|error| Silence::Refused(error, false))?;
        let Some(counted) = counted else {
            // It is a copy that does not have all that was confirmed. Nor will it ever.
            writes.store(u64::MAX, Ordering::Release);
            let gone = StoreError::SessionGone(LostReason::SessionExpired);
            return Err(Silence::Refused(gone, false));
        };
        writes.fetch_max(counted, Ordering::AcqRel);
        Ok((outcomes, is_unfinished))
    }

    /// Whether as many replicas have it as have to. What fewer have may be undone, and did not
    /// happen.
    fn acknowledged(
        &self,
        operation: &'static str,
        told: Option<RedisResult<Value>>,
        acks: u32,
    ) -> Result<(), Silence> {
        let unknown = |told: String| StoreError::Unknown(format!("{operation}: {told}").into());
        let have = told.unwrap_or(Ok(Value::Nil)).and_then(|told| Ok(from_redis_value(told)?));
        match have {
            Ok(have) if have >= acks => Ok(()),
            Ok::<u32, _>(have) => {
                let told = format!("{have} of {acks} replicas of {} have it", self.endpoint);
                Err(Silence::Refused(unknown(told), false))
            }
            // A server that has become a replica among them.
            Err(error) => Err(Silence::Over(unknown(words(&self.endpoint, &error)))),
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
        let answer =
            timeout(self.shared.connector.remote.request_timeout, asked).await.map_err(late)?;
        answer.map_err(|error| self.silence(operation, &error))
    }

    fn silence(&self, operation: &'static str, error: &RedisError) -> Silence {
        let told = triage(operation, &self.endpoint, error);
        match error.code() {
            Some(_) => Silence::Refused(told, is_useless(error)),
            None => Silence::Over(told),
        }
    }
}

/// The rows of a page and of the next one, of a request with one outcome.
fn merged(mut pages: Vec<Outcome>, next: Vec<Outcome>) -> Vec<Outcome> {
    pages.extend(next);
    let count = pages.iter().map(|page| page.count).sum();
    let rows = pages.iter().flat_map(|page| page.rows().iter().cloned()).collect();
    vec![Outcome::new(rows, count)]
}

fn session_of(row: &Row) -> Option<i64> {
    i64::from_str_radix(row.text(0)?, 16).ok()
}
