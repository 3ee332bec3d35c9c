//! A connection to the writable server.

use std::{
    io,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use super::{
    by_pool::{self, Destination},
    driver::{Answer, Driver, Login, Refusal},
    error::refused,
    lent,
    message::{CALLED, IS_THERE, Message},
    opening::{self, HELLO_BARE, HELLO_SETTINGS},
    schema,
    sent::Sent,
    watches::Watches,
};
use crate::{
    backend::{
        Result, StoreError,
        remote::Remote,
        sql::{
            endpoints::{Endpoints, not_primary},
            outcome::Outcome,
            released::Released,
            server_clock::ServerClock,
        },
    },
    runtime::{
        clock::{self, timeout},
        mutex::Mutex,
        random,
    },
};

const POOLED: &str = "a pooler has reset the connection or lent it to another client: connect to \
                      the server directly";

/// How long connections through a pooler are refused before the next attempt.
const REFUSED: Duration = Duration::from_secs(60);

/// Connects sessions.
#[derive(Debug)]
pub(super) struct Connector {
    pub(super) remote: Remote,
    pub(super) endpoints: Endpoints,
    pub(super) clock: ServerClock,
    /// All sessions of this client. The waiters of one session are notified of what another one
    /// does.
    sessions: Mutex<Vec<Weak<Watches>>>,
    /// When a pooler was found to share a connection.
    pooled: Mutex<Option<Duration>>,
    /// The server's last beat that was read.
    beat: AtomicI64,
    /// The user's pool has reached the server of a session.
    verified: AtomicBool,
}

/// A connection on which a session works.
pub(super) struct Link {
    pub(super) endpoint: String,
    driver: Driver,
    /// The name of the connection, once the server knows it.
    name: Option<i64>,
    /// The identity of the server.
    pub(super) server: String,
    /// The server is one of several that are writable.
    clustered: bool,
    /// There are no tables yet.
    pub(super) bare: bool,
    /// The destination of the connection, if the user has a pool.
    pub(super) destination: Destination,
}

impl Connector {
    pub(super) fn new(remote: Remote) -> Self {
        let endpoints = Endpoints::new(remote.endpoints.clone());
        let (clock, sessions, pooled, beat, verified) = <_>::default();
        Self { remote, endpoints, clock, sessions, pooled, beat, verified }
    }

    /// `ttl` is the TTL of the session.
    pub(super) async fn connect(&self, ttl: Duration, patience: Duration) -> Result<Link> {
        self.endpoints.connect(patience, |endpoint| self.connect_to(endpoint, ttl)).await
    }

    /// Connects a session whose last connection was to `server`. On any other server it repeats the
    /// session's releases.
    pub(super) async fn connect_again(
        &self,
        session: i64,
        ttl: Duration,
        server: &str,
        released: &Released,
        patience: Duration,
    ) -> Result<Link> {
        let connect = |endpoint| async move {
            let mut link = self.connect_to(endpoint, ttl).await?;
            let reply = link.first(&schema::version()).await?;
            link.recognize(reply.last()).await?;
            self.locate(&mut link).await?;
            if let Some(tickets) = released.list().filter(|_| link.server != server) {
                link.first(&opening::delete(session, &tickets)).await?;
            }
            Ok(link)
        };
        self.endpoints.connect(patience, connect).await
    }

    /// Reads the destination of a connection, if requests have to reach it through the user's pool.
    pub(super) async fn locate(&self, link: &mut Link) -> Result<()> {
        if self.remote.mysql_pool.is_none() {
            return Ok(());
        }
        // The beat comes with the clock.
        let message = by_pool::read(link.clustered);
        let (outcomes, reply) = link.first_of_all(&message).await?;
        self.read_beat(&outcomes);
        let row = reply.first().and_then(Outcome::first);
        let read = row.and_then(|row| Some((row.text(0)?, row.text(1)?, row.number(2)?)));
        let Some((server, database, epoch)) = read else {
            return Err(not_primary(&link.endpoint, "does not report which server it is"));
        };
        let (server, database) = (server.to_owned(), database.to_owned());
        let (tables, clustered) = (link.server.clone(), link.clustered);
        link.destination = Destination { server, database, tables, epoch, clustered };
        Ok(())
    }

    /// Fails if the user's pool leads elsewhere than this connection.
    pub(super) async fn verify_pool(&self, link: &Link, patience: Duration) -> Result<()> {
        if let Some(pool) = &self.remote.mysql_pool {
            let before = self.verified.load(Ordering::Relaxed);
            lent::verify(pool, &link.destination, self.beat(), patience, before).await?;
            self.verified.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(super) fn beat(&self) -> i64 {
        self.beat.load(Ordering::Relaxed)
    }

    fn read_beat(&self, outcomes: &[Outcome]) {
        if let Some(beat) = outcomes.first().and_then(|outcome| outcome.first()?.number(1)) {
            self.beat.store(beat, Ordering::Relaxed);
        }
    }

    /// Adds a session of this client.
    pub(super) fn add(&self, watches: &Arc<Watches>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|watches| watches.strong_count() > 0);
        sessions.push(Arc::downgrade(watches));
    }

    /// Wakes the waiters of this client's sessions after a change to an entry or a queue.
    pub(super) fn notify(&self, dir: &str, number: u64) {
        let sessions: Vec<_> = self.sessions.lock().iter().filter_map(Weak::upgrade).collect();
        for watches in sessions {
            watches.notify(dir, number);
        }
    }

    async fn connect_to(&self, endpoint: &str, ttl: Duration) -> Result<Link> {
        let pooled = *self.pooled.lock();
        if pooled.is_some_and(|noticed| clock::now().saturating_sub(noticed) < REFUSED) {
            return Err(StoreError::Denied(format!("{endpoint}: {POOLED}").into()));
        }
        let material = self.remote.material();
        let credentials = self.remote.credentials.as_ref().map(|credentials| credentials.newest());
        let (database, tls) = (self.remote.database.as_deref(), material.as_deref());
        let login = Login { credentials: credentials.as_deref(), database, tls };
        let driver = Driver::open(endpoint, login).await.map_err(|refusal| {
            self.remote.expire_credentials();
            refused(endpoint, &refusal)
        })?;
        let (named, server, name) = (endpoint.to_owned(), String::new(), random::id());
        let mut link = Link {
            endpoint: named,
            driver,
            name: None,
            server,
            clustered: false,
            bare: false,
            destination: Destination::default(),
        };
        let reply = link.first(&opening::hello(name, self.remote.request_timeout, ttl * 2)).await?;
        link.name = Some(name);
        let settings = reply.get(HELLO_SETTINGS).map(Outcome::rows).unwrap_or_default();
        let bare = reply.get(HELLO_BARE).and_then(Outcome::first);
        let bare =
            bare.ok_or_else(|| not_primary(endpoint, "does not report whether it is read-only"))?;
        for setting in settings {
            let (name, value) = (setting.text(0).unwrap_or_default(), setting.text(1));
            if !matches!(value, Some("OFF" | "0")) {
                let reason = format!("is read-only ({})", name.to_ascii_lowercase());
                return Err(not_primary(endpoint, &reason));
            }
        }
        link.bare = bare.flag(0);
        let names = names(reply.get(opening::HELLO_SERVER).unwrap_or_default());
        (link.server, link.clustered) = names;
        if link.clustered {
            link.first(&opening::wait_for_others()).await?;
        }
        // What it has shown in between is unknown, and the clock may be that of another server.
        self.clock.forget();
        Ok(link)
    }

    /// Sends a request, and reads the server's clock from its reply.
    pub(super) async fn ask(
        &self,
        link: &mut Link,
        session: i64,
        message: &Message,
    ) -> io::Result<Sent> {
        let sent = clock::now();
        let clock_trust = self.clock.clock_trust(sent).filter(|_| message.sweeps);
        let batch = message.batch(session, clock_trust.as_ref(), link.clustered);
        let Answer { mut outcomes, refused } =
            timeout(self.remote.request_timeout, link.driver.ask(&batch.text)).await??;
        if !message.bare {
            if !link.is_own(&outcomes) {
                *self.pooled.lock() = Some(clock::now());
                return Err(io::Error::other(POOLED));
            }
            self.clock.read(&outcomes, sent);
            self.read_beat(&outcomes);
        }
        if let Some(clock_trust) = clock_trust.as_ref().filter(|_| outcomes.len() >= batch.before) {
            self.clock.acted_on(clock_trust);
        }
        let refused =
            refused.map(|refusal| (refusal, batch.doubt(outcomes.len(), message.transaction)));
        if refused.is_some() && message.transaction {
            // Undo what was applied, and release its locks.
            timeout(self.remote.request_timeout, link.driver.ask("ROLLBACK")).await??;
        }
        let is_there = outcomes.first().and_then(Outcome::first).map(|row| row.flag(IS_THERE));
        let leaves_more = batch.leaves_more(&outcomes);
        outcomes.drain(..batch.before.min(outcomes.len()));
        outcomes.truncate(batch.own);
        let is_gone = message.is_gone(is_there, &outcomes);
        Ok(Sent { outcomes, is_gone, leaves_more, refused })
    }
}

impl Link {
    /// Sends a message before there is a session.
    pub(super) async fn first(&mut self, message: &Message) -> Result<Vec<Outcome>> {
        self.first_of_all(message).await.map(|(_, own)| own)
    }

    /// Like [`first`](Self::first), with the outcomes of what precedes the message.
    async fn first_of_all(&mut self, message: &Message) -> Result<(Vec<Outcome>, Vec<Outcome>)> {
        let batch = message.batch(0, None, false);
        let broken = |error| StoreError::Unavailable(format!("{}: {error}", self.endpoint).into());
        let Answer { mut outcomes, refused: refusal } =
            self.driver.ask(&batch.text).await.map_err(broken)?;
        if !self.is_own(&outcomes) {
            return Err(StoreError::Unavailable(format!("{}: {POOLED}", self.endpoint).into()));
        }
        match refusal {
            Some(refusal) => Err(refused(&self.endpoint, &Refusal::Server(refusal))),
            None => {
                let own = outcomes.split_off(batch.before.min(outcomes.len()));
                Ok((outcomes, own))
            }
        }
    }

    /// Returns `false` if the first of these outcomes comes from a connection with another name. A
    /// pooler has then lent the connection to other clients, or has reset it. The request may have
    /// run with their settings, or on a read-only server.
    fn is_own(&self, outcomes: &[Outcome]) -> bool {
        is_named(self.name, outcomes)
    }

    /// Records the server in the tables, whose reply this is, and reads their epoch for the
    /// connection.
    pub(super) async fn recognize(&mut self, tables: Option<&Outcome>) -> Result<()> {
        let known = tables.and_then(|reply| reply.first()?.text(schema::SERVER));
        if known != Some(&self.server) {
            let recognize = opening::recognize(&self.server);
            self.first(&recognize).await?;
        }
        self.first(&opening::epoch()).await.map(drop)
    }

    /// Closes the connection with a protocol message.
    pub(super) async fn close(self) {
        let _ = timeout(Duration::from_secs(1), self.driver.close()).await;
    }
}

/// Returns the server's identity, and whether it is one of several that are writable. A cluster
/// (Galera) decides by a majority, and counts as one server whichever member replies. MariaDB has
/// no `server_uuid`. Its `server_uid` changes with the machine's network card, so a restarted
/// container may have another one.
fn names(reply: &[Outcome]) -> (String, bool) {
    let value = |name: &str| {
        let mut rows = reply.iter().flat_map(Outcome::rows);
        let row = rows.find(|row| row.text(0) == Some(name))?;
        row.text(1).filter(|value| value.contains(|letter| !"0-".contains(letter)))
    };
    if let Some(cluster) = value("wsrep_cluster_state_uuid") {
        return (format!("cluster {cluster}"), true);
    }
    let names = match value("server_uuid") {
        Some(uuid) => [Some(uuid), None, value("server_id")],
        None => ["hostname", "port", "server_id"].map(value),
    };
    (names.into_iter().flatten().collect::<Vec<_>>().join("/"), false)
}

/// Returns `false` if these outcomes name another connection than this one, or none.
fn is_named(name: Option<i64>, outcomes: &[Outcome]) -> bool {
    let called = outcomes.first().map(|outcome| outcome.first()?.number(CALLED));
    name.is_none() || called.is_none_or(|called| called == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_that_a_pooler_has_reset_has_no_name() {
        let called = |name: &str| vec![Outcome::of_one(&["1700", "1", name])];
        for (name, outcomes, is_own) in [
            (Some(7), called("7"), true),
            (Some(7), called("8"), false),
            // After a reset, the variable is NULL.
            (Some(7), called(""), false),
            (Some(7), vec![Outcome::default()], false),
            // The request has no statement that names the connection.
            (Some(7), vec![], true),
            (None, called("8"), true),
        ] {
            assert_eq!(is_named(name, &outcomes), is_own, "{name:?} {outcomes:?}");
        }
    }

    #[test]
    fn a_server_and_a_cluster_have_names() {
        for (reply, name) in [
            (&[("server_id", "1"), ("port", "3306"), ("hostname", "h")][..], "h/3306/1"),
            (&[("server_id", "7"), ("server_uuid", "0-f"), ("hostname", "h")], "0-f/7"),
            (&[("hostname", "a"), ("wsrep_cluster_state_uuid", "")], "a"),
            (&[("hostname", "a"), ("wsrep_cluster_state_uuid", "00-00")], "a"),
            (&[("hostname", "a"), ("wsrep_cluster_state_uuid", "0c-0")], "cluster 0c-0"),
        ] {
            let reply: Vec<_> =
                reply.iter().map(|(name, value)| Outcome::of_one(&[name, value])).collect();
            assert_eq!(names(&reply), (name.to_owned(), name.contains("cluster")));
        }
    }
}
