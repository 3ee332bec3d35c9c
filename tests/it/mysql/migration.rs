//! Tables of version 1, which are upgraded while clients of that version hold and wait.

use std::time::Duration;

use distlock::Error;
use futures_util::future::join_all;
use mysql_async::{Conn, Row, prelude::Queryable};
use tokio::time::Instant;

use crate::{
    common::{
        SOON, close,
        database::{Database, Tables},
        mysql::{NOW, OPERATOR, ask, dial},
        reason, within,
    },
    mysql::tables::Own,
};

/// The tables that a client of version 1 created.
const VERSION_1: &str = include_str!("version1.sql");

/// The TTL of its sessions.
const TTL: Duration = Duration::from_secs(3);

/// A holder and a waiter of version 1, next to a queue that has assigned many numbers.
fn held_and_awaited() -> String {
    format!(
        "UPDATE distlock_schema SET longest = 3000000; \
         INSERT INTO distlock_sessions (id, ttl, expires, server) VALUES \
         (7, 3000000, {NOW} + 3000000, ''), (8, 3000000, {NOW} + 3000000, ''); \
         INSERT INTO distlock_queues (queue, number, turn, used) VALUES \
         ('/distlock/a', 41, 1, {NOW}), ('/distlock/b', 1000, 1, {NOW}); \
         INSERT INTO distlock_entries \
         (queue, number, session, ticket, label, value, version, since) VALUES \
         ('/distlock/a', 40, 7, '00000000-0000-0000-0000-000000000001', '', 'one', 1, {NOW}), \
         ('/distlock/a', 41, 8, '00000000-0000-0000-0000-000000000002', '', 'two', 1, {NOW})"
    )
}

/// The requests of a client of version 1: renew its session, begin another session, join, leave,
/// read the queue, write, and remove expired sessions.
fn requests() -> [String; 7] {
    [
        format!(
            "UPDATE distlock_sessions SET expires = {NOW} + ttl, server = 'x', beat = 1 \
             WHERE id = 7"
        ),
        format!(
            "INSERT INTO distlock_sessions (id, ttl, expires, server, beat) \
             VALUES (9, 3000000, {NOW} + 3000000, 'x', 1)"
        ),
        format!(
            "INSERT INTO distlock_entries \
             (queue, number, session, ticket, label, value, version, since) \
             SELECT '/distlock/c', 1, 7, '00000000-0000-0000-0000-000000000003', '', '', 1, {NOW} \
             FROM distlock_queues WHERE queue = '/distlock/a' \
             AND EXISTS (SELECT 1 FROM distlock_sessions WHERE id = 7)"
        ),
        "DELETE FROM distlock_entries WHERE session = 7".to_owned(),
        "SELECT number FROM distlock_entries WHERE queue = '/distlock/a' AND number <= 41"
            .to_owned(),
        "REPLACE INTO distlock_data (dir, name, value) SELECT '/data', 'x', '1' \
         FROM distlock_sessions WHERE id = 7"
            .to_owned(),
        "SELECT version FROM distlock_schema WHERE version = 1".to_owned(),
    ]
}

/// The check of a version 1 guard within a user's transaction.
fn check() -> String {
    format!(
        "SELECT 1 FROM distlock_sessions AS s STRAIGHT_JOIN distlock_entries AS e \
         ON e.session = s.id WHERE s.id = 7 AND e.queue = '/distlock/a' AND e.number = 40 \
         AND s.expires > {NOW} LOCK IN SHARE MODE"
    )
}

/// Returns a database with tables of version 1, and a connection of a user.
async fn of_version_1() -> (Own, Conn) {
    let database = Own::new().await;
    let mut former = dial(database.url(), None).await;
    let tables: String = VERSION_1.lines().filter(|line| !line.starts_with("--")).collect();
    ask(&mut former, &tables).await;
    ask(&mut former, &held_and_awaited()).await;
    (database, former)
}

/// Returns the number of rows that a request found or changed, or 0 if it was refused.
async fn effect(former: &mut Conn, request: &str) -> u64 {
    let rows: Result<Vec<Row>, _> = former.query(request).await;
    rows.map_or(0, |rows| rows.len() as u64 + former.affected_rows())
}

/// Holders of version 1 stop within their TTL. Until then no lock is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_are_upgraded_under_connected_clients() {
    let (database, mut former) = of_version_1().await;
    assert_eq!(ask(&mut former, &check()).await, ["1"]);
    let client = database.client().await;
    let begun = Instant::now();
    for request in requests() {
        assert_eq!(effect(&mut former, &request).await, 0, "{request}");
    }
    assert_eq!(effect(&mut former, &check()).await, 0, "a version 1 check still passes");
    let guard = within(SOON + TTL, "the lock is granted", client.mutex("a").lock()).await;
    let guard = guard.expect("granted");
    assert!(begun.elapsed() >= TTL, "a holder of version 1 may hold it: {:?}", begun.elapsed());
    assert!(guard.fencing_token().as_u64() > 41, "{guard:?}");
    let other = client.mutex("b").lock().await.expect("granted");
    assert!(other.fencing_token().as_u64() > 1000, "{other:?}");
    for guard in [guard, other] {
        guard.unlock().await.expect("released");
    }
    assert!(database.ask("SELECT name FROM distlock_data").await.is_empty());
    close([client]).await;
    database.end().await;
}

/// Each client finds the changes of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_are_upgraded_by_concurrent_clients() {
    let (database, _former) = of_version_1().await;
    let clients = join_all((0..6).map(|_| database.client())).await;
    let guard = within(SOON + TTL, "the lock is granted", clients[0].mutex("a").lock()).await;
    assert!(guard.expect("granted").fencing_token().as_u64() > 41);
    close(clients).await;
    database.end().await;
}

/// A transaction that has checked a guard of version 1 writes under it until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_wait_for_transactions_that_have_checked() {
    let (database, mut former) = of_version_1().await;
    ask(&mut former, "BEGIN").await;
    assert_eq!(ask(&mut former, &check()).await, ["1"]);
    let error = database.connect().await.expect_err("a transaction holds a check");
    assert!(error.is_retryable(), "{error:?}");
    let version = "SELECT version FROM distlock_schema";
    assert_eq!(database.ask(version).await, ["1"]);
    ask(&mut former, "COMMIT").await;
    close([database.client().await]).await;
    assert_eq!(database.ask(version).await, ["2"]);
    database.end().await;
}

/// An earlier upgrade stopped between two of its steps, each of which is done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_upgrade_of_tables_is_completed() {
    for step in [
        "ALTER TABLE distlock_schema ADD COLUMN epoch BIGINT NOT NULL DEFAULT 1",
        "ALTER TABLE distlock_sessions CHANGE COLUMN server clock VARBINARY(300) NOT NULL",
    ] {
        let (database, mut former) = of_version_1().await;
        ask(&mut former, step).await;
        let client = database.client().await;
        let guard = within(SOON + TTL, "the lock is granted", client.mutex("a").lock()).await;
        guard.expect("granted").unlock().await.expect("released");
        assert_eq!(database.ask("SELECT version FROM distlock_schema").await, ["2"]);
        close([client]).await;
        database.end().await;
    }
}

/// Only a user with the right to alter the tables can upgrade them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_of_an_operator_are_named() {
    let (database, _) = of_version_1().await;
    let mut operator = dial(database.url(), Some(OPERATOR)).await;
    let (_, name) = database.url().rsplit_once('/').expect("a database");
    ask(
        &mut operator,
        &format!(
            "REVOKE ALL ON {name}.* FROM app@'%'; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.* TO app@'%'"
        ),
    )
    .await;
    let error = database.connect().await.expect_err("the user may not alter tables");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("version 1"), "{}", reason(&error));
    ask(&mut operator, &format!("GRANT ALL ON {name}.* TO app@'%'")).await;
    close([database.client().await]).await;
    database.end().await;
}
