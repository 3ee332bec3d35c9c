//! Tables of version 1, which are upgraded while clients of that version hold and wait.

use std::time::Duration;

use distlock::Error;
use tokio::time::Instant;
use tokio_postgres::Client as Connection;

use super::place::Own;
use crate::common::{
    SOON, close,
    database::{Database, Tables},
    postgres::{OPERATOR, ask, dial},
    reason, within,
};

/// The tables that a client of version 1 created.
const VERSION_1: &str = include_str!("version1.sql");

/// The TTL of its sessions.
const TTL: Duration = Duration::from_secs(3);

/// A holder and a waiter of version 1, next to a queue that has assigned many numbers.
const HELD_AND_AWAITED: &str = "\
    UPDATE distlock.schema SET server = (SELECT system_identifier FROM pg_control_system()) || '/' \
    || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), longest = '3 s'; \
    INSERT INTO distlock.sessions (id, ttl, expires) VALUES (7, '3 s', now() + interval '3 s'), \
    (8, '3 s', now() + interval '3 s'); \
    INSERT INTO distlock.queues (queue, number, turn) VALUES ('/distlock/a', 41, 1), \
    ('/distlock/b', 1000, 1); \
    INSERT INTO distlock.entries (queue, number, session, ticket, label, value) VALUES \
    ('/distlock/a', 40, 7, '00000000-0000-0000-0000-000000000001', '', 'one'), \
    ('/distlock/a', 41, 8, '00000000-0000-0000-0000-000000000002', '', 'two')";

/// The requests of a client of version 1: renew its session, join, read the queue, leave, watch,
/// write, and begin another session.
const REQUESTS: [&str; 7] = [
    "UPDATE distlock.sessions SET expires = now() + ttl, beat = 1 WHERE id = 7 RETURNING 1",
    "SELECT distlock.enter(7, true); INSERT INTO distlock.queues AS q (queue, number, turn) \
     VALUES ('/distlock/c', 0, 1) ON CONFLICT (queue) DO UPDATE SET turn = 1, used = now()",
    "SELECT distlock.enter(8, false); SELECT number FROM distlock.entries WHERE number <= 41",
    "SELECT distlock.enter(7, true); DELETE FROM distlock.entries WHERE session = 7",
    "SELECT distlock.enter(8, true); INSERT INTO distlock.watches (queue, number, session) \
     VALUES ('/distlock/a', 40, 8)",
    "SELECT distlock.enter(7, true); INSERT INTO distlock.data (dir, name, value) \
     VALUES ('/data', 'x', '1')",
    "SELECT version FROM distlock.schema WHERE version = 1",
];

/// The check of a version 1 guard within a user's transaction.
pub(super) const CHECK: &str = "SELECT 1 FROM distlock.sessions AS s \
     JOIN distlock.entries AS e ON e.session = s.id \
     WHERE e.queue = '/distlock/a' AND e.number = 40 AND s.expires > clock_timestamp() \
     FOR KEY SHARE";

/// Returns a database with tables of version 1, and a connection of their owner.
pub(super) async fn of_version_1() -> (Own, Connection) {
    let database = Own::new().await;
    let former = dial(database.url(), None).await;
    former.batch_execute(VERSION_1).await.expect("created");
    former.batch_execute(HELD_AND_AWAITED).await.expect("written");
    (database, former)
}

/// Holders of version 1 stop within their TTL. Until then no lock is granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_are_upgraded_under_connected_clients() {
    let (database, former) = of_version_1().await;
    assert_eq!(ask(&former, CHECK).await, ["1"]);
    let client = database.client().await;
    let begun = Instant::now();
    for request in REQUESTS {
        let done = former.simple_query(request).await;
        let rows = done
            .iter()
            .flatten()
            .filter(|it| matches!(it, tokio_postgres::SimpleQueryMessage::Row(_)));
        assert_eq!(rows.count(), 0, "{request}: {done:?}");
    }
    assert!(ask(&former, CHECK).await.is_empty(), "a version 1 check still passes");
    let guard = within(SOON + TTL, "the lock is granted", client.mutex("a").lock()).await;
    let guard = guard.expect("granted");
    assert!(begun.elapsed() >= TTL, "a holder of version 1 may hold it: {:?}", begun.elapsed());
    assert!(guard.fencing_token().as_u64() > 1000, "{guard:?}");
    guard.unlock().await.expect("released");
    assert_eq!(database.ask("SELECT count(*) FROM distlock.data").await, ["0"]);
    close([client]).await;
    database.end().await;
}

/// The first builds created a table without a primary key. A published table without one cannot be
/// updated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_tables_of_version_1_without_a_key_are_upgraded() {
    let (database, former) = of_version_1().await;
    ask(&former, "ALTER TABLE distlock.schema DROP CONSTRAINT schema_pkey").await;
    database.ask("CREATE PUBLICATION everything FOR ALL TABLES").await;
    let client = database.client().await;
    let guard = within(SOON + TTL, "the lock is granted", client.mutex("a").lock()).await;
    guard.expect("granted").unlock().await.expect("released");
    assert_eq!(database.ask("SELECT version FROM distlock.schema").await, ["2"]);
    close([client]).await;
    database.end().await;
}

/// Only the owner may change the tables, or an operator by the printed SQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_of_an_operator_are_named() {
    let database = Own::new().await;
    let operator = dial(database.url(), Some(OPERATOR)).await;
    operator.batch_execute(VERSION_1).await.expect("created");
    let rights = "GRANT USAGE ON SCHEMA distlock TO app; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app; \
         GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distlock TO app";
    operator.batch_execute(rights).await.expect("granted");
    let error = database.connect().await.expect_err("the user does not own the tables");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("version 1"), "{}", reason(&error));
    operator.batch_execute(distlock::postgres::schema()).await.expect("upgraded");
    operator.batch_execute(rights).await.expect("granted");
    let client = database.client().await;
    client.mutex("a").lock().await.expect("granted").unlock().await.expect("released");
    close([client]).await;
    database.end().await;
}
