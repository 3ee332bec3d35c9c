//! Waiting calls of one client share requests.

use tokio::task::JoinSet;

use crate::{
    common::{
        SOON, close,
        database::{Database, Tables},
        locked,
        together::{self, MANY, names},
        within,
    },
    mysql::tables::Own,
};

/// Returns the number of statements executed in this database.
async fn statements(database: &Own) -> i64 {
    let sql = "SELECT COALESCE(SUM(count_star), 0) \
               FROM performance_schema.events_statements_summary_by_digest \
               WHERE schema_name = DATABASE() AND (digest_text LIKE 'SELECT TIMESTAMPDIFF (%' \
               OR digest_text LIKE 'UPDATE `distlock\\_alone` %' \
               OR digest_text LIKE 'START TRANSACTION ; ')";
    database.ask(sql).await[0].parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_wait_share_a_request() {
    let database = Own::new().await;
    let client = database.client().await;
    locked(&client, "b").await.unlock().await.expect("released");
    let before = statements(&database).await;
    locked(&client, "b").await.unlock().await.expect("released");
    let one = statements(&database).await - before;
    let mut spent = Vec::new();
    // A lock that is held for a while is watched, and not released together with others.
    for _ in 0..5 {
        let before = statements(&database).await;
        let mut tasks = JoinSet::new();
        for name in names("a") {
            let mutex = client.mutex(name);
            tasks.spawn(async move {
                mutex.lock().await.expect("granted").unlock().await.expect("released");
            });
        }
        within(SOON, "all locks are released", tasks.join_all()).await;
        spent.push(statements(&database).await - before);
    }
    let least = spent.iter().copied().min().expect("some");
    assert!(least < one * MANY as i64 / 4, "{spent:?} for {MANY} pairs, {one} for one");
    close([client]).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_caller_gets_its_own_reply() {
    let database = Own::new().await;
    let stored = "SELECT CONCAT(queue, '/', LOWER(HEX(session)), '-', ticket, ' ', number) \
                  FROM (SELECT queue, session, ticket, number FROM distlock_entries UNION ALL \
                  SELECT queue, session, ticket, number FROM distlock_alone \
                  WHERE session IS NOT NULL) AS e";
    together::each_caller_gets_its_own_reply(&database, stored).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_lock_is_granted_to_no_other_caller() {
    let database = Own::new().await;
    together::a_held_lock_is_granted_to_no_other_caller(&database).await;
    database.end().await;
}

/// Even numbers belong to entries that are alone in their queues, which a single statement adds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tries_that_acquire_find_no_other_entry() {
    let database = Own::new().await;
    let client = database.client().await;
    for _ in 0..3 {
        let tried = within(SOON, "a reply", client.mutex("a").try_lock()).await;
        let guard = tried.expect("a reply").expect("granted");
        assert_eq!(guard.fencing_token().as_u64() % 2, 0, "{guard:?}");
        guard.unlock().await.expect("released");
    }
    close([client]).await;
    database.end().await;
}
