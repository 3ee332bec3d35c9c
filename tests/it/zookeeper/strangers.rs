//! Writes of other clients to waiters' nodes, which must not look like grants.

use std::{collections::HashSet, time::Duration};

use distlock::LockGuard;
use distlock_testkit::proxy::Mode;
use tokio::time::sleep;

use crate::common::{
    Case, SOON, Waiter, beside_others, eventually, release_both, throughout,
    zookeeper::{Setup, ZooKeeper},
};

/// The number of locks per case, all at once.
const LOCKS: usize = 50;

/// The delay of the last waiter's network.
const WAYS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(50)];

/// The waiter in the middle, to which another client writes, and how it leaves then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Middle {
    /// A foreign waiter; one transaction writes to it and deletes it.
    Transaction,
    /// A foreign waiter; two pipelined requests write to it and delete it.
    Pipelined,
    /// A waiter of ours; its client is closed.
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
        let guard = one.mutex(name(number)).lock().await.expect("a reply");
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
    // Wait until their watches are set.
    sleep(Duration::from_millis(300)).await;
    proxies.set(&Mode::Delay(way));
    for key in &middles {
        match middle {
            Middle::Transaction => {
                let mut both = raw.new_multi_writer();
                both.add_set_data(key, b"__REVOKE__", None).expect("a reply");
                both.add_delete(key, None).expect("a reply");
                both.commit().await.expect("a reply");
            }
            Middle::Pipelined => {
                let (set, deleted) =
                    (raw.set_data(key, b"__REVOKE__", None), raw.delete(key, None));
                set.await.expect("a reply");
                deleted.await.expect("a reply");
            }
            Middle::Closed => drop(raw.set_data(key, b"__REVOKE__", None).await.expect("a reply")),
        }
    }
    if middle == Middle::Closed {
        two.close().await.expect("a reply");
    }
    for second in seconds {
        second.result(SOON).await.expect_err("its client is closed");
    }
    let deleted = async || t.keys().await.len() == LOCKS * 2;
    eventually(SOON, "the middle nodes are deleted", deleted).await;
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
