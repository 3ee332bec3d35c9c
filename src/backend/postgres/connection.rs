//! A connection to the writable server.

use std::{
    future::poll_fn,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::try_join3;
use tokio_postgres::{
    AsyncMessage, Client, Config, Connection, SimpleQueryMessage, config::SslMode,
};

use super::{
    alone::Statements,
    batch::Batches,
    error::{POOLED, is_read_only, refused},
    lent,
    log::{Log, SoFar},
    looks::Looks,
    message::{CONNECTION, FLUSHED},
    observed::Host,
    opening, other,
    pooled::Pooled,
    socket::{Socket, dial},
    tls::Secured,
};
use crate::{
    backend::{
        Result, StoreError,
        remote::Remote,
        securing::{Securing, Stream},
        sql::{
            endpoints::{Endpoints, not_primary},
            outcome::{Outcome, Row},
            released::Released,
            server_clock::ServerClock,
        },
    },
    runtime::{clock::Instant, mutex::Mutex, random},
};

/// How long a pooler is remembered, because its configuration may change.
const NOTICED: Duration = Duration::from_secs(60);

/// Connects sessions.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) remote: Remote,
    pub(super) endpoints: Endpoints,
    pub(super) clock: ServerClock,
    pub(super) log: Log,
    pub(super) host: Host,
    /// When a pooler was last found to share a connection.
    pooled: Mutex<Option<Instant>>,
    /// The user's pool has reached the server of a session.
    verified: AtomicBool,
}

/// A connection on which a session works.
pub(super) struct Link {
    pub(super) endpoint: String,
    pub(super) client: Arc<Client>,
    connection: Connection<Socket, Box<dyn Stream>>,
    /// The unique name of the connection.
    pub(super) name: i64,
    /// The identity of the server.
    pub(super) server: String,
    /// The position up to which the server's log is on the disk.
    pub(super) flushed: i64,
    /// The log positions that servers have shown before the connection was made.
    seen: SoFar,
    /// A server of the same name has shown a later position before.
    pub(super) set_back: bool,
    /// There are no tables yet.
    pub(super) bare: bool,
    /// Set if a pooler lends the server's connections for one transaction each.
    pub(super) pooled: Option<Pooled>,
    /// The statements before requests on connections of the user's pool, if there is one.
    pub(super) by_pool: Option<Pooled>,
    /// The prepared statements, once there are tables. `None` behind a pooler and with the user's
    /// pool.
    pub(super) kept: Option<Statements>,
    pub(super) looks: Option<Looks>,
    /// The prepared statements for many calls at once.
    pub(super) batches: Option<Batches>,
}

impl Connector {
    pub(super) fn new(remote: Remote) -> Self {
        let endpoints = Endpoints::new(remote.endpoints.clone());
        let (clock, log, pooled, verified) = <_>::default();
        Self { remote, endpoints, clock, log, host: Host::this(), pooled, verified }
    }

    pub(super) async fn connect(&self, patience: Duration) -> Result<Link> {
        self.endpoints.connect(patience, |endpoint| self.connect_to(endpoint)).await
    }

    /// Connects a session again, and repeats its releases, which the server may have lost.
    pub(super) async fn connect_again(
        &self,
        session: i64,
        released: &Released,
        patience: Duration,
    ) -> Result<Link> {
        let connect = |endpoint| async move {
            let mut link = self.connect_to(endpoint).await?;
            link.adopt().await?;
            let mut sql = opening::recognize(&link.server, link.set_back);
            // The same server may also have lost releases in a crash, however long it was away.
            let lost = released.all();
            if !lost.is_empty() {
                sql += &opening::delete(session, &lost);
            }
            link.ask(&sql).await.map_err(|error| refused(endpoint, &error))?;
            link.prepare().await.map_err(|error| refused(endpoint, &error))?;
            self.log.begin(&link.server, link.flushed);
            Ok(link)
        };
        self.endpoints.connect(patience, connect).await
    }

    /// Fails if the user's pool does not lead to the server of the connection with this name.
    pub(super) async fn verify_pool(
        &self,
        words: Option<Pooled>,
        name: i64,
        patience: Duration,
    ) -> Result<()> {
        if let (Some(pool), Some(words)) = (&self.remote.pool, words) {
            let before = self.verified.load(Ordering::Relaxed);
            lent::verify(pool, &words, name, patience, before).await?;
            self.verified.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Fails if the first of these outcomes does not name the connection `name`: a pooler has lent
    /// it to other clients. The request may have run with their settings, and notifications do not
    /// arrive.
    pub(super) fn check(&self, server: &str, name: i64, outcomes: &[Outcome]) -> Result<()> {
        let row = outcomes.first().and_then(Outcome::first);
        let reply = row.and_then(|row| row.number(CONNECTION));
        if outcomes.is_empty() || reply == Some(name) {
            self.read_log(server, outcomes);
            return Ok(());
        }
        *self.pooled.lock() = Some(Instant::now());
        Err(StoreError::Unknown(POOLED.into()))
    }

    /// Records the position of the server's log.
    pub(super) fn read_log(&self, server: &str, outcomes: &[Outcome]) {
        let row = outcomes.first().and_then(Outcome::first);
        if let Some(flushed) = row.and_then(|row| row.number(FLUSHED)) {
            self.log.saw(server, flushed);
        }
    }

    async fn connect_to(&self, endpoint: &str) -> Result<Link> {
        if self.pooled.lock().is_some_and(|noticed| noticed.elapsed() < NOTICED) {
            return Err(StoreError::Denied(format!("{endpoint}: {POOLED}").into()));
        }
        let unavailable =
            |error: io::Error| StoreError::Unavailable(format!("{endpoint}: {error}").into());
        let secure = |material| Securing::new(material, endpoint);
        let securing = self.remote.material().as_deref().map(secure).transpose();
        let securing = securing.map_err(unavailable)?;
        let mut config = Config::new();
        config.application_name("distlock");
        config.ssl_mode(if securing.is_some() { SslMode::Require } else { SslMode::Disable });
        if let Some(credentials) = &self.remote.credentials {
            let newest = credentials.newest();
            config.user(newest.user.as_str());
            if !newest.password.expose().is_empty() {
                config.password(newest.password.expose());
            }
        }
        if let Some(database) = &self.remote.database {
            config.dbname(database.as_str());
        }
        let stream = dial(endpoint).await.map_err(unavailable)?;
        let (client, connection) =
            config.connect_raw(stream, Secured(securing)).await.map_err(|error| {
                self.remote.expire_credentials();
                refused(endpoint, &error)
            })?;
        if let Some(name) = other::name(|parameter| connection.parameter(parameter)) {
            return Err(other::unfit(endpoint, name));
        }
        let (name, patience) = (random::id(), self.remote.request_timeout);
        let pooled = self.remote.pooled.then(|| Pooled::new(name, patience));
        let by_pool = self.remote.pool.as_ref().map(|_| Pooled::lent(name, patience));
        let hello = match &pooled {
            Some(_) => opening::hello_pooled(),
            None => opening::hello(name, patience),
        };
        let mut link = Link {
            endpoint: endpoint.to_owned(),
            client: Arc::new(client),
            connection,
            name,
            server: String::new(),
            flushed: 0,
            seen: self.log.so_far(),
            set_back: false,
            bare: false,
            pooled,
            by_pool,
            kept: None,
            looks: None,
            batches: None,
        };
        let hello = link.ask(&hello).await.map_err(|error| match is_read_only(&error) {
            true => not_primary(endpoint, "is a standby or read-only"),
            false => refused(endpoint, &error),
        })?;
        let reply = hello.last().and_then(Outcome::first);
        let reply = reply
            .ok_or_else(|| not_primary(endpoint, "does not report whether it is a standby"))?;
        if reply.flag(0) {
            return Err(not_primary(endpoint, "is a standby (pg_is_in_recovery)"));
        }
        if reply.flag(1) {
            return Err(not_primary(endpoint, "is read-only (transaction_read_only)"));
        }
        link.bare = reply.flag(2);
        reply.text(opening::HELLO_SERVER).unwrap_or_default().clone_into(&mut link.server);
        link.flushed = reply.number(opening::HELLO_FLUSHED).unwrap_or(0);
        link.set_back = link.seen.is_set_back(&link.server, link.flushed);
        // What it has shown in between is unknown, and the clock may be that of another server.
        self.clock.forget();
        Ok(link)
    }
}

impl Link {
    /// Runs statements while the connection has no other requests.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Vec<Outcome>, tokio_postgres::Error> {
        let client = Arc::clone(&self.client);
        let Some(pooled) = &self.pooled else {
            return self.during(client.simple_query(sql)).await.map(outcomes);
        };
        let (mut text, before) = pooled.before(self.flushed, pooled.for_locks());
        text += sql;
        let mut outcomes = self.during(client.simple_query(&text)).await.map(outcomes)?;
        outcomes.drain(..before.min(outcomes.len()));
        Ok(outcomes)
    }

    /// Adopts the server that a pooler leads to, or that the user's pool has to lead to. A request
    /// that reaches another server fails.
    pub(super) async fn adopt(&mut self) -> Result<()> {
        if self.pooled.is_none() && self.by_pool.is_none() {
            return Ok(());
        }
        let reply = self.ask(&opening::run(random::id())).await;
        let reply = reply.map_err(|error| refused(&self.endpoint, &error))?;
        let row = reply.last().and_then(Outcome::first);
        let read = row.and_then(|row| Some((row.text(0)?, row.number(1)?, row.number(2)?)));
        let Some((server, flushed, run)) = read else {
            return Err(not_primary(&self.endpoint, "does not report which server it is"));
        };
        (self.server, self.flushed) = (server.to_owned(), flushed);
        self.set_back = self.seen.is_set_back(server, flushed);
        for words in [&mut self.pooled, &mut self.by_pool].into_iter().flatten() {
            words.begins_on(run);
        }
        Ok(())
    }

    /// Prepares the statements whose plans the connection keeps. It does not prepare those that run
    /// on connections of the user's pool.
    pub(super) async fn prepare(&mut self) -> Result<(), tokio_postgres::Error> {
        if self.pooled.is_some() || self.by_pool.is_some() {
            return Ok(());
        }
        let client = Arc::clone(&self.client);
        // In one round trip.
        let prepared = try_join3(
            Statements::prepare(&client),
            Looks::prepare(&client),
            Batches::prepare(&client),
        );
        let (kept, looks, batches) = self.during(prepared).await?;
        (self.kept, self.looks, self.batches) = (Some(kept), Some(looks), Some(batches));
        Ok(())
    }

    async fn during<T>(&mut self, asking: impl Future<Output = T>) -> T {
        let mut asking = std::pin::pin!(asking);
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                // The end of the connection is an error of the request, too.
                heard = self.heard(), if open => open = matches!(heard, Some(Ok(_))),
                answer = &mut asking => return answer,
            }
        }
    }

    /// Returns the server's unsolicited messages. `None` and errors are the end of the connection.
    /// It has to be polled all the time, also during requests.
    pub(super) async fn heard(&mut self) -> Option<Result<AsyncMessage, tokio_postgres::Error>> {
        poll_fn(|context| self.connection.poll_message(context)).await
    }
}

/// Returns the outcome of each statement, in order.
pub(super) fn outcomes(messages: Vec<SimpleQueryMessage>) -> Vec<Outcome> {
    let (mut outcomes, mut rows) = (Vec::new(), Vec::new());
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                let texts = (0..row.len()).map(|column| row.get(column).map(str::to_owned));
                rows.push(Row::new(texts.collect()));
            }
            SimpleQueryMessage::CommandComplete(count) => {
                outcomes.push(Outcome::new(std::mem::take(&mut rows), count));
            }
            // These messages contain the names of the columns.
            _ => {}
        }
    }
    outcomes
}
