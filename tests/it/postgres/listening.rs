//! A notification of PostgreSQL wakes every listening session of the database, so a session without
//! watches does not listen.

use std::time::Duration;

use distlock::Client;
use tokio::time::sleep;

use crate::{
    common::{
        SOON, close, contended,
        database::{Database, Tables},
        eventually,
        postgres::dial,
        queue_of, release_both,
        sql::filled,
        take_turn, within,
    },
    postgres::tables::Own,
};

/// The processes that wait for a row lock.
const WAITS: &str = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                     AND datname = current_database()";

/// Returns the number of sessions that have begun or ceased to listen at least `times` times.
async fn sessions(database: &Own, what: &str, times: u32) -> usize {
    let calls = format!(
        "SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '{what} distlock%' \
         AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         GROUP BY query HAVING sum(calls) >= {times}"
    );
    database.ask(&calls).await.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_sessions_that_watch_listen() {
    let database = Own::new().await;
    database.ask("CREATE EXTENSION pg_stat_statements").await;
    // The recheck interval is too long to matter here, so grants come from notifications.
    let connect = || {
        let builder = Client::builder(database.url()).recheck_interval(Duration::from_secs(60));
        async { builder.connect().await.expect("connected") }
    };
    let [holder, waiting, idle] = [connect().await, connect().await, connect().await];
    for client in [&holder, &waiting, &idle] {
        take_turn(client, "a").await;
    }
    assert_eq!(sessions(&database, "LISTEN", 1).await, 0, "no session has watched anything");
    for round in 1..=2 {
        let (guard, waiter) = contended(&holder, &waiting, "a").await;
        queue_of(&idle, "a", 2).await;
        // The holder watches its own key, and the waiter the holder's.
        let listen = async || sessions(&database, "LISTEN", round).await == 2;
        eventually(SOON, "both listen", listen).await;
        sleep(Duration::from_millis(200)).await;
        release_both(guard, waiter).await;
        let end = async || sessions(&database, "UNLISTEN", round).await == 2;
        eventually(SOON, "neither listens", end).await;
    }
    close([holder, waiting, idle]).await;
    database.end().await;
}

/// Watches begin and end all the time, and a watch that ends with a notification has no other
/// check.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_notification_is_lost_as_listening_begins_and_ends() {
    let database = Own::new().await;
    let connect = || {
        let builder = Client::builder(database.url()).recheck_interval(Duration::from_secs(60));
        async { builder.connect().await.expect("connected") }
    };
    let [one, two] = [connect().await, connect().await];
    // Around the time when a session ceases to listen.
    for pause in [0, 1, 3, 1990, 1995, 2000, 2003, 2010] {
        let (guard, waiter) = contended(&one, &two, "a").await;
        sleep(Duration::from_millis(fastrand::u64(..20))).await;
        release_both(guard, waiter).await;
        sleep(Duration::from_millis(pause)).await;
    }
    close([one, two]).await;
    database.end().await;
}

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
