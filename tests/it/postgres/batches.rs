//! Waiting calls of one client share requests, and each call gets its own result.

use std::time::{Duration, Instant};

use distlock::Client;
use tokio::{task::JoinSet, time::sleep};

use super::place::Own;
use crate::common::{
    SOON, close,
    database::{Database, Tables},
    locked,
    postgres::{OPERATOR, ask, dial},
    sql::written,
    take_turn,
    together::{self, MANY, lock_at_once, names, unlock_at_once},
    within,
};

/// Returns the number of requests to join or to leave in this database.
async fn requests(database: &Own) -> i64 {
    let calls = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements \
                 WHERE toplevel AND dbid = (SELECT oid FROM pg_database \
                 WHERE datname = current_database()) AND (query LIKE 'WITH taken AS%' \
                 OR query LIKE 'UPDATE distlock.queues SET number%' \
                 OR query LIKE 'WITH held AS%' \
                 OR query LIKE 'SELECT part, a, b, c, d, e FROM distlock.%' \
                 OR query LIKE '%distlock.join_batch(%' \
                 OR query LIKE '%distlock.leave_batch(%')";
    database.ask(calls).await[0].parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_share_a_request() {
    let database = Own::new().await;
    database.ask("CREATE EXTENSION pg_stat_statements").await;
    let client = database.client().await;
    let mut spent = Vec::new();
    // A lock that is held for a while is watched, and not released together with others.
    for _ in 0..5 {
        let before = requests(&database).await;
        let mut tasks = JoinSet::new();
        for name in names("a") {
            let mutex = client.mutex(name);
            tasks.spawn(async move {
                mutex.lock().await.expect("granted").unlock().await.expect("released");
            });
        }
        within(SOON, "all locks are released", tasks.join_all()).await;
        spent.push(requests(&database).await - before);
    }
    let least = spent.iter().copied().min();
    assert!(least <= Some(MANY as i64), "{spent:?} for {MANY} locks and as many unlocks");
    // A single call has its own request.
    let before = requests(&database).await;
    locked(&client, "b").await.unlock().await.expect("released");
    assert_eq!(requests(&database).await - before, 2);
    close([client]).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_caller_gets_its_own_reply() {
    let database = Own::new().await;
    let stored = "SELECT queue || '/' || to_hex(session) || '-' || ticket || ' ' || number \
                  FROM distlock.members";
    together::each_caller_gets_its_own_reply(&database, stored).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_is_granted_to_no_other_caller() {
    let database = Own::new().await;
    together::a_held_lock_is_granted_to_no_other_caller(&database).await;
    database.end().await;
}

/// Two requests that insert the rows of the same queues in different orders would wait for each
/// other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_two_clients_never_wait_for_each_other() {
    let database = Own::new().await;
    let clients = [database.client().await, database.client().await];
    for round in 0..120 {
        let one = names(&format!("{round}"));
        let other: Vec<_> = one.iter().rev().cloned().collect();
        let lock = async |client: &Client, names: Vec<String>| {
            let mut tasks = JoinSet::new();
            for name in names {
                let mutex = client.mutex(name);
                tasks.spawn(async move {
                    if let Some(guard) = mutex.try_lock().await.expect("a reply") {
                        guard.unlock().await.expect("released");
                    }
                });
            }
            tasks.join_all().await;
        };
        let both = async {
            tokio::join!(lock(&clients[0], one), lock(&clients[1], other));
        };
        within(SOON, "both batches are done", both).await;
    }
    database.ask("SELECT pg_stat_force_next_flush()").await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(database.ask(deadlocks).await, ["0"]);
    close(clients).await;
    database.end().await;
}

/// The checked lock is released when the transaction ends. Neither other calls nor the session's
/// renewal wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_check_delays_its_own_release_alone() {
    let database = Own::new().await;
    let ttl = Duration::from_secs(3);
    let client = Client::builder(database.url()).session_ttl(ttl).connect().await;
    let client = client.expect("connected");
    let kept = locked(&client, "kept").await;
    // A long hold is watched: its entry has left the queue's row.
    for held in [Duration::ZERO, Duration::from_secs(1)] {
        delays_its_own_release_alone(&database, &client, held, ttl).await;
    }
    assert!(kept.is_valid(), "the session was renewed");
    kept.unlock().await.expect("released");
    close([client]).await;
    database.end().await;
}

async fn delays_its_own_release_alone(
    database: &Own,
    client: &Client,
    held: Duration,
    ttl: Duration,
) {
    let checked = locked(client, "checked").await;
    sleep(held).await;
    let own = dial(database.url(), Some(OPERATOR)).await;
    ask(&own, "BEGIN").await;
    let check = written(&checked.sql().expect("a check"));
    assert_eq!(ask(&own, &check).await, ["1"]);
    let began = Instant::now();
    let release = tokio::spawn(async move {
        // Within the request timeout, or later in the background.
        drop(checked.unlock().await);
    });
    let mut times = Vec::new();
    while began.elapsed() < ttl * 2 {
        let names = (0..8).map(|number| format!("other-{number}"));
        let call_began = Instant::now();
        let guards = lock_at_once(client, names).await;
        unlock_at_once(guards).await;
        times.push(call_began.elapsed());
    }
    times.sort_unstable();
    // These are other locks. If they waited for the transaction, each would take a request timeout.
    let most = times[times.len() * 9 / 10];
    assert!(most < Duration::from_millis(400), "{held:?}: {times:?}");
    ask(&own, "COMMIT").await;
    within(SOON, "unlock() returns", release).await.expect("no panic");
    take_turn(client, "checked").await;
}
