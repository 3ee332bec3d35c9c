//! Joins while nothing is granted, after the tables have come to another server.

use super::place::Own;
use crate::common::{
    SOON, close,
    database::{Database, Tables},
    eventually, locked,
    postgres::{OPERATOR, ask, dial},
    release,
};

/// Joins as the one client of the database does.
const JOIN: &str = "SELECT distlock.enqueue(id, '/distlock/a', gen_random_uuid(), 'x', '', false) \
                    FROM distlock.sessions WHERE id <> 0";
/// Removes session 0 unless it is locked, as a client does whose clock shows its end.
const END: &str = "SELECT distlock.remove(ARRAY(SELECT id FROM distlock.sessions WHERE id = 0 \
                   FOR UPDATE SKIP LOCKED), 100)";
const ZEROS: &str = "SELECT session FROM distlock.entries WHERE session = 0 \
                     UNION ALL SELECT id FROM distlock.sessions WHERE id = 0";

/// Session 0 precedes each joiner during a quarantine. An entry of it that outlives it is never
/// deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_and_the_end_of_a_quarantine_leave_no_entry_behind() {
    let database = Own::new().await;
    let client = database.client().await;
    let [joiner, sweeper] =
        [dial(database.url(), Some(OPERATOR)).await, dial(database.url(), Some(OPERATOR)).await];
    // The join is first.
    database.ask("SELECT distlock.quarantine()").await;
    ask(&joiner, "BEGIN").await;
    ask(&joiner, JOIN).await;
    ask(&sweeper, END).await;
    ask(&joiner, "COMMIT").await;
    assert_eq!(database.ask(ZEROS).await, ["0", "0"], "the quarantine goes on");
    ask(&sweeper, END).await;
    assert!(database.ask(ZEROS).await.is_empty());
    database.ask("DELETE FROM distlock.entries").await;
    // The end is first.
    database.ask("SELECT distlock.quarantine()").await;
    ask(&sweeper, "BEGIN").await;
    ask(&sweeper, END).await;
    let joining = tokio::spawn(async move { ask(&joiner, JOIN).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' \
                 AND datname = current_database()";
    eventually(SOON, "the join waits", async || database.ask(waits).await == ["1"]).await;
    ask(&sweeper, "COMMIT").await;
    joining.await.expect("no panic");
    assert!(database.ask(ZEROS).await.is_empty());
    database.ask("DELETE FROM distlock.members").await;
    let guard = locked(&client, "a").await;
    release([guard]).await;
    close([client]).await;
    database.end().await;
}
