//! Snapshots that are older than a change of a lock: of a transaction that checks or releases it,
//! and of an unrelated one.

use futures_util::future::join_all;
use tokio_postgres::error::SqlState;

use super::place::Own;
use crate::common::{
    Harness, SOON, Waiter, beside_others, close,
    database::{Database, Tables},
    locked,
    postgres::{OPERATOR, Postgres, ask, dial},
    queue_of, release_both,
    sql::{filled, written},
    take_turn, within,
};

/// The lock's entry may move to its own row before the snapshot or after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_by_an_old_snapshot_fails() {
    beside_others::<Postgres>(async |t| {
        let (client, other) = (t.client().await, t.client().await);
        for (moved_before, moved) in [(false, false), (false, true), (true, true)] {
            let guard = locked(&client, "a").await;
            let check = written(&guard.sql().unwrap());
            let own = dial(&t.store.url(), None).await;
            let begin = async || {
                ask(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
                ask(&own, "SELECT 1").await;
            };
            if !moved_before {
                begin().await;
            }
            let waiter = moved.then(|| Waiter::of(&other, "a"));
            if moved {
                queue_of(&client, "a", 2).await;
            }
            if moved_before {
                begin().await;
            }
            within(SOON, "the lock is released", guard.unlock()).await.unwrap();
            let next = match waiter {
                Some(waiter) => waiter.result(SOON).await.unwrap(),
                None => locked(&other, "a").await,
            };
            let checked = within(SOON, "a reply", own.simple_query(&check)).await;
            let code = checked.expect_err("two would write").code().cloned();
            let failed = Some(SqlState::T_R_SERIALIZATION_FAILURE);
            assert_eq!(code, failed, "{moved_before} {moved}");
            ask(&own, "ROLLBACK").await;
            next.unlock().await.unwrap();
        }
    })
    .await;
}

/// An operator has evicted the holder since the snapshot, so the releasing statement does not find
/// the entry, either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_by_an_old_snapshot_fails() {
    beside_others::<Postgres>(async |t| {
        let (client, other) = (t.client().await, t.client().await);
        for moved in [false, true] {
            let guard = locked(&client, "a").await;
            let key = guard.key().to_owned();
            let waiter = moved.then(|| Waiter::of(&other, "a"));
            if moved {
                queue_of(&client, "a", 2).await;
            }
            let release = guard.unlock_sql().unwrap();
            let own = dial(&t.store.url(), None).await;
            ask(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
            ask(&own, "SELECT 1").await;
            t.store.delete_key(&key).await;
            let next = match waiter {
                Some(waiter) => waiter.granted().await,
                None => locked(&other, "a").await,
            };
            let text = filled(release.text(), release.parameters());
            let ran = within(SOON, "a reply", own.simple_query(&text)).await;
            let code = ran.expect_err("two would write").code().cloned();
            assert_eq!(code, Some(SqlState::T_R_SERIALIZATION_FAILURE), "{moved}");
            ask(&own, "ROLLBACK").await;
            next.unlock().await.unwrap();
        }
    })
    .await;
}

/// Opens a transaction that preserves all rows deleted later, as a dump does.
async fn snapshot(url: &str) -> tokio_postgres::Client {
    let own = dial(url, None).await;
    ask(&own, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    ask(&own, "SELECT count(*) FROM distlock.queues").await;
    own
}

/// Returns the number of table and index pages that a query reads.
async fn pages(database: &Own, query: &str) -> usize {
    let explained = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT TEXT) {query}");
    let text = database.ask(&explained).await.join("\n");
    let (_, hits) = text.split_once("shared hit=").expect("the query reads pages");
    hits.split(|letter: char| !letter.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Two clients repeatedly hand a lock over. Searches do not scan the deleted entries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn searches_stay_short_while_a_snapshot_is_open() {
    let database = Own::new().await;
    let clients = [database.client().await, database.client().await];
    take_turn(&clients[0], "a").await;
    let own = snapshot(database.url()).await;
    let takes = clients.iter().map(|client| async {
        for _ in 0..2_000 {
            take_turn(client, "a").await;
        }
    });
    join_all(takes).await;
    let guard = locked(&clients[0], "a").await;
    let waiter = Waiter::of(&clients[1], "a");
    queue_of(&clients[0], "a", 2).await;
    let dead = "SELECT count(*) FROM distlock.entries WHERE queue LIKE '%/a'";
    let ahead = "SELECT * FROM distlock.ahead('/distlock/a', 1 << 40, true)";
    let [all, some] = [pages(&database, dead).await, pages(&database, ahead).await];
    println!("{some} of {all} pages");
    assert!(some * 3 < all, "{some} of {all} pages");
    release_both(guard, waiter).await;
    ask(&own, "ROLLBACK").await;
    close(clients).await;
    database.end().await;
}

/// One client repeatedly takes an uncontended lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_of_a_queue_is_not_rewritten_forever_while_a_snapshot_is_open() {
    let database = Own::new().await;
    let client = database.client().await;
    take_turn(&client, "a").await;
    let version = "SELECT ctid FROM distlock.queues WHERE queue = '/distlock/a'";
    let own = snapshot(database.url()).await;
    let operator = dial(database.url(), Some(OPERATOR)).await;
    let written = async |turns: usize| {
        let (mut versions, mut last) = (0, String::new());
        for _ in 0..turns {
            take_turn(&client, "a").await;
            let now = ask(&operator, version).await.remove(0);
            versions += usize::from(now != last);
            last = now;
        }
        versions
    };
    let first = written(1_000).await;
    let next = written(500).await;
    println!("{first} versions in 1000 turns, {next} in the next 500");
    // The version that is read first, and one for each thousand tokens.
    assert!(next <= 2, "{next} versions");
    // After the snapshot's end and a pause, the entry is stored in the queue's row again.
    ask(&own, "ROLLBACK").await;
    let late = "UPDATE distlock.queues SET since = now() - interval '6 min' \
                WHERE queue = '/distlock/a'";
    database.ask(late).await;
    let before = database.ask(version).await;
    take_turn(&client, "a").await;
    assert_ne!(database.ask(version).await, before);
    let crowded = "SELECT crowded FROM distlock.queues WHERE queue = '/distlock/a'";
    assert_eq!(database.ask(crowded).await, ["f"]);
    close([client]).await;
    database.end().await;
}
