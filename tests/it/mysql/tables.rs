//! The tables, and the databases that they are in.

use std::{error::Error as _, time::Duration};

use distlock::{Client, Error, Write};
use distlock_testkit::{docker::OwnServer, servers::mysql_url};
use mysql_async::{Conn, TxOpts, prelude::Queryable};

use crate::common::{
    Harness,
    case::{SOON, eventually, within},
    cases::versions::Change,
    mysql::{Mysql, OPERATOR, ask, dial},
};

/// A database of a test's own.
pub(crate) struct Database {
    operator: Conn,
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) async fn new() -> Self {
        let shared = mysql_url();
        // The server is there.
        drop(Mysql::start().await);
        let mut operator = dial(&shared, Some(OPERATOR)).await;
        let name = format!("t_{:016x}", fastrand::u64(..));
        ask(&mut operator, &format!("CREATE DATABASE {name}; GRANT ALL ON {name}.* TO app@'%'"))
            .await;
        let (server, _) = shared.rsplit_once('/').expect("a database");
        Self { operator, url: format!("{server}/{name}"), name }
    }

    async fn client(&self) -> distlock::Result<Client> {
        within(SOON, "it connects", Client::connect(&self.url)).await
    }

    pub(crate) async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&mut self.dial().await, sql).await
    }

    /// A connection of an operator's.
    pub(crate) async fn dial(&self) -> Conn {
        dial(&self.url, Some(OPERATOR)).await
    }

    pub(crate) async fn end(mut self) {
        let name = self.name;
        let revoke = format!("REVOKE ALL ON {name}.* FROM app@'%'");
        // A test may have done so.
        let _ = self.operator.query_drop(revoke).await;
        ask(&mut self.operator, &format!("DROP DATABASE {name}")).await;
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
    assert_eq!(database.ask("SELECT version FROM distlock_schema").await, ["1"]);
    for left in ["SELECT id FROM distlock_sessions", "SELECT number FROM distlock_entries"] {
        assert!(database.ask(left).await.is_empty(), "{left}");
    }
    database.end().await;
}

/// What is printed for operators is what a client makes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_an_operator_has_made_will_do() {
    let mut database = Database::new().await;
    database.ask(distlock::mysql::schema()).await;
    let name = database.name.clone();
    ask(
        &mut database.operator,
        &format!("REVOKE ALL ON {name}.* FROM app@'%'; GRANT CREATE ON {name}.* TO app@'%'"),
    )
    .await;
    let error = database.client().await.expect_err("it may not use them");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    for table in ["sessions", "queues", "entries", "data", "schema"] {
        let grant =
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.distlock_{table} TO app@'%'");
        ask(&mut database.operator, &grant).await;
    }
    ask(&mut database.operator, &format!("REVOKE CREATE ON {name}.* FROM app@'%'")).await;
    let client = database.client().await.expect("connected");
    client.mutex("a").lock().await.expect("granted").unlock().await.expect("released");
    client.close().await.expect("closed");
    for table in ["sessions", "queues", "entries", "data", "schema"] {
        let revoke = format!("REVOKE ALL ON {name}.distlock_{table} FROM app@'%'");
        ask(&mut database.operator, &revoke).await;
    }
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_another_version_are_refused_by_name() {
    let database = Database::new().await;
    database.client().await.expect("connected").close().await.expect("closed");
    database.ask("UPDATE distlock_schema SET version = 2").await;
    let error = database.client().await.expect_err("it does not know them");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(told(&error).contains("version 2"), "{}", told(&error));
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_build_takes_the_tables_from_clients_that_are_connected() {
    let database = Database::new().await;
    let change = Change {
        version: "SELECT version FROM distlock_schema",
        begin: &[
            "UPDATE distlock_schema SET version = version + 1",
            "RENAME TABLE distlock_sessions TO distlock_sessions_of_before",
        ],
        undo: &[
            "RENAME TABLE distlock_sessions_of_before TO distlock_sessions",
            "UPDATE distlock_schema SET version = version - 1",
        ],
        lives: |session| {
            format!(
                "SELECT id FROM distlock_sessions_of_before WHERE id = {session} AND expires > \
                 TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
            )
        },
        entries: "SELECT CONCAT(queue, number, label) FROM distlock_entries ORDER BY number",
    };
    change.is_noticed(&database.url).await;
    database.end().await;
}

#[tokio::test]
async fn a_url_without_a_database_is_refused_before_anything_is_sent() {
    let error = Client::connect("mysql://192.0.2.1").await.expect_err("there is no database");
    assert!(matches!(error, Error::InvalidConfig { option: "url", .. }), "{error:?}");
}

/// A server of its own: whether it can be written to is the same for all who use it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_becomes_read_only_is_refused_by_name() {
    drop(Mysql::start().await);
    let own = OwnServer::start(
        "mysql",
        &["--publish=127.0.0.1::3306", "--env=MYSQL_DATABASE=distlock"],
        &["--innodb-flush-log-at-trx-commit=0"],
    )
    .await;
    let address = own.address(3306).await;
    let operate = async |sql: &str| {
        let sql = format!("--execute={sql}");
        own.run(&["mariadb", "--skip-ssl", "--user=root", "--password=root", &sql]).await
    };
    let url = format!("mysql://app:apppw@{address}/distlock");
    let as_root = format!("mysql://root:root@{address}/distlock");
    eventually(SOON * 5, "it lets clients in", async || Client::connect(&as_root).await.is_ok())
        .await;
    operate("CREATE USER app@'%' IDENTIFIED BY 'apppw'; GRANT ALL ON distlock.* TO app@'%'").await;
    let builder = Client::builder(&url).session_ttl(Duration::from_secs(30));
    let client = builder.request_timeout(Duration::from_secs(1)).connect().await;
    let client = client.expect("connected");
    let guard = client.mutex("a").lock().await.expect("granted");
    operate("SET GLOBAL read_only = ON").await;
    let tried = within(SOON, "an answer", client.mutex("b").try_lock()).await;
    let error = tried.expect_err("nothing can be written");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let error = Client::builder(&url)
        .connect_timeout(Duration::from_secs(2))
        .connect()
        .await
        .expect_err("nothing can be written");
    assert!(told(&error).contains("read_only"), "{}", told(&error));
    operate("SET GLOBAL read_only = OFF").await;
    eventually(SOON, "it can be written to again", async || {
        client.mutex("b").try_lock().await.is_ok_and(|guard| guard.is_some())
    })
    .await;
    assert!(guard.is_valid(), "its session outlived that");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
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
        database.ask("UPDATE distlock_queues SET used = used - 172800000000").await;
        let other = database.client().await.expect("connected");
        eventually(SOON, &format!("queues are put away, {round}"), async || {
            database.ask("SELECT queue FROM distlock_queues").await.is_empty()
        })
        .await;
        other.close().await.expect("closed");
    }
    client.close().await.expect("closed");
    database.end().await;
}

/// They are written so that nothing of them gets out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_with_quotes_are_names() {
    let database = Database::new().await;
    let namespace = "/it's\\'a\\--$$;";
    let connect = || Client::builder(&database.url).namespace(namespace).connect();
    let client = connect().await.expect("connected");
    let other = connect().await.expect("connected");
    let guard = client.mutex("'; DROP TABLE distlock_entries; --\\").lock().await.expect("granted");
    let key = "/it's\\data'\\";
    guard.put(key, "it's\\").await.expect("written");
    assert!(other.mutex(guard.name()).try_lock().await.expect("an answer").is_none());
    assert_eq!(client.locks().await.expect("an answer").len(), 1);
    let waiter = other.mutex(guard.name());
    let waiter = tokio::spawn(async move { waiter.lock().await });
    guard.unlock().await.expect("released");
    let next = within(SOON, "it has its turn", waiter).await.expect("no panic").expect("granted");
    next.unlock().await.expect("released");
    assert_eq!(database.ask("SELECT value FROM distlock_data").await, ["it's\\"]);
    database.end().await;
}

/// Somebody else's transaction is in the way of the second write, for longer than it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_what_is_refused_half_way_nothing_is_done() {
    let database = Database::new().await;
    let client = database.client().await.expect("connected");
    let guard = client.mutex("a").lock().await.expect("granted");
    guard.put("/data/second", "before").await.expect("written");
    let mut other = dial(&database.url, Some(OPERATOR)).await;
    let mut transaction = other.start_transaction(TxOpts::default()).await.expect("begun");
    // By its primary key: nothing around it is locked.
    let lock = "SELECT 1 FROM distlock_data WHERE dir = '/data' AND name = 'second' FOR UPDATE";
    transaction.query_drop(lock).await.expect("locked");
    let writes = [Write::put("/data/first", "after"), Write::put("/data/second", "after")];
    let written = within(SOON * 2, "an answer", guard.write(&writes)).await;
    assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
    // Whatever was left of it would be done by the next request.
    for name in ["b", "c"] {
        let other = client.mutex(name).lock().await.expect("granted");
        other.unlock().await.expect("released");
    }
    assert_eq!(database.ask("SELECT name FROM distlock_data").await, ["second"]);
    transaction.rollback().await.expect("undone");
    guard.write(&writes).await.expect("written");
    let values = "SELECT value FROM distlock_data";
    assert_eq!(database.ask(values).await, ["after", "after"]);
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    database.end().await;
}
