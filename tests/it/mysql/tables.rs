//! The tables and their databases.

use std::time::Duration;

use distlock::{Client, Error, Write};
use distlock_testkit::servers::mysql_url;
use mysql_async::{Conn, TxOpts, prelude::Queryable};

use crate::{
    common::{
        Harness, SOON,
        cases::versions::Change,
        close, connected,
        database::{Database, Dialect, Tables},
        database_cases, eventually,
        mysql::{Mysql, NOW, OPERATOR, PROGRAM, ask, dial},
        reason, refused, take_turn, throughout, within,
    },
    mysql::settings::own,
};

pub(crate) struct Own {
    operator: Conn,
    name: String,
    url: String,
}

static DIALECT: Dialect = Dialect {
    version: 2,
    prefix: "distlock_",
    empty: &["sessions", "entries"],
    queues: &["queues", "alone"],
    age: "UPDATE distlock_queues SET used = used - 172800000000; \
          UPDATE distlock_alone SET since = since - 172800000000",
    values: "SELECT value FROM distlock_data",
    name: "'; DROP TABLE distlock_entries; --\\",
    change: Change {
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
                "SELECT id FROM distlock_sessions_of_before WHERE id = {session} \
                 AND expires > {NOW}"
            )
        },
        entries: "SELECT CONCAT(queue, number, label) AS entry FROM distlock_entries \
                  UNION ALL SELECT CONCAT(queue, number, label) FROM distlock_alone \
                  WHERE session IS NOT NULL ORDER BY entry",
    },
    use_queues: |first, last| {
        format!(
            "INSERT INTO distlock_alone (queue, epoch, number, version, since) \
             SELECT CONCAT('/of late/', seq), 1, 2 * seq, 1, {NOW} FROM seq_{first}_to_{last}"
        )
    },
    dead: || {
        format!(
            "INSERT INTO distlock_sessions (id, ttl, expires, clock) \
             VALUES (7, 2000000, {NOW} + 2000000, CONCAT(@@hostname, ':', @@port))"
        )
    },
    crowd: 60_000,
    hold: |session, locks| {
        let half = locks / 2;
        let (queue, rest) =
            ("CONCAT('/distlock/crowd-', seq)", format!("seq_{}_to_{locks}", half + 1));
        let entry = format!("{session}, UUID(), '', '', 1, {NOW}");
        format!(
            "INSERT INTO distlock_alone \
             (queue, epoch, number, session, ticket, label, value, version, since) \
             SELECT {queue}, (SELECT epoch FROM distlock_schema), 2 * seq, {entry} \
             FROM seq_1_to_{half}; \
             INSERT INTO distlock_queues (queue, number, turn, used) \
             SELECT {queue}, 2 * seq + 1, 0, {NOW} FROM {rest}; \
             INSERT INTO distlock_entries \
             (queue, number, session, ticket, label, value, version, since) \
             SELECT {queue}, 2 * seq + 1, {entry} FROM {rest}"
        )
    },
    of_session: |session| {
        let locks = |table| format!("SELECT number FROM {table} WHERE session = {session}");
        format!(
            "SELECT id FROM distlock_sessions WHERE id = {session} UNION ALL {} UNION ALL {}",
            locks("distlock_alone"),
            locks("distlock_entries")
        )
    },
};

impl Database for Own {
    async fn new() -> Self {
        let shared = mysql_url();
        // The server is up.
        drop(Mysql::start().await);
        let mut operator = dial(&shared, Some(OPERATOR)).await;
        let name = format!("t_{:016x}", fastrand::u64(..));
        ask(&mut operator, &format!("CREATE DATABASE {name}; GRANT ALL ON {name}.* TO app@'%'"))
            .await;
        let (server, _) = shared.rsplit_once('/').expect("a database");
        Self { operator, url: format!("{server}/{name}"), name }
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn end(mut self) {
        let name = self.name;
        let revoke = format!("REVOKE ALL ON {name}.* FROM app@'%'");
        // A test may have revoked the rights already.
        let _ = self.operator.query_drop(revoke).await;
        ask(&mut self.operator, &format!("DROP DATABASE {name}")).await;
    }
}

impl Tables for Own {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&mut self.dial().await, sql).await
    }
}

impl Own {
    /// Returns an operator's connection.
    pub(crate) async fn dial(&self) -> Conn {
        dial(&self.url, Some(OPERATOR)).await
    }
}

database_cases! { Own,
    tables::first_client_creates_the_tables,
    tables::tables_of_another_version_are_refused_by_name,
    tables::connected_clients_notice_newer_tables,
    tables::tokens_rise_over_the_end_of_a_queue,
    tables::client_that_stays_removes_idle_queues,
    tables::many_recent_queues_do_not_block_connecting,
    tables::names_with_quotes_are_names,
    crowded_sessions::locks_of_a_dead_client_are_free_however_many,
    crowded_sessions::locks_of_a_closed_client_are_free_however_many,
}

/// The SQL printed for operators creates the same tables as a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_created_by_an_operator_are_used() {
    let mut database = Own::new().await;
    database.ask(distlock::mysql::schema()).await;
    let name = database.name.clone();
    ask(
        &mut database.operator,
        &format!("REVOKE ALL ON {name}.* FROM app@'%'; GRANT CREATE ON {name}.* TO app@'%'"),
    )
    .await;
    let error = database.connect().await.expect_err("the user has no rights");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    for table in ["sessions", "alone", "queues", "entries", "data", "schema"] {
        let grant =
            format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.distlock_{table} TO app@'%'");
        ask(&mut database.operator, &grant).await;
    }
    ask(&mut database.operator, &format!("REVOKE CREATE ON {name}.* FROM app@'%'")).await;
    let client = database.client().await;
    take_turn(&client, "a").await;
    close([client]).await;
    for table in ["sessions", "alone", "queues", "entries", "data", "schema"] {
        let revoke = format!("REVOKE ALL ON {name}.distlock_{table} FROM app@'%'");
        ask(&mut database.operator, &revoke).await;
    }
    database.end().await;
}

#[tokio::test]
async fn a_url_without_a_database_is_refused_before_anything_is_sent() {
    let error = Client::connect("mysql://192.0.2.1").await.expect_err("there is no database");
    assert!(matches!(error, Error::InvalidArgument { argument: "url", .. }), "{error:?}");
}

/// The server is the test's own, because `read_only` applies to all its users.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_becomes_read_only_is_refused_by_name() {
    let (server, as_root) = own(&[], &["--innodb-flush-log-at-trx-commit=0"]).await;
    let operate = async |sql: &str| server.own.run(&[&PROGRAM[..], &[sql]].concat()).await;
    let url = as_root.replace("root:root", "app:apppw");
    operate("CREATE USER app@'%' IDENTIFIED BY 'apppw'; GRANT ALL ON distlock.* TO app@'%'").await;
    let builder = Client::builder(&url).session_ttl(Duration::from_secs(30));
    let client = connected(builder.request_timeout(Duration::from_secs(1))).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    operate("SET GLOBAL read_only = ON").await;
    let tried = within(SOON, "a reply", client.mutex("b").try_lock()).await;
    let error = tried.expect_err("nothing can be written");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let error = refused(Client::builder(&url).connect_timeout(Duration::from_secs(2))).await;
    assert!(reason(&error).contains("read_only"), "{}", reason(&error));
    operate("SET GLOBAL read_only = OFF").await;
    eventually(SOON, "the server is writable again", async || {
        client.mutex("b").try_lock().await.is_ok_and(|guard| guard.is_some())
    })
    .await;
    assert!(guard.is_valid(), "the session was kept");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// A transaction does what a join does: it locks the queue, finds no note, and opens the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_permits_that_is_set_during_a_join_counts() {
    let database = Own::new().await;
    let client = database.client().await;
    let (jobs, queue) = (client.semaphore("jobs", 3), "'/distlock/jobs!permits'");
    let mut joining = database.dial().await;
    let lock = format!(
        "BEGIN; INSERT INTO distlock_queues (queue, number, turn, used) \
         VALUES ({queue}, 0, 1, {NOW})"
    );
    ask(&mut joining, &lock).await;
    let setting = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.set_permits(1).await }
    });
    throughout(Duration::from_millis(500), "the number is not set", async || {
        !setting.is_finished()
    })
    .await;
    let open = format!(
        "INSERT INTO distlock_alone (queue, epoch, number, version, since) \
         SELECT {queue}, epoch, 2, 1, {NOW} FROM distlock_schema WHERE id = 1; COMMIT"
    );
    ask(&mut joining, &open).await;
    within(SOON, "the number is set", setting).await.expect("no panic").expect("set");
    let acquired = within(SOON, "a reply", jobs.acquire_many(2)).await;
    assert!(matches!(acquired, Err(Error::InvalidArgument { .. })), "{acquired:?}");
    close([client]).await;
    database.end().await;
}

/// Another transaction blocks the second write for longer than the request waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partly_refused_write_changes_nothing() {
    let database = Own::new().await;
    let client = database.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    guard.put("/data/second", "before").await.expect("written");
    let mut other = database.dial().await;
    let mut transaction = other.start_transaction(TxOpts::default()).await.expect("begun");
    // A lookup by primary key locks no neighbouring rows.
    let lock = "SELECT 1 FROM distlock_data WHERE dir = '/data' AND name = 'second' FOR UPDATE";
    transaction.query_drop(lock).await.expect("locked");
    let writes = [Write::put("/data/first", "after"), Write::put("/data/second", "after")];
    let written = within(SOON * 2, "a reply", guard.write(&writes)).await;
    assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
    // The next request would commit any leftover writes.
    for name in ["b", "c"] {
        take_turn(&client, name).await;
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
