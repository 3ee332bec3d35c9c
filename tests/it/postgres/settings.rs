//! Settings of a server, a role or a database that must not affect locks.

use std::time::Duration;

use distlock::{Client, Error};
use tokio::time::sleep;

use super::place::Own;
use crate::common::{
    SOON, Waiter, close, connected, contended,
    database::{Database, Tables},
    eventually, locked,
    postgres::{OPERATOR, ask, dial},
    queue_of, reason, release, release_both,
    sql::{filled, written},
    within,
};

/// One client releases the lock, for which the other one waits.
pub(super) async fn is_handed_over(one: &Client, two: &Client, in_time: Duration) {
    let (guard, waiter) = contended(one, two, "handed").await;
    queue_of(one, "handed", 2).await;
    // Wait until the waiter watches.
    sleep(Duration::from_millis(200)).await;
    within(SOON, "the lock is released", guard.unlock()).await.expect("released");
    let next = waiter.result(in_time).await.expect("granted");
    next.unlock().await.expect("released");
}

/// The transaction began while the session had time left. The entry is in the queue's row, or in
/// its own row if another client waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_counts_by_the_clock_at_that_moment() {
    let database = Own::new().await;
    let [client, other] = [database.client().await, database.client().await];
    for is_awaited in [false, true] {
        let guard = locked(&client, "a").await;
        let waiter = is_awaited.then(|| Waiter::of(&other, "a"));
        if is_awaited {
            queue_of(&client, "a", 2).await;
        }
        let check = written(&guard.sql().expect("a check"));
        let own = dial(database.url(), Some(OPERATOR)).await;
        ask(&own, "BEGIN").await;
        assert_eq!(ask(&own, "SELECT 1 WHERE now() = now()").await, ["1"]);
        let ends = "UPDATE distlock.sessions SET expires = clock_timestamp() + interval '100 ms'";
        // Renewals wait for the end of the transaction.
        ask(&own, ends).await;
        sleep(Duration::from_millis(200)).await;
        assert!(ask(&own, &check).await.is_empty(), "the session has expired");
        ask(&own, "ROLLBACK").await;
        release([guard]).await;
        if let Some(waiter) = waiter {
            waiter.served().await;
        }
    }
    close([client, other]).await;
    database.end().await;
}

/// The state after `pg_dump --schema-only`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_without_rows_are_filled_again() {
    let database = Own::new().await;
    let client = database.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let token = guard.fencing_token();
    guard.unlock().await.expect("released");
    let dumped = "TRUNCATE distlock.schema; ALTER SEQUENCE distlock.numbers RESTART";
    database.ask(dumped).await;
    let error = database.connect().await.expect_err("a session exists");
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    client.close().await.expect("closed");
    let client = database.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    assert!(guard.fencing_token() > token, "{} after {token}", guard.fencing_token());
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    database.end().await;
}

/// The rights that docs.rs lists for operators, where `PUBLIC` may not execute functions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_in_the_docs_suffice() {
    let database = Own::new().await;
    database.ask("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC").await;
    database.ask(distlock::postgres::schema()).await;
    database
        .ask(
            "GRANT USAGE ON SCHEMA distlock TO app; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app; \
             GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distlock TO app; \
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA distlock TO app",
        )
        .await;
    let client = database.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let role = format!("checks_{:016x}", fastrand::u64(..));
    database
        .ask(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA distlock TO {role}; \
             GRANT EXECUTE ON FUNCTION distlock.held(text, bigint) TO {role}; \
             GRANT SELECT, UPDATE (ttl) ON distlock.sessions TO {role}; \
             GRANT SELECT, UPDATE (since) ON distlock.queues TO {role}; \
             GRANT SELECT, UPDATE (since) ON distlock.entries TO {role}"
        ))
        .await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, &format!("SET ROLE {role}")).await;
    assert_eq!(ask(&own, &written(&guard.sql().expect("a check"))).await, ["1"]);
    drop(own);
    database.ask(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    let waiter = Waiter::of(&client, "a");
    queue_of(&client, "a", 2).await;
    let release = guard.unlock_sql().expect("a statement");
    database
        .ask(&format!(
            "CREATE ROLE {role}; GRANT USAGE ON SCHEMA distlock TO {role}; \
             GRANT EXECUTE ON FUNCTION distlock.unlock(text, bigint), \
             distlock.notify(text, bigint, text) TO {role}; \
             GRANT SELECT ON distlock.sessions TO {role}; \
             GRANT SELECT, UPDATE (session, crowded) ON distlock.queues TO {role}; \
             GRANT SELECT, DELETE ON distlock.entries, distlock.watches TO {role}"
        ))
        .await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, &format!("SET ROLE {role}")).await;
    assert_eq!(ask(&own, &filled(release.text(), release.parameters())).await, ["1"]);
    release.committed();
    let alone = waiter.granted().await.unlock_sql().expect("a statement");
    assert_eq!(ask(&own, &filled(alone.text(), alone.parameters())).await, ["1"]);
    alone.committed();
    drop(own);
    database.ask(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
    client.close().await.expect("closed");
    database.end().await;
}

/// A release before a waiter is flushed, whatever the transaction's setting. Otherwise the setting
/// does not change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_in_a_transaction_is_flushed_where_others_wait() {
    let database = Own::new().await;
    let client = database.client().await;
    let own = dial(database.url(), None).await;
    for (waits, set, becomes) in
        [(false, "off", "off"), (false, "on", "on"), (true, "off", "on"), (true, "local", "local")]
    {
        let guard = locked(&client, "a").await;
        let waiter = waits.then(|| Waiter::of(&client, "a"));
        if waits {
            queue_of(&client, "a", 2).await;
        }
        let release = guard.unlock_sql().expect("a statement");
        ask(&own, &format!("BEGIN; SET LOCAL synchronous_commit = {set}")).await;
        assert_eq!(ask(&own, &filled(release.text(), release.parameters())).await, ["1"]);
        assert_eq!(ask(&own, "SHOW synchronous_commit").await, [becomes], "{waits}");
        ask(&own, "COMMIT").await;
        release.committed();
        if let Some(waiter) = waiter {
            waiter.granted().await.unlock().await.expect("released");
        }
    }
    client.close().await.expect("closed");
    drop(own);
    database.end().await;
}

/// The short limit for locked rows does not apply to the commit, which may have to wait for the
/// commits of other notifications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limit_for_locked_rows_ends_before_the_commit() {
    let database = Own::new().await;
    let client = database.client().await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    for call in [
        "distlock.leave_within(s.id, '/distlock/a', gen_random_uuid(), '', NULL, NULL, 7)",
        "distlock.enqueue_within(s.id, '/distlock/a', gen_random_uuid(), '', '', false, 7)",
    ] {
        let text = format!(
            "SET lock_timeout = 5000; SELECT count(*) FROM distlock.sessions AS s, {call}; \
             SHOW lock_timeout"
        );
        assert_eq!(ask(&own, &text).await.last().map(String::as_str), Some("5s"), "{call}");
    }
    close([client]).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_database_end_no_connection() {
    let database = Own::new().await;
    for limit in ["idle_session_timeout", "transaction_timeout"] {
        database
            .ask(&format!(
                "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {limit} = 700', \
                 current_database()); END $$"
            ))
            .await;
    }
    let client = database.client().await;
    let before = database.connections().await;
    assert_eq!(before.len(), 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(database.connections().await, before, "the client has reconnected");
    client.close().await.expect("closed");
    database.end().await;
}

/// Without triggers no client is notified, and a session's entries outlive it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triggers_are_turned_on_or_the_setting_is_named() {
    let database = Own::new().await;
    database.client().await.close().await.expect("closed");
    database
        .ask(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role \
             = replica', current_database()); END $$",
        )
        .await;
    let error = database.connect().await.expect_err("the user may not change the setting");
    assert!(reason(&error).contains("session_replication_role"), "{error:?}");
    let superuser = database.url().replace("app:apppw@", "postgres:postgres@");
    let builder = || Client::builder(&superuser);
    let (one, two) = (connected(builder()).await, connected(builder()).await);
    is_handed_over(&one, &two, Duration::from_secs(5)).await;
    close([one, two]).await;
    database.end().await;
}

/// Many load balancers drop connections that are silent for a minute.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_with_a_watch_is_pinged() {
    let database = Own::new().await;
    let connect = |owner: &str| {
        let ttl = Duration::from_secs(90);
        connected(Client::builder(database.url()).session_ttl(ttl).owner(owner))
    };
    let [holder, waiting, idle] =
        [connect("one").await, connect("two").await, connect("three").await];
    let (guard, waiter) = contended(&holder, &waiting, "a").await;
    let pings = || database.connections_after("SELECT 1");
    // The holder watches its own key, and the waiter the holder's. The third client watches
    // nothing.
    let soon = Duration::from_secs(17);
    eventually(soon, "their connections are pinged", async || pings().await == 2).await;
    release_both(guard, waiter).await;
    close([holder, waiting, idle]).await;
    database.end().await;
}
