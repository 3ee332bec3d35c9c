//! What strangers do to the nodes of waiters proves nothing of who holds the lock.

use std::{collections::HashSet, time::Duration};

use distlock::LockGuard;
use distlock_testkit::proxy::Mode;
use tokio::time::sleep;

use crate::common::{
    Case, SOON, Waiter, beside_others, eventually, release_both, throughout,
    zookeeper::{Setup, ZooKeeper},
};

/// How many locks each of these is tried on, side by side.
const LOCKS: usize = 50;

/// How far the waiter behind is away.
const WAYS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(50)];

/// The waiter in the middle, to which somebody writes, and how it goes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    /// Another client's; one transaction writes to it and deletes it.
    Transaction,
    /// Another client's; it is written to and deleted by two requests in one flight.
    Pipelined,
    /// Ours; its client is closed.
    Closed,
}

async fn a_written_middle_goes<const KIND: usize>(
    t: &Case<Setup<KIND>>,
    middle: Middle,
    way: Duration,
) {
    let (zookeeper, [one, two]) = (&t.store, t.clients().await);
    let raw = zookeeper.client();
    let proxies = t.proxies().await;
    let three = t.connect(t.builder_for(&proxies.url())).await;
    let name = |number: usize| format!("{middle:?}-{}-{number}", way.as_millis()).to_lowercase();
    let (mut guards, mut middles) = (Vec::new(), Vec::new());
    for number in 0..LOCKS {
        let guard = one.mutex(name(number)).lock().await.expect("answered");
        let (directory, _) = guard.key().rsplit_once('/').expect("a path");
        if middle != Middle::Closed {
            let prefix = format!("{directory}/_c_0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10-lock-");
            middles.push(zookeeper.stranger(&prefix, b"").await);
        }
        guards.push(guard);
    }
    let count = if middle == Middle::Closed { LOCKS } else { 0 };
    let seconds: Vec<_> = (0..count).map(|number| Waiter::of(&two, &name(number))).collect();
    t.queue_of(LOCKS * 2).await;
    if middle == Middle::Closed {
        let held: HashSet<_> = guards.iter().map(LockGuard::key).collect();
        middles = t.keys().await.into_iter().filter(|key| !held.contains(&**key)).collect();
    }
    let waiters: Vec<_> = (0..LOCKS).map(|number| Waiter::of(&three, &name(number))).collect();
    t.queue_of(LOCKS * 3).await;
    // They have their watches.
    sleep(Duration::from_millis(300)).await;
    proxies.set(&Mode::Delay(way));
    for key in &middles {
        match middle {
            Middle::Transaction => {
                let mut both = raw.new_multi_writer();
                both.add_set_data(key, b"__REVOKE__", None).expect("answered");
                both.add_delete(key, None).expect("answered");
                both.commit().await.expect("answered");
            }
            Middle::Pipelined => {
                let (set, deleted) =
                    (raw.set_data(key, b"__REVOKE__", None), raw.delete(key, None));
                set.await.expect("answered");
                deleted.await.expect("answered");
            }
            Middle::Closed => drop(raw.set_data(key, b"__REVOKE__", None).await.expect("answered")),
        }
    }
    if middle == Middle::Closed {
        two.close().await.expect("answered");
    }
    for second in seconds {
        second.result(SOON).await.expect_err("its client is closed");
    }
    let gone = async || t.keys().await.len() == LOCKS * 2;
    eventually(SOON, "those in the middle are gone", gone).await;
    throughout(Duration::from_millis(300) + way * 6, "each lock has one holder", async || {
        guards.iter().all(LockGuard::is_valid) && waiters.iter().all(Waiter::waits)
    })
    .await;
    proxies.set(&Mode::Pass);
    for (guard, waiter) in guards.into_iter().zip(waiters) {
        release_both(guard, waiter).await;
    }
}

async fn at_all_distances(middle: Middle) {
    for way in WAYS {
        beside_others::<ZooKeeper>(async |t| a_written_middle_goes(t, middle, way).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_waiter_written_to_and_deleted_at_once_grants_nothing() {
    at_all_distances(Middle::Transaction).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_waiter_written_to_and_then_deleted_grants_nothing() {
    at_all_distances(Middle::Pipelined).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_written_to_whose_client_is_closed_grants_nothing() {
    at_all_distances(Middle::Closed).await;
}
