//! The harness of MySQL. The operator connects as a superuser and reads the server's statement
//! counters.

use std::sync::Arc;

use async_trait::async_trait;
use distlock::FailoverBehavior;
use distlock_testkit::{
    framing::Framing,
    proxies::Proxies,
    servers::{endpoints, mysql_url},
};
use mysql_async::{Conn, OptsBuilder, Row, prelude::Queryable};
use tokio::{
    sync::{Mutex, OnceCell},
    time::timeout,
};

use super::{
    Cost, Harness, Link, SOON, Servers, Sessions,
    hosts::POOLED,
    own::Image,
    single::{Login, Single},
};

pub(crate) const IMAGE: &Image =
    &Image { like: "mysql", port: 3306, around: ["mysql://root:root@", "/distlock"] };

/// The option that creates the database of that URL.
pub(crate) const DATABASE: &str = "--env=MYSQL_DATABASE=distlock";

/// The command that runs an operator's statement in the server's container. The statement follows.
pub(crate) const PROGRAM: [&str; 6] =
    ["mariadb", "--skip-ssl", "--user=root", "--password=root", "--skip-column-names", "--execute"];

/// User and password of the superuser of docker/.
pub(crate) const OPERATOR: (&str, &str) = ("root", "root");

/// The harness of clients that connect directly or through a pool of sqlx.
pub(crate) struct Server<const WAY: u8> {
    url: String,
    single: Single,
    client: Mutex<Conn>,
    digests: OnceCell<Digests>,
}

pub(crate) type Mysql = Server<DIRECT>;
pub(crate) type SqlxPool = Server<BY_SQLX>;

const DIRECT: u8 = 0;
const BY_SQLX: u8 = 1;

/// The table with the server's counters per kind of statement and database.
const COUNTS: &str = "performance_schema.events_statements_summary_by_digest";

/// The digests of the statements at the beginning of requests, and of keepalives.
#[derive(Debug)]
struct Digests {
    clock: String,
    renewal: String,
    /// Of requests on a pool's connection.
    lent: String,
}

impl Digests {
    /// Runs each statement once to find its digest. MariaDB 11.8 reports one digest text, that of
    /// the first statement, for all statements of a request. So the requests run in a database
    /// whose sessions table lacks a column of the keepalive, which makes the keepalive alone fail.
    async fn find(url: &str) -> Self {
        let (server, _) = url.rsplit_once('/').expect("a database");
        let mut client = dial(&format!("{server}/mysql"), Some(OPERATOR)).await;
        ask(&mut client, "CREATE TEMPORARY TABLE distlock_sessions (id BIGINT, expires BIGINT)")
            .await;
        let clock = format!("SELECT {NOW}, {BEAT}, @distlock_connection");
        let renew = format!(
            "UPDATE distlock_sessions SET expires = {NOW} + ttl, beat = {BEAT} WHERE id = 1"
        );
        let is_there =
            ", EXISTS (SELECT 1 FROM distlock_sessions WHERE id = 1 AND NOT expires = 0)";
        for is_there in [is_there, ""] {
            let request = format!("{clock}{is_there};\n{renew}");
            let failed = async { client.query_iter(&request).await?.drop_result().await };
            failed.await.expect_err("the column does not exist");
        }
        let lent = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\nSELECT 1 FROM nothing";
        let failed = async { client.query_iter(lent).await?.drop_result().await };
        failed.await.expect_err("the table does not exist");
        let mut digests = async |failed: u8, like: &str, but: &str, many: usize| {
            let sql = format!(
                "SELECT QUOTE(digest) FROM {COUNTS} WHERE schema_name = 'mysql' \
                 AND digest_text LIKE '{like}%' AND digest_text NOT LIKE '{but}' \
                 AND (sum_errors > 0) = {failed}"
            );
            let found = ask(&mut client, &sql).await;
            let hint = "the server has performance_schema: see docker/compose.yml";
            assert!(found.len() >= many, "{hint}");
            found.join(", ")
        };
        let clock = digests(0, "SELECT TIMESTAMPDIFF (", "", 2).await;
        let renewal = digests(1, "SELECT TIMESTAMPDIFF (", "%EXISTS%", 1).await;
        Self { clock, renewal, lent: digests(0, "SET TRANSACTION ISOLATION", "", 1).await }
    }
}

/// Opens a connection for the caller alone, as the user of the URL unless `user` is given.
pub(crate) async fn dial(url: &str, user: Option<(&str, &str)>) -> Conn {
    let Login { user, password, server, database } = Login::of(url, user);
    let server = endpoints(server).await[0];
    let options = OptsBuilder::default()
        .ip_or_hostname(server.ip().to_string())
        .tcp_port(server.port())
        .user(Some(user))
        .pass(Some(password))
        .db_name(Some(database).filter(|database| !database.is_empty()))
        .prefer_socket(false);
    Conn::new(options).await.expect("the user logs in")
}

impl<const WAY: u8> Server<WAY> {
    /// Returns how many requests were a single statement, or a release that also reads the
    /// successor. MariaDB reports the digest text of the release's first statement for all four of
    /// its statements.
    async fn bare(&self) -> u64 {
        let sql = format!(
            "SELECT COALESCE(SUM(IF(digest_text LIKE 'START%', count_star DIV 4, count_star)), 0) \
             FROM {COUNTS} WHERE schema_name = DATABASE() AND (digest_text NOT LIKE '%;%' \
             AND (digest_text LIKE 'UPDATE `distlock\\_alone` %' \
             OR digest_text LIKE 'DELETE FROM `distlock\\_entries` %') \
             OR digest_text LIKE 'START TRANSACTION ; ')"
        );
        self.ask(&sql).await[0].parse().expect("a number")
    }

    /// Runs an operator's statement, and returns the first column of its result.
    pub(crate) async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&mut *self.client.lock().await, sql).await
    }
}

/// Runs statements, and returns the first column of their results.
pub(crate) async fn ask(client: &mut Conn, sql: &str) -> Vec<String> {
    let asking = async {
        let mut rows = Vec::new();
        let mut answer = client.query_iter(sql).await?;
        while !answer.is_empty() {
            rows.extend(answer.collect::<Row>().await?);
        }
        answer.drop_result().await.map(|()| rows)
    };
    let reply = timeout(SOON, asking).await.expect("MySQL replies");
    let reply = reply.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    reply.into_iter().map(|mut row| row.take(0).expect("a text")).collect()
}

/// The SQL expression of an entry's key.
const KEY: &str = "CONCAT(queue, '/', LOWER(HEX(session)), '-', ticket, \
                   IF(label = '', '', CONCAT('.', label)))";

/// All entries, wherever they are stored.
const ENTRIES: &str = "SELECT queue, number, session, ticket, label, since FROM distlock_entries \
                       UNION ALL SELECT queue, number, session, ticket, label, since \
                       FROM distlock_alone WHERE session IS NOT NULL";

/// The SQL expression that each request reads in addition to the clock.
const BEAT: &str = "(UUID_SHORT() & 72057594037927935)";

/// The SQL expression of the server's clock, in the format of the tables.
pub(crate) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

#[async_trait]
impl<const WAY: u8> Harness for Server<WAY> {
    async fn start() -> Self {
        let url = mysql_url();
        let pooled = if WAY == BY_SQLX { POOLED } else { "" };
        let single = Single::of(&(url.clone() + pooled)).await;
        let mut client = dial(&url, Some(OPERATOR)).await;
        // The first client creates the tables.
        if ask(&mut client, "SHOW TABLES LIKE 'distlock\\_schema'").await.is_empty() {
            let first =
                distlock::Client::connect(&url).await.expect("the client creates the tables");
            first.close().await.expect("closed");
        }
        let url = url + pooled;
        Self { url, single, client: Mutex::new(client), digests: OnceCell::new() }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn notifies(&self) -> bool {
        false
    }

    /// The tests warm up one pool for each of the three servers of the URL.
    fn at_once(&self) -> f64 {
        if WAY == BY_SQLX { 3.0 } else { 1.0 }
    }

    /// Waiters poll briefly after a holder has released.
    fn looks(&self) -> u64 {
        20
    }

    /// The server does not flush each commit to disk, and reports so.
    fn promises(&self) -> (bool, FailoverBehavior) {
        (false, FailoverBehavior::MayLoseGrants)
    }

    /// Only of live sessions. Expired ones are removed when a client next acquires a lock.
    async fn keys(&self, namespace: &str) -> Vec<String> {
        self.ask(&format!(
            "SELECT {KEY} FROM ({ENTRIES}) AS e JOIN distlock_sessions AS s ON s.id = session \
             WHERE queue >= '{namespace}/' AND queue < '{namespace}0' AND s.expires > {NOW} \
             ORDER BY since, number"
        ))
        .await
    }

    async fn delete_key(&self, key: &str) {
        let (queue, name) = key.rsplit_once('/').expect("a queue");
        let (session, rest) = name.split_once('-').expect("a session");
        let ticket = &rest[..36];
        let session = i64::from_str_radix(session, 16).expect("a number");
        let entry = format!("queue = '{queue}' AND session = {session} AND ticket = '{ticket}'");
        let sql = format!(
            "DELETE FROM distlock_entries WHERE {entry}; SET @deleted = ROW_COUNT(); \
             UPDATE distlock_alone SET session = NULL WHERE {entry}; \
             SELECT 1 FROM DUAL WHERE @deleted + ROW_COUNT() = 1"
        );
        assert_eq!(self.ask(&sql).await.len(), 1, "no key {key}");
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        let sql = format!("SELECT value FROM distlock_data WHERE CONCAT(dir, '/', name) = '{key}'");
        self.ask(&sql).await.pop().map(String::into_bytes)
    }

    async fn erase(&self, key: &str) {
        let (dir, name) = key.rsplit_once('/').expect("a path");
        // By the whole primary key, since the server locks all rows that it scans.
        self.ask(&format!("DELETE FROM distlock_data WHERE dir = '{dir}' AND name = '{name}'"))
            .await;
    }

    /// Counts the requests that begin with a read of the clock, and those that are one statement.
    async fn cost(&self, _: &[i64]) -> Cost {
        let find = || Digests::find(&self.url);
        let Digests { clock, renewal, lent } = self.digests.get_or_init(find).await;
        let calls = async |digests: &str| -> u64 {
            let sql = format!(
                "SELECT COALESCE(SUM(count_star), 0) FROM {COUNTS} \
                 WHERE digest IN ({digests}) AND schema_name = DATABASE()"
            );
            self.ask(&sql).await[0].parse().expect("a number")
        };
        let keepalives = calls(renewal).await;
        let own = calls(clock).await - keepalives + self.bare().await;
        let requests = own + if WAY == BY_SQLX { calls(lent).await } else { 0 };
        Cost { requests, keepalives, watches: 0, events: 0 }
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(self.proxies().await)
    }
}

#[async_trait]
impl<const WAY: u8> Sessions for Server<WAY> {
    async fn session_of(&self, key: &str) -> i64 {
        let sql = format!("SELECT session FROM ({ENTRIES}) AS e WHERE {KEY} = '{key}'");
        let session = self.ask(&sql).await.pop().unwrap_or_else(|| panic!("no key {key}"));
        session.parse().expect("a number")
    }

    async fn session_exists(&self, session: i64) -> bool {
        let sql =
            format!("SELECT id FROM distlock_sessions WHERE id = {session} AND expires > {NOW}");
        !self.ask(&sql).await.is_empty()
    }

    async fn end_session_of(&self, key: &str) {
        let session = self.session_of(key).await;
        self.ask(&format!("DELETE FROM distlock_sessions WHERE id = {session}")).await;
    }
}

#[async_trait]
impl<const WAY: u8> Servers for Server<WAY> {
    async fn proxies(&self) -> Proxies {
        self.single.proxies(Framing::Mysql).await
    }

    /// A keepalive may have to wait for the reply to a poll. A keepalive that takes longer than
    /// half the TTL is abandoned together with its connection.
    fn bearable_round_trip(&self) -> f64 {
        // A request through the pool takes two round trips if its connection is tested.
        if WAY == BY_SQLX { 0.2 } else { 0.4 }
    }
}
