//! A check in a transaction of a user's whose snapshot is older than the release of the lock.

use tokio_postgres::error::SqlState;

use crate::common::{
    Harness, SOON, Waiter, beside_others, locked,
    postgres::{Postgres, ask, dial},
    queue_of,
    sql::{filled, written},
    within,
};

/// Wherever the lock's entry was stored when the snapshot was taken, and when it was released.
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
            within(SOON, "it lets go", guard.unlock()).await.unwrap();
            let next = match waiter {
                Some(waiter) => waiter.result(SOON).await.unwrap(),
                None => locked(&other, "a").await,
            };
            let checked = within(SOON, "an answer", own.simple_query(&check)).await;
            let code = checked.expect_err("two would write").code().cloned();
            let failed = Some(SqlState::T_R_SERIALIZATION_FAILURE);
            assert_eq!(code, failed, "{moved_before} {moved}");
            ask(&own, "ROLLBACK").await;
            next.unlock().await.unwrap();
        }
    })
    .await;
}

/// An operator has evicted the holder since the snapshot was taken: that of the statement that
/// releases the lock does not find it there, either.
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
            let ran = within(SOON, "an answer", own.simple_query(&text)).await;
            let code = ran.expect_err("two would write").code().cloned();
            assert_eq!(code, Some(SqlState::T_R_SERIALIZATION_FAILURE), "{moved}");
            ask(&own, "ROLLBACK").await;
            next.unlock().await.unwrap();
        }
    })
    .await;
}
