//! Rows of unused queues.

use super::place::Own;
use crate::common::{
    SOON, close,
    database::{Database, Tables},
    eventually, locked, release, take_turn,
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
    database.ask("UPDATE distlock.schema SET tidied_at = '-infinity'").await;
    let [holder, other] = [database.client().await, database.client().await];
    let guard = locked(&holder, "held").await;
    take_turn(&other, "of late").await;
    let age = "UPDATE distlock.queues SET since = now() - interval '21 s' \
               WHERE queue LIKE '%/held'";
    database.ask(age).await;
    let left = ["/distlock/held", "/distlock/of%20late"];
    eventually(SOON, "the idle rows are removed", async || queues(&database).await == left).await;
    // The clients may have tidied the first queues before these rows existed.
    database.ask("UPDATE distlock.schema SET tidied_at = '-infinity'").await;
    database.ask("SELECT distlock.tidy()").await;
    assert_eq!(queues(&database).await, left);
    assert!(guard.is_valid());
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
