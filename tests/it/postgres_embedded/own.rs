//! What a test can do only to this PostgreSQL: replace a function or view of the server by one in
//! the schema `embedded`, which precedes `pg_catalog`, or start the server on other files.

use std::time::Duration;

use distlock::FailoverBehavior;
use tokio::time::Instant;

use super::{
    place::{self, Own},
    settings::is_handed_over,
};
use crate::common::{
    SOON, Waiter, close, connect,
    database::{Database, Tables},
    eventually, locked,
    own::TTL,
    take_turn, within,
};

/// Two servers never have the same identifier.
const OTHER_SERVER: &str = "CREATE FUNCTION embedded.pg_control_system( \
                            OUT system_identifier bigint) LANGUAGE sql AS 'SELECT 7::bigint'";

/// Another server has these tables: the copy may lack granted locks, which their holders may use
/// for a TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_with_the_tables_grants_nothing_for_a_ttl() {
    let database = Own::new().await;
    let client = connect(database.url(), TTL).await;
    take_turn(&client, "a").await;
    close([client]).await;
    database.ask(OTHER_SERVER).await;
    let began = Instant::now();
    let client = connect(database.url(), TTL).await;
    let guard = within(TTL * 3, "the lock is granted", client.mutex("a").lock()).await;
    assert!(began.elapsed() > TTL, "after {:?}", began.elapsed());
    guard.expect("granted").unlock().await.expect("released");
    close([client]).await;
    database.end().await;
}

/// The files are from a time when the lock was held, like those of a standby that has not received
/// the release.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_the_files_lack_is_repeated() {
    // Otherwise a reply may show that the release is flushed. Files without it then count as those
    // of a server that has lost confirmed writes, where nothing is granted for a TTL.
    let server = place::lazy().await;
    // No keepalive falls between the copy of the files and the restart. If the files lacked a
    // confirmed keepalive, too, the session would be lost.
    let long = Duration::from_secs(120);
    let client = connect(&server.url(), long).await;
    let guard = locked(&client, "a").await;
    server.change(|server| server.keep()).await;
    guard.unlock().await.expect("released");
    server.change(|server| server.restart_from_kept()).await;
    let guard = within(long / 2, "the lock is free", async {
        loop {
            if let Ok(guard) = client.mutex("a").lock().await {
                break guard;
            }
        }
    });
    guard.await.unlock().await.expect("released");
    close([client]).await;
}

/// The disk is full, so no expired session can be removed. A waiter behind an expired session keeps
/// querying that session, at intervals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_expired_sessions_that_fail_are_not_repeated_at_once() {
    const FULL: &str = "CREATE OR REPLACE FUNCTION distlock.sweep(ids bigint[], most integer) \
        RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
        RAISE 'no space left on device' USING ERRCODE = '53100'; END $$";
    let database = Own::new().await;
    let client = database.client().await;
    let dialect = database.dialect();
    database.ask(&(dialect.dead)()).await;
    database.ask(&(dialect.hold)("7", 2)).await;
    database.ask(FULL).await;
    let waiter = Waiter::of(&client, "crowd-1");
    let queries = async || {
        let counts = database.executed("SELECT id, CASE WHEN s.ended").await;
        counts.iter().sum::<u64>()
    };
    eventually(SOON, "the session has expired", async || queries().await > 2).await;
    let before = queries().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let more = queries().await - before;
    assert!((1..15).contains(&more), "{more} queries in 2 s");
    assert!(waiter.waits());
    waiter.cancel();
    close([client]).await;
    database.end().await;
}

/// Waiters are granted in the order of their numbers, also when these get another digit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_ordered_as_numbers() {
    let database = Own::new().await;
    let client = database.client().await;
    database.ask("ALTER SEQUENCE distlock.numbers RESTART 98").await;
    let guard = locked(&client, "a").await;
    let mut waiters = Vec::new();
    for number in 2..=5 {
        waiters.push(Waiter::of(&client, "a"));
        crate::common::queue_of(&client, "a", number).await;
    }
    guard.unlock().await.expect("released");
    for (at, waiter) in waiters.into_iter().enumerate() {
        let guard = within(SOON, "the next one is granted", waiter.granted()).await;
        assert_eq!(guard.fencing_token().as_u64(), 99 + at as u64);
        guard.unlock().await.expect("released");
    }
    close([client]).await;
    database.end().await;
}

/// One request removes a limited number of entries, so closing takes several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_has_left_all_its_queues() {
    let database = Own::new().await;
    let client = connect(database.url(), Duration::from_secs(40)).await;
    let session = database.ask("SELECT id FROM distlock.sessions").await.remove(0);
    let dialect = database.dialect();
    database.ask(&(dialect.hold)(&session, 20_000)).await;
    close([client]).await;
    assert_eq!(database.ask(&(dialect.of_session)(&session)).await, [""; 0]);
    database.end().await;
}

/// Its queue of notifications is full, and refuses each further one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_succeeds_without_room_for_its_notification() {
    let database = Own::new().await;
    let connect = async || {
        let builder = distlock::Client::builder(database.url());
        builder.recheck_interval(Duration::from_secs(1)).connect().await.expect("connected")
    };
    let clients = [connect().await, connect().await];
    database
        .ask(
            "CREATE FUNCTION embedded.pg_notification_queue_usage() RETURNS float8 \
             LANGUAGE sql AS 'SELECT 1.0::float8'; \
             CREATE FUNCTION embedded.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS \
             $$ BEGIN RAISE 'too many notifications in the NOTIFY queue' \
             USING ERRCODE = '54000'; END $$",
        )
        .await;
    is_handed_over(&clients[0], &clients[1], SOON).await;
    close(clients).await;
    database.end().await;
}

/// The settings and receivers of a server decide what a failover loses. `pg_receivewal` reports no
/// replay position, and a logical subscriber has a slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durability_follows_the_standbys_and_their_names() {
    use FailoverBehavior::{Blocks, Continues, MayLoseGrants};
    let database = Own::new().await;
    let client = database.client().await;
    database
        .ask(
            "CREATE TABLE embedded.pg_stat_replication (pid int, state text, replay_lsn pg_lsn); \
             CREATE TABLE embedded.pg_replication_slots (active_pid int, slot_type text); \
             CREATE TABLE embedded.names (waits text); \
             INSERT INTO embedded.names VALUES (''); \
             INSERT INTO embedded.pg_replication_slots VALUES (3, 'logical'); \
             CREATE OR REPLACE FUNCTION embedded.current_setting(name text) RETURNS text \
             LANGUAGE sql STABLE AS $$ SELECT CASE name WHEN 'fsync' THEN 'on' \
             WHEN 'synchronous_standby_names' THEN (SELECT waits FROM embedded.names) \
             ELSE pg_catalog.current_setting(name) END $$; \
             GRANT ALL ON ALL TABLES IN SCHEMA embedded TO PUBLIC",
        )
        .await;
    let standby = "(1, 'streaming', '0/1'::pg_lsn)";
    let stores_only = "(2, 'streaming', NULL)";
    let logical = "(3, 'streaming', '0/1')";
    let backup = "(4, 'backup', NULL)";
    for (names, receivers, promises) in [
        ("", vec![], (true, Blocks)),
        ("", vec![stores_only], (true, Blocks)),
        ("", vec![stores_only, logical, backup], (true, Blocks)),
        ("", vec![standby, logical], (false, MayLoseGrants)),
        ("*", vec![standby], (true, Continues)),
        ("*", vec![], (true, Blocks)),
    ] {
        database.ask(&format!("UPDATE embedded.names SET waits = '{names}'")).await;
        database.ask("DELETE FROM embedded.pg_stat_replication").await;
        for receiver in &receivers {
            let insert = format!("INSERT INTO embedded.pg_stat_replication VALUES {receiver}");
            database.ask(&insert).await;
        }
        let read = client.durability().await.expect("a reply");
        assert_eq!((read.exclusive, read.failover), promises, "{names:?} {receivers:?}");
    }
    close([client]).await;
    database.end().await;
}
