//! Rows of unused queues.

use crate::{
    common::{
        SOON, close,
        database::{Database, Tables},
        eventually, locked,
        postgres::{OPERATOR, ask, dial},
        release, take_turn, within,
    },
    postgres::tables::Own,
};

const IDLE: usize = 50_000;

/// Returns a database with the tables and `IDLE` queues that are unused for a while.
async fn with_idle_queues() -> Own {
    let database = Own::new().await;
    close([database.client().await]).await;
    let sql = format!(
        "INSERT INTO distlock.queues (queue, number, since) \
         SELECT '/old/' || n, n, now() - interval '21 s' FROM generate_series(1, {IDLE}) AS n"
    );
    database.ask(&sql).await;
    database
}

async fn queues(database: &Own) -> Vec<String> {
    database.ask("SELECT queue FROM distlock.queues ORDER BY queue").await
}

/// Two clients that start at once remove all idle rows without waiting for a renewal, and keep the
/// rows in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_were_used_once_cost_no_row() {
    let database = with_idle_queues().await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, "BEGIN").await;
    ask(&own, "SELECT 1 FROM distlock.queues WHERE queue = '/old/7' FOR UPDATE").await;
    database.ask("UPDATE distlock.schema SET tidied_at = '-infinity'").await;
    let [holder, other] = [database.client().await, database.client().await];
    let guard = locked(&holder, "held").await;
    take_turn(&other, "of late").await;
    let age = "UPDATE distlock.queues SET since = now() - interval '21 s' \
               WHERE queue LIKE '%/held'";
    database.ask(age).await;
    let left = ["/distlock/held", "/distlock/of%20late", "/old/7"];
    eventually(SOON, "the idle rows are removed", async || queues(&database).await == left).await;
    // The clients may have tidied the first queues before these rows existed.
    database.ask("UPDATE distlock.schema SET tidied_at = '-infinity'").await;
    database.ask("SELECT distlock.tidy()").await;
    assert_eq!(queues(&database).await, left);
    assert!(guard.is_valid());
    ask(&own, "ROLLBACK").await;
    release([guard]).await;
    close([holder, other]).await;
    database.end().await;
}

/// All clients of a database together search for idle rows every 15 s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_looked_for_every_15_seconds() {
    let database = with_idle_queues().await;
    database.ask("UPDATE distlock.schema SET tidied = '', tidied_at = now()").await;
    let client = database.client().await;
    // The client's requests are executed in order.
    take_turn(&client, "a").await;
    assert_eq!(queues(&database).await.len(), IDLE + 1);
    close([client]).await;
    // A clock that was set back does not prevent it.
    for at in ["now() - interval '16 s'", "now() + interval '1 hour'"] {
        let last = format!("UPDATE distlock.schema SET tidied_at = {at}");
        database.ask(&last).await;
        assert_eq!(database.ask("SELECT distlock.tidy()").await, ["t"], "{at}");
        database.ask("UPDATE distlock.schema SET tidied = ''").await;
        assert_eq!(database.ask("SELECT distlock.tidy()").await, ["f"], "{at}");
    }
    // One of the first 1,000 rows was used recently.
    assert_eq!(queues(&database).await.len(), IDLE + 1 - 2 * 999);
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
