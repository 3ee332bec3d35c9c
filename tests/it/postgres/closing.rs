//! A client that closes while others join the queues of its locks.

use std::time::Duration;

use futures_util::future::join_all;

use super::place::Own;
use crate::common::{
    SOON, Waiter, close,
    database::{Database, Tables},
    eventually, locked,
    postgres::{OPERATOR, ask, dial},
    queue_of,
    sql::written,
    throughout, within,
};

/// The request that ends a session, while it waits for a lock.
const WAITS: &str = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() \
                     AND wait_event_type = 'Lock' AND query LIKE '%distlock.remove%'";

/// The waiter moves the holder's entry to the table of entries after the request has chosen what to
/// delete there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entry_moved_during_close_is_deleted_with_its_session() {
    let database = Own::new().await;
    let holder = database.client().await;
    let others = join_all((0..2).map(|_| database.client())).await;
    let held = [locked(&holder, "a").await, locked(&holder, "b").await];
    let first = Waiter::of(&others[0], "a");
    queue_of(&others[1], "a", 2).await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, "BEGIN").await;
    ask(&own, "SELECT 1 FROM distlock.queues WHERE queue = '/distlock/a' FOR UPDATE").await;
    let closing = tokio::spawn(async move { holder.close().await });
    eventually(SOON, "the request waits", async || database.ask(WAITS).await.len() == 1).await;
    let second = Waiter::of(&others[1], "b");
    let moved = "SELECT 1 FROM distlock.entries WHERE queue = '/distlock/b' AND moved";
    eventually(SOON, "the holder's entry is moved", async || database.ask(moved).await.len() == 1)
        .await;
    ask(&own, "COMMIT").await;
    within(SOON, "the holder closes", closing).await.expect("the task ends").expect("closed");
    let sessions = "SELECT 1 FROM distlock.sessions";
    assert_eq!(database.ask(sessions).await.len(), others.len());
    drop(held);
    first.served().await;
    second.served().await;
    close(others).await;
    database.end().await;
}

/// The holder's session ends while it has an entry that was moved in the meantime. Its other locks
/// are checked by an open transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checked_lock_of_a_closed_session_is_kept_for_its_transaction() {
    let database = Own::new().await;
    let holder = database.client().await;
    let others = join_all((0..2).map(|_| database.client())).await;
    let held = [locked(&holder, "a").await, locked(&holder, "b").await, locked(&holder, "c").await];
    let first = Waiter::of(&others[0], "a");
    queue_of(&others[1], "a", 2).await;
    let user = dial(database.url(), None).await;
    ask(&user, "BEGIN").await;
    let check = written(&held[1].sql().expect("a check"));
    assert_eq!(ask(&user, &check).await, ["1"]);
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, "BEGIN").await;
    ask(&own, "SELECT 1 FROM distlock.queues WHERE queue = '/distlock/a' FOR UPDATE").await;
    let closing = tokio::spawn(async move { holder.close().await });
    eventually(SOON, "the request waits", async || database.ask(WAITS).await.len() == 1).await;
    let second = Waiter::of(&others[1], "c");
    let moved = "SELECT 1 FROM distlock.entries WHERE queue = '/distlock/c' AND moved";
    eventually(SOON, "the holder's entry is moved", async || database.ask(moved).await.len() == 1)
        .await;
    ask(&own, "COMMIT").await;
    let third = Waiter::of(&others[1], "b");
    throughout(Duration::from_secs(1), "the lock is checked", async || third.waits()).await;
    ask(&user, "COMMIT").await;
    within(SOON, "the holder closes", closing).await.expect("the task ends").expect("closed");
    drop(held);
    for waiter in [first, second, third] {
        waiter.served().await;
    }
    close(others).await;
    database.end().await;
}

/// One request deletes only some of the session's entries, so its row outlasts the request. A lock
/// that is alone in its queue is checked by an open transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checked_lock_of_a_crowded_session_is_kept_for_its_transaction() {
    /// As `LockGuard::sql` does, for a lock that the holder's client does not watch.
    const CHECK: &str = "SELECT 1 FROM distlock.held('/distlock/crowd-1', (SELECT number \
                         FROM distlock.queues WHERE queue = '/distlock/crowd-1'))";
    let database = Own::new().await;
    let dialect = database.dialect();
    let holder = database.client().await;
    let session = database.ask("SELECT id FROM distlock.sessions").await.remove(0);
    // Half of them are in the table of entries, of which one request deletes 5,000.
    database.ask(&(dialect.hold)(&session, 12_000)).await;
    let other = database.client().await;
    let user = dial(database.url(), None).await;
    ask(&user, "BEGIN").await;
    assert_eq!(ask(&user, CHECK).await, ["1"]);
    let closing = tokio::spawn(async move { holder.close().await });
    let begun = format!("{WAITS} UNION ALL SELECT 1 FROM distlock.sessions WHERE ended");
    eventually(SOON, "the request is sent", async || !database.ask(&begun).await.is_empty()).await;
    let waiter = Waiter::of(&other, "crowd-1");
    throughout(Duration::from_secs(1), "the lock is checked", async || waiter.waits()).await;
    ask(&user, "COMMIT").await;
    within(SOON, "the holder closes", closing).await.expect("the task ends").expect("closed");
    waiter.served().await;
    let left = database.ask(&(dialect.of_session)(&session)).await;
    assert!(left.is_empty(), "{} rows are left", left.len());
    close([other]).await;
    database.end().await;
}
