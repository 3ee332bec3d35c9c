//! A client that closes while others use its rows.

use std::time::Duration;

use crate::{
    common::{
        SOON, Waiter, close,
        database::{Database, Tables},
        eventually, locked,
        mysql::{OPERATOR, ask, dial},
        throughout, within,
    },
    mysql::tables::Own,
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
