//! Runs one request, or several calls that are sent together.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use super::{
    alone::Statements,
    batch::Batches,
    connection::{Connector, outcomes},
    error::{Failure, is_elsewhere, is_locked, is_useless, triage},
    lent::{self, Lent},
    listening::{self, Listening},
    locked::{Locked, Retry},
    looks::Looks,
    message::{Evidence, Message},
    pooled::Pooled,
    turns::{Rank, Turn, Turns},
};
use crate::{
    backend::{
        Result, StoreError,
        sql::{
            asking::{Request, Verdict},
            connection_handle::Order,
            noted_queues::NotedQueues,
            outcome::{Outcome, Row},
            requested::{Done, Requested},
            step::{Kind, Step},
            watched,
        },
    },
    runtime::clock::{self, sleep, timeout},
};

/// The query on a silent connection with waiters, which keeps load balancers and firewalls from
/// dropping the connection.
const PING: &str = "SELECT 1";

/// Sends requests on one connection.
#[derive(Clone)]
pub(super) struct Requester {
    pub(super) client: Arc<tokio_postgres::Client>,
    pub(super) endpoint: Arc<str>,
    /// The identity of the server.
    pub(super) server: Arc<str>,
    /// The connection's name.
    pub(super) name: i64,
    pub(super) session: i64,
    pub(super) connector: Arc<Connector>,
    pub(super) pooled: Option<Pooled>,
    pub(super) by_pool: Option<Pooled>,
    pub(super) kept: Option<Statements>,
    pub(super) looks: Option<Looks>,
    pub(super) batches: Option<Batches>,
    pub(super) listening: Arc<Listening>,
    pub(super) crowded: Arc<NotedQueues>,
    pub(super) locked: Arc<Locked>,
    pub(super) turns: Turns,
    /// Rows of unused queues are being removed.
    pub(super) tidying: Arc<AtomicBool>,
}

/// What to request.
pub(super) enum What {
    One(Requested<Message>),
    /// Calls of one kind, each on another queue.
    Calls(Kind, Vec<Request<Message>>),
    /// A call that a batch has not applied.
    Alone(Request<Message>),
    /// A step that found the queue or its entry locked by another transaction, such as a user's
    /// that has checked the entry.
    Checked(Request<Message>, Retry),
    /// Another step of tidying, after a pause.
    Tidy(Message, Duration),
    /// All watches have ended.
    Unlisten,
    /// Reads which watched entries have ended, where the server cannot notify the session.
    Polled(Vec<watched::What>),
}

/// The result.
pub(super) struct Ended {
    pub(super) done: Done,
    /// The number of calls that were sent together.
    pub(super) calls: Option<(Kind, usize)>,
    /// What to request instead.
    pub(super) rest: Vec<What>,
    /// The watches that a poll has found ended. `None`: it was not a poll.
    pub(super) polled: Option<Vec<watched::What>>,
}

impl From<Done> for Ended {
    fn from(done: Done) -> Self {
        Self { done, calls: None, rest: Vec::new(), polled: None }
    }
}

impl Requester {
    /// Runs a request. Nothing is sent before the future is polled.
    pub(super) async fn ask(self, what: What) -> Ended {
        match what {
            What::One(Requested::Order(Order::Ask(request))) => self.one(request).await,
            What::One(Requested::Order(Order::Do(message))) if message.tidies => {
                match self.tidying.swap(true, Ordering::Relaxed) {
                    true => Done::Answered.into(),
                    false => self.tidy(message, Duration::ZERO).await,
                }
            }
            What::One(Requested::Order(Order::Do(message))) => self.have_done(&message).await,
            What::Tidy(message, pause) => self.tidy(message, pause).await,
            What::One(Requested::Ping) => self.have_done(&PING.to_owned().into()).await,
            What::One(Requested::Expiries(sessions)) => self.expiries(sessions).await.into(),
            What::Calls(kind, requests) => {
                let calls = Some((kind, requests.len()));
                Ended { calls, ..self.calls(requests).await }
            }
            What::Alone(request) => self.once_more(request, None).await,
            What::Checked(request, retry) => {
                sleep(retry.pause).await;
                self.once_more(request, Some(retry)).await
            }
            What::Unlisten => {
                self.listening.end();
                self.have_done(&listening::end(self.session).into()).await
            }
            What::Polled(asked) => self.poll(asked).await,
        }
    }

    /// Acquires a connection for a request. `None`: the request uses the session's own.
    pub(super) async fn lend(&self, by_pool: bool) -> Result<Option<Lent>> {
        let remote = &self.connector.remote;
        match (&remote.pool, &self.by_pool) {
            (Some(pool), Some(words)) if by_pool => {
                match Lent::of(pool, words, remote.request_timeout).await {
                    // The cause may be the server instead of the pool.
                    Err(StoreError::Exhausted(source)) if !self.is_served().await => {
                        Err(StoreError::Unavailable(source))
                    }
                    lent => lent.map(Some),
                }
            }
            _ => Ok(None),
        }
    }

    /// Waits until no request is pending where only one may be at a time.
    pub(super) async fn turn(&self, own: bool, rank: Rank) -> Option<Turn> {
        if own && self.pooled.is_some() { Some(self.turns.take(rank).await) } else { None }
    }

    /// Returns `true` if the server replies on the session's own connection.
    async fn is_served(&self) -> bool {
        let _turn = self.turn(true, Rank::Background).await;
        let patience = self.connector.remote.request_timeout / 4;
        matches!(timeout(patience, self.client.simple_query(PING)).await, Ok(Ok(_)))
    }

    /// Runs one request, which begins once it has a connection.
    async fn one(&self, request: Request<Message>) -> Ended {
        let lent = match self.lend(request.message.goes_by_pool()).await {
            Ok(lent) => lent,
            Err(error) => {
                request.refuse(&Arc::new(error));
                return Done::Answered.into();
            }
        };
        let _turn = self.turn(lent.is_none(), request.message.rank()).await;
        match request.begin() {
            true => self.begun(request, lent, None).await,
            false => Done::Answered.into(),
        }
    }

    /// Repeats a request that had no effect.
    async fn once_more(&self, request: Request<Message>, retry: Option<Retry>) -> Ended {
        match self.lend(request.message.goes_by_pool()).await {
            Ok(lent) => {
                let _turn = self.turn(lent.is_none(), Rank::Call).await;
                self.begun(request, lent, retry).await
            }
            Err(error) => {
                request.answer(Err(Verdict::Failed(error)));
                Done::Answered.into()
            }
        }
    }

    /// Runs one request by itself.
    pub(super) async fn begun(
        &self,
        request: Request<Message>,
        lent: Option<Lent>,
        retry: Option<Retry>,
    ) -> Ended {
        // The caller may have sent another request since.
        if !request.is_awaited() {
            return Done::Answered.into();
        }
        let own = lent.is_none();
        let answer = match self.send(&request.message, retry, lent).await {
            Ok(Ok(Some(outcomes))) => Ok(outcomes),
            Ok(Ok(None)) => {
                return self.checked(request, retry).map_or(Done::Answered.into(), |rest| Ended {
                    rest: vec![rest],
                    ..Done::Answered.into()
                });
            }
            Ok(Err(error)) => Err(error),
            Err(error) => {
                request.answer(Err(Verdict::Failed(error)));
                return if own { Done::Useless.into() } else { Done::Answered.into() };
            }
        };
        let useless = matches!(&answer, Err(error) if is_useless(error));
        let elsewhere = matches!(&answer, Err(error) if is_elsewhere(error));
        let operation = request.operation;
        let done = match &answer {
            _ if useless => Done::Useless,
            Ok(outcomes) if request.message.tells_expiries => Done::expiries(outcomes, session_of),
            _ => Done::Answered,
        };
        request.answer(answer.map_err(|error| triage(operation, &self.endpoint, &error)));
        // The session's own connection may lead to the former server, and a ping then fails.
        let rest = elsewhere.then_some(What::One(Requested::Ping)).into_iter().collect();
        Ended { rest, ..done.into() }
    }

    /// Returns the next attempt of a step that another transaction has blocked.
    pub(super) fn checked(&self, request: Request<Message>, retry: Option<Retry>) -> Option<What> {
        if let Some(retry) = Retry::after(retry, self.connector.remote.request_timeout) {
            return Some(What::Checked(request, retry));
        }
        let why = match request.message.step().map(Step::kind) {
            Some(Kind::Join) => {
                "a transaction that has locked the queue, such as an eviction, is still open"
            }
            _ => "a transaction that has checked or released the lock is still open",
        };
        let reason = format!("{}: {why}", self.endpoint);
        request.answer(Err(Verdict::Again(reason)));
        None
    }

    /// Sends a message. `None`: another transaction has locked what a step needs for longer than
    /// this attempt waits. An error is the end of the connection.
    pub(super) async fn send(
        &self,
        message: &Message,
        retry: Option<Retry>,
        lent: Option<Lent>,
    ) -> Result<Result<Option<Vec<Outcome>>, Failure>> {
        let (sent, clock) = (clock::now(), &self.connector.clock);
        let clock_trust = clock.clock_trust(sent).filter(|_| message.sweeps);
        let dead = || self.connector.host.knows_dead(&self.server);
        let evidence = clock_trust.map(|clock_trust| Evidence { clock_trust, dead: dead() });
        let listens =
            if message.listens && self.pooled.is_none() { self.listening.begin() } else { None };
        let step = message.step().zip(self.kept.as_ref()).filter(|_| lent.is_none());
        let look = message.look().zip(self.looks.as_ref());
        let look = look.filter(|_| lent.is_none() && listens.is_none());
        let (text, before) = match (step, look) {
            (None, None) => message.text(self.session, evidence.as_ref(), listens.is_some()),
            _ => (String::new(), 1),
        };
        let time = self.time(lent.as_ref());
        let joins = matches!(message.step(), Some(Step::Join { .. })) && lent.is_none();
        let _joining = joins.then(|| self.locked.joining());
        let patience = |step: &Step| self.locked.patience(step, retry, time.0);
        let query = async {
            let (outcomes, done) = match (step, look) {
                (Some((step, kept)), _) => {
                    let patience = patience(step);
                    kept.run(&self.client, self.session, step, patience, &self.crowded).await?
                }
                (None, Some((look, looks))) => {
                    (looks.run(&self.client, self.session, look).await?, true)
                }
                (None, None) => {
                    let for_locks = message.step().map(patience);
                    (self.simple(&text, for_locks, lent).await?, true)
                }
            };
            Ok((message.outcomes(outcomes), done))
        };
        let mut outcomes = match self.replied(sent, time, query).await? {
            Ok((outcomes, true)) => outcomes,
            Ok((_, false)) => return Ok(Ok(None)),
            Err(error) if message.step().is_some() && is_locked(&error) => {
                if let Some(Step::Join { dir, .. }) = message.step() {
                    self.locked.note(dir, true);
                    // The request for a crowded queue has a limit of its own.
                    self.crowded.note(dir, true);
                }
                return Ok(Ok(None));
            }
            Err(error) => return Ok(Err(error)),
        };
        if let Some(begun) = listens {
            self.listening.begun(begun);
        }
        if let Some(Evidence { clock_trust, .. }) = &evidence {
            clock.acted_on(clock_trust);
        }
        outcomes.drain(..before.min(outcomes.len()));
        if let Some(Step::Join { dir, .. }) = message.step() {
            self.locked.note(dir, false);
            if step.is_none() {
                let ahead = outcomes.first().map_or(0, |outcome| outcome.rows().len());
                self.crowded.note(dir, ahead > 1);
            }
        }
        Ok(Ok(Some(outcomes)))
    }

    /// Sends one message of the simple query protocol. `for_locks` is the time limit for each lock.
    pub(super) async fn simple(
        &self,
        text: &str,
        for_locks: Option<Duration>,
        lent: Option<Lent>,
    ) -> Result<Vec<Outcome>, Failure> {
        let shown = self.connector.log.so_far().shown_by(&self.server);
        let mut text = text.to_owned();
        if for_locks.is_some() {
            // The limit does not apply to the commit: see `distlock.enqueue_within`.
            let usual = self.connector.remote.request_timeout / 2;
            text += &format!(";\nSET LOCAL lock_timeout = {}", usual.as_millis().max(1));
        }
        if let Some(lent) = lent {
            return lent.run(&text, shown, for_locks).await;
        }
        let Some(pooled) = &self.pooled else {
            return Ok(outcomes(self.client.simple_query(&text).await?));
        };
        let for_locks = for_locks.unwrap_or(pooled.for_locks());
        let (before, statements) = pooled.before(shown, for_locks);
        let mut outcomes = outcomes(self.client.simple_query(&(before + &text)).await?);
        outcomes.drain(..statements.min(outcomes.len()));
        Ok(outcomes)
    }

    /// Returns how long a request may take from now on, and whether it uses the own connection.
    pub(super) fn time(&self, lent: Option<&Lent>) -> (Duration, bool) {
        (lent.map_or(self.connector.remote.request_timeout, Lent::left), lent.is_none())
    }

    /// Reads the server's clock from the first outcome of each reply.
    pub(super) async fn replied<T>(
        &self,
        sent: Duration,
        (time, own): (Duration, bool),
        query: impl Future<Output = Result<(Vec<Outcome>, T), Failure>>,
    ) -> Result<Result<(Vec<Outcome>, T), Failure>> {
        let answer = timeout(time, query).await.map_err(|_| {
            StoreError::Unknown(format!("{} did not reply in time", self.endpoint).into())
        })?;
        if let Ok((outcomes, _)) = &answer {
            match own {
                true => self.connector.check(&self.server, self.name, outcomes)?,
                false => {
                    lent::is_named(self.name, outcomes)?;
                    self.connector.read_log(&self.server, outcomes);
                }
            }
            self.connector.clock.read(outcomes, sent);
        }
        Ok(answer)
    }
}

pub(super) fn session_of(row: &Row) -> Option<i64> {
    row.number(0)
}
