//! The harnesses of PostgreSQL, with and without a pooler. The operator connects as a superuser and
//! reads the counters of the extension pg_stat_statements.

use std::sync::Arc;

use async_trait::async_trait;
use distlock::FailoverBehavior;
use distlock_testkit::{
    framing::Framing,
    proxies::Proxies,
    servers::{pgbouncer_url, postgres_url},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{
    Cost, Harness, Link, SOON, Servers, Sessions,
    hosts::POOLED,
    own::Image,
    single::{Login, Single},
};

pub(crate) const IMAGE: &Image =
    &Image { like: "postgres", port: 5432, around: ["postgres://postgres:postgres@", "/postgres"] };

/// User and password of the superuser of docker/.
pub(crate) const OPERATOR: (&str, &str) = ("postgres", "postgres");

/// The harness of clients that connect directly, through pgbouncer in transaction mode, through a
/// pool of sqlx, or to PostgreSQL in this process.
pub(crate) struct Server<const WAY: u8> {
    url: String,
    single: Single,
    client: Client,
}

pub(crate) type Postgres = Server<DIRECT>;
pub(crate) type Pgbouncer = Server<BOUNCED>;
pub(crate) type SqlxPool = Server<BY_SQLX>;
#[cfg(feature = "postgres-embedded")]
pub(crate) type Embedded = Server<EMBEDDED>;
#[cfg(feature = "postgres-embedded")]
pub(crate) type EmbeddedPool = Server<EMBEDDED_BY_SQLX>;

const DIRECT: u8 = 0;
const BOUNCED: u8 = 1;
const BY_SQLX: u8 = 2;
#[cfg(feature = "postgres-embedded")]
const EMBEDDED: u8 = 3;
const EMBEDDED_BY_SQLX: u8 = 4;

#[cfg(feature = "postgres-embedded")]
const fn is_embedded(way: u8) -> bool {
    matches!(way, EMBEDDED | EMBEDDED_BY_SQLX)
}

const fn is_by_sqlx(way: u8) -> bool {
    matches!(way, BY_SQLX | EMBEDDED_BY_SQLX)
}

/// The server in this process.
#[cfg(feature = "postgres-embedded")]
pub(crate) mod embedded {
    use std::sync::LazyLock;

    use distlock_postgres_embedded::Front;

    static FRONT: LazyLock<Front> = LazyLock::new(|| Front::start().expect("PostgreSQL starts"));

    pub(crate) fn url() -> String {
        format!("postgres://app:apppw@{}/postgres", FRONT.address)
    }

    /// Returns how often users have executed a statement that begins like one of these.
    pub(super) fn calls(starts: &'static [&'static str]) -> u64 {
        let counts = FRONT.change(|server| Ok(server.counts())).expect("it runs");
        let is = |text: &str| starts.iter().any(|start| text.starts_with(start));
        counts.iter().filter(|(text, _)| is(text)).map(|(_, count)| count).sum()
    }

    pub(super) fn notified() -> i64 {
        FRONT.change(|server| Ok(server.notified())).expect("it runs").cast_signed()
    }
}

/// How the statements begin of which each request except a keepalive has one.
const REQUESTS: &[&str] = &[
    "SELECT distlock.require(",
    "SELECT * FROM distlock.",
    "WITH taken AS",
    "WITH held AS",
    "UPDATE distlock.queues SET number",
    "SELECT part, a, b, c",
    "SELECT encode(value",
    "SELECT distlock.unwatch(",
    "SELECT queue, number FROM distlock.watches",
    "SELECT id, (extract",
];
const KEEPALIVES: &[&str] = &["UPDATE distlock.sessions"];

/// Opens a connection for the caller alone, as the user of the URL unless `user` is given.
pub(crate) async fn dial(url: &str, user: Option<(&str, &str)>) -> Client {
    let Login { user, password, server, database } = Login::of(url, user);
    let mut config = Config::new();
    config.user(user).password(password).dbname(database);
    let tcp = TcpStream::connect(server).await.expect("PostgreSQL is up: see docker/up");
    let (client, connection) = config.connect_raw(tcp, NoTls).await.expect("the user logs in");
    tokio::spawn(connection);
    client
}

impl<const WAY: u8> Server<WAY> {
    /// Runs an operator's statement, and returns the first column of its result.
    pub(crate) async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&self.client, sql).await
    }
}

/// Runs a statement, and returns the first column of its result.
pub(crate) async fn ask(client: &Client, sql: &str) -> Vec<String> {
    let reply = timeout(SOON, client.simple_query(sql)).await.expect("PostgreSQL replies");
    let reply = reply.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = reply.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    rows.collect()
}

/// The SQL expression of an entry's key.
const KEY: &str = "queue || '/' || to_hex(session) || '-' || ticket || \
                   CASE label WHEN '' THEN '' ELSE '.' || label END";

#[async_trait]
impl<const WAY: u8> Harness for Server<WAY> {
    async fn start() -> Self {
        let url = match WAY {
            BOUNCED => pgbouncer_url(),
            BY_SQLX => postgres_url() + POOLED,
            #[cfg(feature = "postgres-embedded")]
            EMBEDDED => embedded::url(),
            #[cfg(feature = "postgres-embedded")]
            EMBEDDED_BY_SQLX => embedded::url() + POOLED,
            _ => postgres_url(),
        };
        let single = Single::of(&url).await;
        // pgbouncer counts nothing, and accepts one user only.
        let direct = match WAY {
            #[cfg(feature = "postgres-embedded")]
            EMBEDDED | EMBEDDED_BY_SQLX => embedded::url(),
            _ => postgres_url(),
        };
        let client = dial(&direct, Some(OPERATOR)).await;
        // The first client creates the tables.
        if ask(&client, "SELECT to_regclass('distlock.schema') IS NULL").await == ["t"] {
            let first =
                distlock::Client::connect(direct).await.expect("the client creates the tables");
            first.close().await.expect("closed");
        }
        Self { url, single, client }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn notifies(&self) -> bool {
        WAY != BOUNCED
    }

    /// Through pgbouncer, waiters poll briefly after a holder has released.
    fn looks(&self) -> u64 {
        if WAY == BOUNCED { 25 } else { 0 }
    }

    /// The tests warm up one pool for each of the three servers of the URL.
    fn at_once(&self) -> f64 {
        if is_by_sqlx(WAY) { 3.0 } else { 1.0 }
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        (true, FailoverBehavior::Blocks)
    }

    /// Only of live sessions. Expired ones are removed when a client next acquires a lock.
    async fn keys(&self, namespace: &str) -> Vec<String> {
        self.ask(&format!(
            "SELECT {KEY} FROM distlock.members JOIN distlock.sessions AS s ON s.id = session \
             WHERE starts_with(queue, '{namespace}/') AND s.expires > now() ORDER BY since, number"
        ))
        .await
    }

    async fn delete_key(&self, key: &str) {
        let sql = format!("DELETE FROM distlock.members WHERE {KEY} = '{key}' RETURNING 1");
        assert_eq!(self.ask(&sql).await.len(), 1, "no key {key}");
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        let sql = format!(
            "SELECT convert_from(value, 'UTF8') FROM distlock.data \
             WHERE dir || '/' || name = '{key}'"
        );
        self.ask(&sql).await.pop().map(String::into_bytes)
    }

    async fn erase(&self, key: &str) {
        self.ask(&format!("DELETE FROM distlock.data WHERE dir || '/' || name = '{key}'")).await;
    }

    /// Each request except a keepalive has one statement that no other request has, or two that
    /// none has. Other tests use this server concurrently, in databases of their own, so only the
    /// current database counts.
    async fn cost(&self, _: &[i64]) -> Cost {
        #[cfg(feature = "postgres-embedded")]
        if is_embedded(WAY) {
            return tokio::task::block_in_place(|| Cost {
                requests: embedded::calls(REQUESTS),
                keepalives: embedded::calls(KEEPALIVES),
                watches: 0,
                events: embedded::notified(),
            });
        }
        let begins = |starts: &[&str]| {
            let starts = starts.iter().map(|start| format!("query LIKE '{start}%'"));
            format!("toplevel AND ({})", starts.collect::<Vec<_>>().join(" OR "))
        };
        let calls = async |what: &str| -> u64 {
            let sql = format!(
                "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
                 JOIN pg_roles ON pg_roles.oid = userid \
                 JOIN pg_database ON pg_database.oid = dbid \
                 WHERE datname = current_database() AND rolname <> '{}' AND ({what})",
                OPERATOR.0
            );
            self.ask(&sql).await[0].parse().expect("a number")
        };
        Cost {
            requests: calls(&begins(REQUESTS)).await,
            keepalives: calls(&begins(KEEPALIVES)).await,
            watches: 0,
            events: calls("NOT toplevel AND query LIKE '%pg_notify(%'").await.cast_signed(),
        }
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(self.proxies().await)
    }
}

#[async_trait]
impl<const WAY: u8> Sessions for Server<WAY> {
    async fn session_of(&self, key: &str) -> i64 {
        let sql = format!("SELECT session FROM distlock.members WHERE {KEY} = '{key}'");
        let session = self.ask(&sql).await.pop().unwrap_or_else(|| panic!("no key {key}"));
        session.parse().expect("a number")
    }

    async fn session_exists(&self, session: i64) -> bool {
        let sql =
            format!("SELECT id FROM distlock.sessions WHERE id = {session} AND expires > now()");
        !self.ask(&sql).await.is_empty()
    }

    async fn end_session_of(&self, key: &str) {
        let session = self.session_of(key).await;
        self.ask(&format!("DELETE FROM distlock.sessions WHERE id = {session}")).await;
    }
}

#[async_trait]
impl<const WAY: u8> Servers for Server<WAY> {
    async fn proxies(&self) -> Proxies {
        self.single.proxies(Framing::Postgres).await
    }

    /// A request that takes longer than half the TTL is abandoned together with its connection.
    fn bearable_round_trip(&self) -> f64 {
        match WAY {
            // A request through the pool takes two round trips if its connection is tested.
            BY_SQLX | EMBEDDED_BY_SQLX => 0.35,
            // A call waits for the request in flight, and so does a renewal.
            BOUNCED => 0.3,
            _ => 0.7,
        }
    }
}
