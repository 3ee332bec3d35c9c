//! The tables, and the databases that they are in.

use std::error::Error as _;

use distlock::{Client, Error};
use distlock_testkit::servers::postgres_url;

use crate::common::{
    Harness,
    case::{SOON, within},
    cases::versions::Change,
    postgres::{Postgres, ask, dial},
};

const OPERATOR: Option<(&str, &str)> = Some(("postgres", "postgres"));

/// A database of a test's own.
pub(crate) struct Database {
    operator: tokio_postgres::Client,
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) async fn new() -> Self {
        let shared = postgres_url();
        // The server is there.
        drop(Postgres::start().await);
        let operator = dial(&shared, OPERATOR).await;
        let name = format!("t_{:016x}", fastrand::u64(..));
        ask(&operator, &format!("CREATE DATABASE {name} OWNER app")).await;
        let (server, _) = shared.rsplit_once('/').expect("a database");
        Self { operator, url: format!("{server}/{name}"), name }
    }

    async fn client(&self) -> distlock::Result<Client> {
        within(SOON, "it connects", Client::connect(&self.url)).await
    }

    pub(crate) async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&dial(&self.url, OPERATOR).await, sql).await
    }

    pub(crate) async fn end(self) {
        ask(&self.operator, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

fn told(error: &Error) -> String {
    error.source().expect("a reason").to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_to_come_makes_the_tables() {
    let database = Database::new().await;
    let first = futures_util::future::join_all((0..8).map(|_| database.client())).await;
    let clients: Vec<_> = first.into_iter().map(|client| client.expect("connected")).collect();
    for client in &clients {
        let guard = client.mutex("a").lock().await.expect("granted");
        guard.unlock().await.expect("released");
    }
    for client in clients {
        client.close().await.expect("closed");
    }
    assert_eq!(database.ask("SELECT version FROM distlock.schema").await, ["1"]);
    for table in ["sessions", "entries", "watches"] {
        let left = database.ask(&format!("SELECT * FROM distlock.{table}")).await;
        assert!(left.is_empty(), "{table}: {left:?}");
    }
    database.end().await;
}

/// What is printed for operators is what a client makes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_an_operator_has_made_will_do() {
    let database = Database::new().await;
    database.ask(distlock::postgres::schema()).await;
    let error = database.client().await.expect_err("it may not use them");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    database
        .ask(
            "GRANT USAGE ON SCHEMA distlock TO app; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app",
        )
        .await;
    let client = database.client().await.expect("connected");
    client.mutex("a").lock().await.expect("granted").unlock().await.expect("released");
    client.close().await.expect("closed");
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_another_version_are_refused_by_name() {
    let database = Database::new().await;
    database.client().await.expect("connected").close().await.expect("closed");
    database.ask("UPDATE distlock.schema SET version = 2").await;
    let error = database.client().await.expect_err("it does not know them");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(told(&error).contains("version 2"), "{}", told(&error));
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_build_takes_the_tables_from_clients_that_are_connected() {
    let database = Database::new().await;
    let change = Change {
        version: "SELECT version FROM distlock.schema",
        begin: &["BEGIN; UPDATE distlock.schema SET version = version + 1; \
             ALTER TABLE distlock.sessions RENAME TO sessions_of_before; COMMIT"],
        undo: &["BEGIN; UPDATE distlock.schema SET version = version - 1; \
             ALTER TABLE distlock.sessions_of_before RENAME TO sessions; COMMIT"],
        lives: |session| {
            let lives = "SELECT id FROM distlock.sessions_of_before WHERE expires > now()";
            format!("{lives} AND id = {session}")
        },
        entries: "SELECT queue || number || label FROM distlock.entries ORDER BY number",
    };
    change.is_noticed(&database.url).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_database_is_refused_by_name() {
    let database = Database::new().await;
    let alter = format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name);
    ask(&database.operator, &alter).await;
    let error = database.client().await.expect_err("nothing can be written");
    assert!(told(&error).contains("read-only"), "{}", told(&error));
    database.end().await;
}

/// A queue's row that was put away takes its number with it; the next ones are higher.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_over_the_end_of_a_queue() {
    let database = Database::new().await;
    let client = database.client().await.expect("connected");
    let mut last = 0;
    for round in 0..3 {
        for name in ["a", "b"] {
            let guard = client.mutex(name).lock().await.expect("granted");
            let token = guard.fencing_token().as_u64();
            assert!(token > last || name == "b" && token >= last, "{token} after {last}");
            last = token.max(last);
            guard.unlock().await.expect("released");
        }
        database.ask("UPDATE distlock.queues SET used = now() - interval '2 days'").await;
        let other = database.client().await.expect("connected");
        other.close().await.expect("closed");
        let left = database.ask("SELECT queue FROM distlock.queues").await;
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
    client.close().await.expect("closed");
    database.end().await;
}

/// They are written between quotes, and nothing of them gets out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_quotes_are_names() {
    let database = Database::new().await;
    let namespace = "/it's\\'a\\--$$;";
    let connect = || Client::builder(&database.url).namespace(namespace).connect();
    let client = connect().await.expect("connected");
    let other = connect().await.expect("connected");
    let guard = client.mutex("'; DROP SCHEMA distlock; --\\").lock().await.expect("granted");
    let key = "/it's\\data'\\";
    guard.put(key, "it's\\").await.expect("written");
    assert!(other.mutex(guard.name()).try_lock().await.expect("an answer").is_none());
    assert_eq!(client.locks().await.expect("an answer").len(), 1);
    let waiter = other.mutex(guard.name());
    let waiter = tokio::spawn(async move { waiter.lock().await });
    guard.unlock().await.expect("released");
    let next = within(SOON, "it has its turn", waiter).await.expect("no panic").expect("granted");
    next.unlock().await.expect("released");
    let data = "SELECT convert_from(value, 'UTF8') FROM distlock.data";
    assert_eq!(database.ask(data).await, ["it's\\"]);
    database.end().await;
}
