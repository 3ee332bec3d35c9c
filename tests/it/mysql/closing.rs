//! A client that closes while others use its rows.

use std::time::Duration;

use distlock::Client;

use crate::{
    common::{
        SOON, Waiter, close, connected,
        database::{Database, Tables},
        eventually, locked,
        mysql::{NOW, OPERATOR, ask, dial},
        queue_of, take_turn, throughout, within,
    },
    mysql::{tables::Own, transactions::executed_and_refused},
};

/// How many requests this database has had.
const REQUESTS: &str = "SELECT SUM(COUNT_STAR) \
    FROM performance_schema.events_statements_summary_by_digest WHERE SCHEMA_NAME = DATABASE()";

/// A row in use is skipped, and retried after a pause.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_is_closed_when_none_of_its_entries_are_left() {
    let database = Own::new().await;
    let [holder, other] = [database.client().await, database.client().await];
    let held = [locked(&holder, "a").await, locked(&holder, "b").await];
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "BEGIN").await;
    ask(&mut own, "SELECT 1 FROM distlock_alone WHERE queue = '/distlock/a' FOR UPDATE").await;
    let closing = tokio::spawn(async move { holder.close().await });
    let ended = "SELECT 1 FROM distlock_sessions WHERE expires = 0";
    eventually(SOON, "the holder's session ends", async || database.ask(ended).await.len() == 1)
        .await;
    Waiter::of(&other, "b").served().await;
    let mut operator = dial(database.url(), Some(OPERATOR)).await;
    let mut requests =
        async || ask(&mut operator, REQUESTS).await[0].parse::<u64>().expect("a number");
    let before = requests().await;
    throughout(Duration::from_millis(500), "the client is not closed yet", async || {
        !closing.is_finished()
    })
    .await;
    let asked = requests().await - before;
    assert!(asked < 100, "{asked} requests, without a pause");
    ask(&mut own, "ROLLBACK").await;
    within(SOON, "the holder closes", closing).await.expect("the task ends").expect("closed");
    assert_eq!(database.ask("SELECT 1 FROM distlock_sessions").await.len(), 1);
    drop(held);
    Waiter::of(&other, "a").served().await;
    close([other]).await;
    database.end().await;
}

/// A transaction that has released a lock stays open, and the client closes. Neither the end of its
/// session nor the requests of other clients wait for that transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_release_of_an_ended_session_keeps_no_other_call_waiting() {
    let database = Own::new().await;
    let [holder, other] = [database.client().await, database.client().await];
    let held = locked(&holder, "b").await;
    let release = locked(&holder, "a").await.unlock_sql().expect("a statement");
    let mut own = dial(database.url(), None).await;
    ask(&mut own, "BEGIN").await;
    ask(&mut own, release.text()).await;
    let closing = tokio::spawn(async move { holder.close().await });
    let ended = "SELECT 1 FROM distlock_sessions WHERE expires = 0";
    eventually(SOON, "the holder's session ends", async || database.ask(ended).await.len() == 1)
        .await;
    Waiter::of(&other, "b").served().await;
    // Each of these requests first removes ended sessions.
    for _ in 0..3 {
        other.mutex("c").queue().await.expect("a reply");
    }
    assert!(!closing.is_finished(), "the transaction is open");
    ask(&mut own, "COMMIT").await;
    within(SOON, "the holder closes", closing).await.expect("the task ends").expect("closed");
    drop((held, release));
    Waiter::of(&other, "a").served().await;
    close([other]).await;
    database.end().await;
}

/// A transaction has locked the row of a dead holder's session. The polls of the session's waiters
/// skip it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_session_keeps_no_other_call_waiting() {
    const TTL: Duration = Duration::from_secs(4);
    let database = Own::new().await;
    let client = connected(Client::builder(database.url()).session_ttl(TTL)).await;
    let dialect = database.dialect();
    database.ask(&(dialect.dead)()).await;
    database.ask(&(dialect.hold)("7", 2)).await;
    let mut own = database.dial().await;
    ask(&mut own, "BEGIN").await;
    ask(&mut own, "SELECT 1 FROM distlock_sessions WHERE id = 7 FOR UPDATE").await;
    let guard = locked(&client, "a").await;
    // In each of the tables.
    let waiters = ["crowd-1", "crowd-2"].map(|name| Waiter::of(&client, name));
    throughout(TTL * 2, "the dead session's locks are taken", async || {
        within(TTL / 2, "other calls are served", take_turn(&client, "b")).await;
        guard.is_valid() && waiters.iter().all(|waiter| waiter.waits())
    })
    .await;
    let [executed, refused] = executed_and_refused(&database).await;
    assert!(!executed.is_empty() && refused.is_empty(), "{refused:?} of {executed:?}");
    ask(&mut own, "ROLLBACK").await;
    for waiter in waiters {
        waiter.served().await;
    }
    guard.unlock().await.expect("released");
    close([client]).await;
    database.end().await;
}

/// Session 0 has ended, and its row stays for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_quarantine_keeps_no_client_from_joining() {
    const WAITERS: usize = 3;
    let database = Own::new().await;
    let [client, other] = [database.client().await, database.client().await];
    // A locked row cannot be removed, and its session stays with it.
    let mut operator = database.dial().await;
    let quarantine = format!(
        "BEGIN; INSERT INTO distlock_sessions (id, ttl, expires, clock) \
         VALUES (0, 2000000, 0, ''); INSERT INTO distlock_entries \
         (queue, number, session, ticket, label, value, version, since) \
         VALUES ('/distlock/z', 1, 0, UUID(), 'nobody', '', 1, {NOW}); COMMIT; BEGIN; \
         SELECT 1 FROM distlock_entries WHERE queue = '/distlock/z' AND number = 1 FOR UPDATE"
    );
    ask(&mut operator, &quarantine).await;
    let guard = locked(&client, "a").await;
    let mut waiters = Vec::new();
    for waiting in 1..=WAITERS {
        waiters.push(Waiter::of(&other, "a"));
        queue_of(&client, "a", 1 + waiting).await;
    }
    let removed = "SELECT 1 FROM distlock_sessions WHERE id = 0";
    assert_eq!(database.ask(removed).await.len(), 1, "session 0 has a row");
    guard.unlock().await.expect("released");
    for waiter in waiters {
        waiter.served().await;
    }
    ask(&mut operator, "ROLLBACK").await;
    close([client, other]).await;
    database.end().await;
}
