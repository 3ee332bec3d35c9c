//! Several locks acquired together.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use distlock::{Error, LostReason, MultiLockGuard, Write};
use tokio::{task::JoinSet, time::sleep};

use super::exclusion::Fragile;
use crate::common::{Case, SOON, eventually, locked, poll, release_both, throughout, within};

fn names(all: &MultiLockGuard) -> Vec<&str> {
    all.guards().iter().map(|guard| guard.name()).collect()
}

pub(crate) async fn free_locks_are_taken_together_and_released_together(t: &Case) {
    let [client, other] = t.clients().await;
    // More locks than fit into one request, one lock, and a few. The order is that of the keys, in
    // which `/` is escaped.
    let many: Vec<_> = (0..40).map(|n| format!("many-{n:02}")).collect();
    let (one, few) = (vec!["one".to_owned()], ["b", "a/b", "a", "c"].map(str::to_owned).to_vec());
    for (asked, sorted) in [
        (&many, many.clone()),
        (&one, one.clone()),
        (&few, ["a", "a/b", "b", "c"].map(str::to_owned).to_vec()),
    ] {
        let all =
            within(SOON, "all locks are granted", client.lock_all(asked)).await.expect("granted");
        assert_eq!(names(&all), sorted);
        assert!(all.is_valid() && all.remaining() > Duration::ZERO);
        assert_eq!(t.keys().await.len(), asked.len());
        for name in asked {
            let guard = all.get(name).expect("one of the locks");
            assert!(guard.name() == name && guard.is_valid());
        }
        assert!(all.get("another").is_none());
        // They are the same locks that a mutex acquires.
        let last = asked.last().expect("there are some");
        assert!(other.mutex(last).try_lock().await.expect("a reply").is_none());
        let waiter = t.enqueue(&other, last).await;
        assert_eq!(all.run(async { 42 }).await.expect("the locks are held"), 42);
        release_both(all, waiter).await;
        assert!(t.keys().await.is_empty());
    }
    let all = client.lock_all(["b", "a", "b"]).await.expect("a repeated name counts once");
    assert_eq!(all.guards().len(), 2);
    all.unlock().await.expect("released");
}

/// Overlapping sets are acquired in opposite orders. No deadlock and no double grant may happen.
async fn contend(t: &Case, clients: [distlock::Client; 2]) {
    let resources: Arc<[Fragile; 3]> = Arc::default();
    let mut contenders = JoinSet::new();
    let sets: [&[usize]; 4] = [&[0, 1, 2], &[2, 1, 0], &[2, 0], &[1, 2]];
    for (contender, set) in sets.into_iter().enumerate() {
        let (client, resources) = (clients[contender % 2].clone(), Arc::clone(&resources));
        contenders.spawn(async move {
            for _ in 0..20 {
                let all =
                    client.lock_all(set.iter().map(|n| format!("set-{n}"))).await.expect("granted");
                for n in set {
                    resources[*n].touch().await;
                }
                assert!(all.is_valid());
                all.unlock().await.expect("released");
            }
        });
    }
    // A contender for only one of the locks.
    let (mutex, resource) = (clients[0].mutex("set-2"), Arc::clone(&resources));
    contenders.spawn(async move {
        for _ in 0..20 {
            let guard = mutex.lock().await.expect("granted");
            resource[2].touch().await;
            guard.unlock().await.expect("released");
        }
    });
    within(SOON * 6, "all are served", contenders.join_all()).await;
    t.queue_of(0).await;
}

pub(crate) async fn overlapping_sets_never_deadlock(t: &Case) {
    contend(t, t.clients().await).await;
}

pub(crate) async fn lock_all_waits_for_the_held_lock(t: &Case) {
    let [client, other] = t.clients().await;
    for held in ["a", "b", "c"] {
        let guard = other.mutex(held).lock().await.expect("granted");
        let caller = client.clone();
        let locking = tokio::spawn(async move { caller.lock_all(["c", "b", "a"]).await });
        // It holds the locks before the held one, and none behind it.
        let before = usize::from(held != "a") + usize::from(held == "c");
        t.queue_of(1 + before + 1).await;
        throughout(Duration::from_millis(100), "the call waits", async || !locking.is_finished())
            .await;
        guard.unlock().await.expect("released");
        let all = within(SOON, "all locks are granted", locking)
            .await
            .expect("no panic")
            .expect("granted");
        assert_eq!(names(&all), ["a", "b", "c"]);
        all.unlock().await.expect("released");
    }
}

pub(crate) async fn lock_all_timeout_gives_up_in_time(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = other.mutex("b").lock().await.expect("granted");
    for timeout in [Duration::from_millis(300), Duration::ZERO] {
        let start = Instant::now();
        let none =
            within(SOON, "the timeout ends", client.lock_all_timeout(["b", "a", "c"], timeout))
                .await;
        assert!(none.expect("a reply").is_none());
        let took = start.elapsed();
        assert!(
            took >= timeout && took < timeout + Duration::from_secs(2),
            "given up after {took:?} of {timeout:?}"
        );
        eventually(SOON, "the call leaves no keys", async || t.keys().await == [guard.key()]).await;
    }
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
    let all = client
        .lock_all_timeout(["b", "a", "c"], SOON)
        .await
        .expect("a reply")
        .expect("all locks are granted");
    all.unlock().await.expect("released");
}

pub(crate) async fn try_lock_all_takes_all_or_nothing(t: &Case) {
    let [client, other] = t.clients().await;
    for held in ["a", "b", "c"] {
        let guard = other.mutex(held).lock().await.expect("granted");
        let none =
            within(SOON, "the call does not wait", client.try_lock_all(["c", "a", "b"])).await;
        assert!(none.expect("a reply").is_none());
        eventually(SOON, "the call leaves no keys", async || t.keys().await == [guard.key()]).await;
        guard.unlock().await.expect("released");
    }
    let all = client
        .try_lock_all(["c", "a", "b"])
        .await
        .expect("a reply")
        .expect("all locks are granted");
    assert!(other.try_lock_all(["c", "d"]).await.expect("a reply").is_none());
    drop(all);
    t.queue_of(0).await;
    let again =
        other.try_lock_all(["c", "d"]).await.expect("a reply").expect("all locks are granted");
    again.unlock().await.expect("released");
}

/// The call is dropped at any point: before it sends a request, while one request takes all locks,
/// or while it waits for one.
pub(crate) async fn a_dropped_lock_all_leaves_nothing(t: &Case) {
    let [client, other] = t.clients().await;
    drop(client.lock_all(["a", "b", "c"]));
    let guard = other.mutex("b").lock().await.expect("granted");
    for round in 0..20 {
        let names = if round % 2 == 0 { ["a", "b", "c"] } else { ["x", "y", "z"] };
        let locking = tokio::time::timeout(
            Duration::from_micros(fastrand::u64(..5000)),
            client.lock_all(names),
        )
        .await;
        // A call that was fast enough is released by the drop.
        drop(locking);
    }
    eventually(SOON, "the call leaves no keys", async || t.keys().await == [guard.key()]).await;
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
    // A request may have been in flight while no keys existed. Its entries are removed.
    let all = client.lock_all(["a", "b", "c", "x", "y", "z"]);
    let all = within(SOON, "all locks are granted", all).await.expect("granted");
    all.unlock().await.expect("released");
}

/// The outcome of the first request is unknown. What it may have written is deleted, and all locks
/// are acquired in the end.
pub(crate) async fn lock_all_outlasts_a_store_that_does_not_answer(t: &Case) {
    let link = t.link().await;
    let client =
        t.connect(t.builder_for(&link.url()).request_timeout(Duration::from_millis(300))).await;
    link.set_reachable(false);
    let start = Instant::now();
    let error = within(SOON, "a try does not wait", client.try_lock_all(["a", "b", "c"])).await;
    assert!(matches!(error, Err(Error::Unavailable { .. })), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "given up after {:?}", start.elapsed());
    let caller = client.clone();
    let locking = tokio::spawn(async move { caller.lock_all(["a", "b", "c"]).await });
    sleep(Duration::from_millis(700)).await;
    link.set_reachable(true);
    let all = within(SOON * 2, "all locks are granted", locking)
        .await
        .expect("no panic")
        .expect("granted");
    eventually(SOON, "only three keys are left", async || t.keys().await.len() == 3).await;
    assert!(all.is_valid());
    all.unlock().await.expect("released");
}

pub(crate) async fn bad_lists_are_refused_before_anything_is_sent(t: &Case) {
    let link = t.link().await;
    let client = t.connect(t.builder_for(&link.url())).await;
    link.set_reachable(false);
    let long = "x".repeat(256);
    for bad in [&[][..], &["a", ""], &["a", &long]] {
        let refused = [
            client.lock_all(bad).await.map(drop),
            client.try_lock_all(bad).await.map(drop),
            client.lock_all_timeout(bad, SOON).await.map(drop),
        ];
        for refused in refused {
            let error = refused.expect_err("an invalid list");
            assert!(matches!(error, Error::InvalidArgument { argument: "name", .. }), "{error:?}");
        }
    }
    link.set_reachable(true);
}

pub(crate) async fn loss_of_one_lock_notifies_the_holder_of_all(t: &Case) {
    let [client, other] = t.clients().await;
    let all = client.lock_all(["a", "b", "c"]).await.expect("granted");
    let waiter = t.enqueue(&other, "b").await;
    let running = all.run(sleep(SOON));
    let (lost, ()) = tokio::join!(running, t.store.delete_key(all.guards()[1].key()));
    let error = lost.expect_err("one of them is lost");
    let named =
        matches!(&error, Error::Lost { name, reason: LostReason::Evicted, .. } if name == "b");
    assert!(named, "{error:?}");
    assert_eq!(within(SOON, "the loss is notified", all.lost()).await, ("b", LostReason::Evicted));
    assert!(!all.is_valid());
    assert_eq!(all.remaining(), Duration::ZERO);
    assert!(all.get("a").is_some_and(|guard| guard.is_valid()), "one key is one lock");
    let error = all.unlock().await.expect_err("one of them was lost");
    assert!(matches!(&error, Error::Lost { name, .. } if name == "b"), "{error:?}");
    // The other locks are released nevertheless.
    waiter.served().await;
    assert!(poll(SOON, async || t.keys().await.is_empty()).await);
}

/// A lock that was already acquired is lost while the next one is awaited. No guard with a missing
/// lock is returned.
pub(crate) async fn a_lock_lost_while_others_are_awaited_ends_the_wait(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = other.mutex("b").lock().await.expect("granted");
    let caller = client.clone();
    let locking = tokio::spawn(async move { caller.lock_all(["a", "b"]).await });
    t.queue_of(3).await;
    let keys = t.keys().await;
    let first = keys
        .iter()
        .find(|key| key.starts_with(&format!("{}/a/", t.namespace)))
        .expect("the key of the first lock");
    t.store.delete_key(first).await;
    let error = within(SOON, "the loss is notified", locking)
        .await
        .expect("no panic")
        .expect_err("one lock was lost");
    assert!(matches!(&error, Error::Evicted { name, .. } if name == "a"), "{error:?}");
    assert!(error.is_retryable());
    eventually(SOON, "the call leaves no keys", async || t.keys().await == [guard.key()]).await;
    guard.unlock().await.expect("released");
}

/// A write under several locks is applied only while all of them are held. The store also refuses
/// it when another client holds one of them.
pub(crate) async fn a_write_under_several_locks_needs_all_of_them(t: &Case) {
    let [client, other] = t.clients().await;
    let keys = [t.data_key("alice"), t.data_key("bob")];
    let transfer = |value: &str| keys.each_ref().map(|key| Write::put(key, value));
    for lost in ["alice", "bob"] {
        let all = client.lock_all(["alice", "bob"]).await.expect("granted");
        within(SOON, "the value is written", all.write(&transfer("before")))
            .await
            .expect("all are held");
        let key = all.get(lost).expect("one of the locks").key().to_owned();
        assert!(other.evict(&key).await.expect("a reply"), "the entry existed");
        let next = locked(&other, lost).await;
        let error = within(SOON, "the write is refused", all.write(&transfer("after"))).await;
        let error = error.expect_err("one of them is lost");
        assert!(
            matches!(
                &error,
                Error::Lost { name, reason: LostReason::Evicted, .. } if name == lost
            ),
            "{error:?}"
        );
        assert!(!all.is_valid(), "the guard knows of the loss that the write reported");
        for key in &keys {
            assert_eq!(t.store.data(key).await.as_deref(), Some(&b"before"[..]));
            let error = all.put(key, "after").await.expect_err("one of them is lost");
            assert!(matches!(error, Error::Lost { .. }), "{error:?}");
            all.delete(key).await.expect_err("one of them is lost");
        }
        next.unlock().await.expect("released");
        drop(all);
    }
    t.erase(&keys).await;
}
