//! Tables of version 1, which are taken over while clients of that version hold and wait.

use std::time::Duration;

use distlock::Error;
use tokio::time::Instant;
use tokio_postgres::Client as Connection;

use crate::{
    common::{
        SOON, close,
        database::{Database, Tables},
        postgres::{OPERATOR, ask, dial},
        reason, within,
    },
    postgres::tables::Own,
};

/// What a client of version 1 made first.
const VERSION_1: &str = include_str!("version1.sql");

/// How long its sessions live.
const TTL: Duration = Duration::from_secs(3);

/// A holder and a waiter of version 1, in a queue that has given many numbers before.
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

/// What a client of version 1 sends: to renew its session, to join, to look where it stands, to
/// leave, to watch, to write, and to begin another session.
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

/// The condition that a guard of version 1 gives to a transaction of the user's.
const CHECK: &str = "SELECT 1 FROM distlock.sessions AS s \
     JOIN distlock.entries AS e ON e.session = s.id \
     WHERE e.queue = '/distlock/a' AND e.number = 40 AND s.expires > clock_timestamp() \
     FOR KEY SHARE";

/// A database with those tables, and a connection of the user who owns them.
async fn of_version_1() -> (Own, Connection) {
    let database = Own::new().await;
    let former = dial(database.url(), None).await;
    former.batch_execute(VERSION_1).await.expect("made");
    former.batch_execute(HELD_AND_AWAITED).await.expect("written");
    (database, former)
}

/// Holders of the former version give up within their TTL. Until then nobody is granted anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_are_taken_from_its_clients() {
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
    assert!(ask(&former, CHECK).await.is_empty(), "no transaction of its writes");
    let guard = within(SOON + TTL, "it is granted", client.mutex("a").lock()).await;
    let guard = guard.expect("granted");
    assert!(begun.elapsed() >= TTL, "a holder of version 1 may hold it: {:?}", begun.elapsed());
    assert!(guard.fencing_token().as_u64() > 1000, "{guard:?}");
    guard.unlock().await.expect("released");
    assert_eq!(database.ask("SELECT count(*) FROM distlock.data").await, ["0"]);
    close([client]).await;
    database.end().await;
}

/// The first builds made a table without a key. One that is published without a key cannot be
/// changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_without_a_key_are_taken_over_although_they_are_published() {
    let (database, former) = of_version_1().await;
    ask(&former, "ALTER TABLE distlock.schema DROP CONSTRAINT schema_pkey").await;
    database.ask("CREATE PUBLICATION everything FOR ALL TABLES").await;
    let client = database.client().await;
    let guard = within(SOON + TTL, "it is granted", client.mutex("a").lock()).await;
    guard.expect("granted").unlock().await.expect("released");
    assert_eq!(database.ask("SELECT version FROM distlock.schema").await, ["2"]);
    close([client]).await;
    database.end().await;
}

/// A transaction that has checked a guard of version 1 writes under it until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_wait_for_transactions_that_have_checked() {
    let (database, former) = of_version_1().await;
    ask(&former, "BEGIN").await;
    assert_eq!(ask(&former, CHECK).await, ["1"]);
    let error = database.connect().await.expect_err("it is checked");
    assert!(error.is_retryable(), "{error:?}");
    let version = "SELECT version FROM distlock.schema";
    assert_eq!(database.ask(version).await, ["1"]);
    ask(&former, "COMMIT").await;
    close([database.client().await]).await;
    assert_eq!(database.ask(version).await, ["2"]);
    database.end().await;
}

/// Only their owner may change them, or an operator by the SQL that is printed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_of_an_operator_are_named() {
    let database = Own::new().await;
    let operator = dial(database.url(), Some(OPERATOR)).await;
    operator.batch_execute(VERSION_1).await.expect("made");
    let rights = "GRANT USAGE ON SCHEMA distlock TO app; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app; \
         GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distlock TO app";
    operator.batch_execute(rights).await.expect("granted");
    let error = database.connect().await.expect_err("it may not change them");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("version 1"), "{}", reason(&error));
    operator.batch_execute(distlock::postgres::schema()).await.expect("taken over");
    operator.batch_execute(rights).await.expect("granted");
    let client = database.client().await;
    client.mutex("a").lock().await.expect("granted").unlock().await.expect("released");
    close([client]).await;
    database.end().await;
}
