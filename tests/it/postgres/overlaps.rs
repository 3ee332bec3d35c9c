//! What two open transactions do to each other.

use std::time::{Duration, Instant};

use distlock::Client;
use futures_util::future::join_all;

use super::{
    migration::{CHECK, of_version_1},
    place::Own,
};
use crate::common::{
    SOON, Waiter, close, connected, contended,
    database::{Database, Tables},
    eventually, locked,
    postgres::{OPERATOR, ask, dial},
    queue_of, release,
    sql::filled,
    take_turn, within,
};

/// The processes that wait for a row lock.
const WAITS: &str = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                     AND datname = current_database()";

/// A deletion in progress has already read the watches. So a session that begins to watch the queue
/// waits for its end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_queue_watch_waits_for_deletions_in_progress() {
    let database = Own::new().await;
    let connect = || {
        let builder = Client::builder(database.url()).recheck_interval(Duration::from_secs(60));
        async { builder.connect().await.expect("connected") }
    };
    let [holder, waiting, one, two] =
        [connect().await, connect().await, connect().await, connect().await];
    let (guard, waiter) = contended(&holder, &waiting, "a").await;
    queue_of(&one, "a", 2).await;
    // From now on each entry is watched.
    let mut first = one.mutex("a").watch_queue().expect("a name");
    within(SOON, "the first view arrives", first.next()).await.expect("a view");
    let operator = dial(database.url(), None).await;
    let delete = "BEGIN; DELETE FROM distlock.entries WHERE number = \
                  (SELECT max(number) FROM distlock.entries)";
    operator.batch_execute(delete).await.expect("deleted");
    let mut second = two.mutex("a").watch_queue().expect("a name");
    let seen = tokio::spawn(async move {
        while let Some(entries) = second.next().await {
            if entries.len() == 1 {
                break;
            }
        }
    });
    eventually(SOON, "the second watch waits", async || !database.ask(WAITS).await.is_empty())
        .await;
    operator.batch_execute("COMMIT").await.expect("committed");
    within(SOON, "the holder alone is left", seen).await.expect("no panic");
    drop(first);
    guard.unlock().await.expect("released");
    waiter.result(SOON).await.expect_err("the waiter was evicted");
    close([holder, waiting, one, two]).await;
    database.end().await;
}

/// Runs the statement while a new queue watch locks the queue's row, and then the entries. Both use
/// the same order, so there is no deadlock.
async fn locks_the_queue_before_the_entry(database: &Own, statement: String) {
    let [watcher, other] = [dial(database.url(), None).await, dial(database.url(), None).await];
    let lock = "BEGIN; SELECT FROM distlock.queues FOR NO KEY UPDATE";
    watcher.batch_execute(lock).await.expect("locked");
    let ran = tokio::spawn(async move { other.batch_execute(&statement).await });
    eventually(SOON, "the statement waits", async || !database.ask(WAITS).await.is_empty()).await;
    let entries = "SELECT FROM distlock.entries FOR KEY SHARE NOWAIT; COMMIT";
    watcher.batch_execute(entries).await.expect("no entry is locked");
    within(SOON, "the statement continues", ran).await.expect("no panic").expect("done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_a_transaction_locks_the_queue_before_the_entry() {
    let database = Own::new().await;
    let connect = async || Client::connect(database.url()).await.expect("connected");
    let [holder, waiting] = [connect().await, connect().await];
    let (guard, waiter) = contended(&holder, &waiting, "a").await;
    let release = guard.unlock_sql().expect("a statement");
    let text = filled(release.text(), release.parameters());
    locks_the_queue_before_the_entry(&database, text).await;
    release.committed();
    waiter.granted().await.unlock().await.expect("released");
    close([holder, waiting]).await;
    database.end().await;
}

/// Covers the end of a session and the library's own statements, in which a deadlock would last for
/// the server's `deadlock_timeout`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_deletion_of_a_moved_entry_locks_the_queue_first() {
    for deletion in [
        "DELETE FROM distlock.sessions WHERE id IN (SELECT session FROM distlock.entries \
         WHERE moved)",
        "SELECT distlock.remove(ARRAY[session], 9) FROM distlock.entries WHERE moved",
        "SELECT distlock.release(session, ARRAY[queue], ARRAY[ticket]) FROM distlock.entries \
         WHERE moved",
        "SELECT distlock.leave(session, queue, ticket, label, number, NULL) \
         FROM distlock.entries WHERE moved",
    ] {
        let database = Own::new().await;
        let connect = async || Client::connect(database.url()).await.expect("connected");
        let [holder, waiting] = [connect().await, connect().await];
        let (guard, waiter) = contended(&holder, &waiting, "a").await;
        locks_the_queue_before_the_entry(&database, deletion.to_owned()).await;
        waiter.granted().await.unlock().await.expect("released");
        guard.unlock().await.ok();
        close([holder, waiting]).await;
        database.end().await;
    }
}

/// An operator evicts a dead client's lock, and does not commit for a while. The lock of another
/// dead client is granted in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_eviction_delays_the_removal_of_its_own_session_alone() {
    /// Sessions 7 and 8 hold the locks of these names.
    const HELD: &str = "INSERT INTO distlock.sessions (id, ttl, expires) \
        SELECT n, '1 day', now() + '1 day' FROM generate_series(7, 8) AS n; \
        INSERT INTO distlock.queues (queue, crowded) \
        SELECT '/distlock/' || n, true FROM generate_series(7, 8) AS n; \
        INSERT INTO distlock.entries (queue, number, session, ticket, label, value) \
        SELECT '/distlock/' || n, nextval('distlock.numbers'), n, gen_random_uuid(), '', '' \
        FROM generate_series(7, 8) AS n";
    let database = Own::new().await;
    let client = database.client().await;
    database.ask(HELD).await;
    let operator = dial(database.url(), Some(OPERATOR)).await;
    ask(&operator, "BEGIN").await;
    ask(&operator, "DELETE FROM distlock.members WHERE queue = '/distlock/7'").await;
    // As a client does that removes more entries than one request deletes.
    database.ask("UPDATE distlock.sessions SET ended = true WHERE id IN (7, 8)").await;
    take_turn(&client, "8").await;
    let dead = "SELECT id FROM distlock.sessions WHERE id IN (7, 8)";
    assert_eq!(database.ask(dead).await, ["7"]);
    ask(&operator, "COMMIT").await;
    eventually(SOON, "the session is removed", async || database.ask(dead).await.is_empty()).await;
    take_turn(&client, "7").await;
    close([client]).await;
    database.end().await;
}

/// An operator evicts a holder, and does not commit for a while. Many tasks of one client join the
/// queue in the meantime. Neither the client's other calls nor its renewals wait for the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_eviction_delays_the_joins_of_its_own_queue_alone() {
    let ttl = Duration::from_secs(2);
    let database = Own::new().await;
    let client = connected(Client::builder(database.url()).session_ttl(ttl)).await;
    let holder = database.client().await;
    let evicted = locked(&holder, "evicted").await;
    let kept = locked(&client, "kept").await;
    let operator = dial(database.url(), Some(OPERATOR)).await;
    ask(&operator, "BEGIN").await;
    ask(&operator, "DELETE FROM distlock.members WHERE queue = '/distlock/evicted'").await;
    let waiters: Vec<_> = (0..20).map(|_| Waiter::of(&client, "evicted")).collect();
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < ttl * 3 {
        let call_began = Instant::now();
        take_turn(&client, "other").await;
        times.push(call_began.elapsed());
    }
    times.sort_unstable();
    let most = times[times.len() * 9 / 10];
    assert!(most < Duration::from_millis(400), "{times:?}");
    assert!(kept.is_valid(), "the session was renewed");
    assert!(waiters.iter().all(Waiter::waits), "the eviction is not committed");
    ask(&operator, "COMMIT").await;
    join_all(waiters.into_iter().map(Waiter::served)).await;
    drop(evicted);
    release([kept]).await;
    close([client, holder]).await;
    database.end().await;
}

/// A row that a transaction has locked stays, and delays no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_row_that_is_locked_stays() {
    let database = Own::new().await;
    close([database.client().await]).await;
    let idle = "INSERT INTO distlock.queues (queue, number, since) SELECT '/old/' || n, n, \
                now() - interval '21 s' FROM generate_series(1, 9) AS n";
    database.ask(idle).await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, "BEGIN").await;
    ask(&own, "SELECT 1 FROM distlock.queues WHERE queue = '/old/7' FOR UPDATE").await;
    database.ask("UPDATE distlock.schema SET tidied_at = '-infinity'").await;
    let clients = [database.client().await, database.client().await];
    let left = "SELECT queue FROM distlock.queues";
    eventually(SOON, "the others are removed", async || database.ask(left).await == ["/old/7"])
        .await;
    database.ask("UPDATE distlock.schema SET tidied_at = '-infinity'").await;
    database.ask("SELECT distlock.tidy()").await;
    assert_eq!(database.ask(left).await, ["/old/7"]);
    ask(&own, "ROLLBACK").await;
    close(clients).await;
    database.end().await;
}

/// A queue looked idle when a client began to tidy. Before its row is locked, another client
/// watches the queue and joins it, which changes no row. The queue keeps its row: without it, the
/// next join would find an empty queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_that_is_joined_during_a_tidy_keeps_its_row() {
    const PAUSED: &str = "CREATE OR REPLACE FUNCTION distlock.wanders(moves integer, \
        since timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN \
        IF current_setting('test.paused', true) = 'yes' THEN \
            PERFORM pg_advisory_xact_lock(7); END IF; \
        RETURN moves >= 400 AND since > now() - interval '5 minutes'; END $$";
    let database = Own::new().await;
    let [holder, other] = [database.client().await, database.client().await];
    take_turn(&holder, "a").await;
    let idle = "UPDATE distlock.queues SET since = now() - interval '21 s', crowded = true, \
                lowest = number WHERE queue = '/distlock/a'";
    database.ask(idle).await;
    database.ask(PAUSED).await;
    let [pause, tidier] =
        [dial(database.url(), Some(OPERATOR)).await, dial(database.url(), Some(OPERATOR)).await];
    ask(&pause, "SELECT pg_advisory_lock(7)").await;
    ask(&tidier, "SET test.paused = 'yes'").await;
    ask(&tidier, "UPDATE distlock.schema SET tidied = '', tidied_at = '-infinity'").await;
    let tidying = tokio::spawn(async move { ask(&tidier, "SELECT distlock.tidy()").await });
    let paused = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    eventually(SOON, "the tidy has read the queues", async || database.ask(paused).await == ["1"])
        .await;
    let mut queue = other.mutex("a").watch_queue().expect("a good name");
    assert!(within(SOON, "the empty queue", queue.next()).await.expect("open").is_empty());
    let guard = locked(&holder, "a").await;
    let entries = database.ask("SELECT queue FROM distlock.entries").await;
    assert_eq!(entries, ["/distlock/a"], "the join changed the queue's row");
    ask(&pause, "SELECT pg_advisory_unlock(7)").await;
    tidying.await.expect("no panic");
    drop(queue);
    assert!(other.mutex("a").try_lock().await.expect("a reply").is_none(), "two clients hold it");
    assert!(guard.is_valid());
    release([guard]).await;
    close([holder, other]).await;
    database.end().await;
}

/// A transaction that has checked a guard of version 1 writes under it until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_wait_for_transactions_that_have_checked() {
    let (database, former) = of_version_1().await;
    ask(&former, "BEGIN").await;
    assert_eq!(ask(&former, CHECK).await, ["1"]);
    let error = database.connect().await.expect_err("a transaction holds a check");
    assert!(error.is_retryable(), "{error:?}");
    let version = "SELECT version FROM distlock.schema";
    assert_eq!(database.ask(version).await, ["1"]);
    ask(&former, "COMMIT").await;
    close([database.client().await]).await;
    assert_eq!(database.ask(version).await, ["2"]);
    database.end().await;
}
