//! Several locks: all or none.

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
    // More than fit into one request, one, and a few. The order is that of the keys: `/` is escaped
    // in them.
    let many: Vec<_> = (0..40).map(|n| format!("many-{n:02}")).collect();
    let (one, few) = (vec!["one".to_owned()], ["b", "a/b", "a", "c"].map(str::to_owned).to_vec());
    for (asked, sorted) in [
        (&many, many.clone()),
        (&one, one.clone()),
        (&few, ["a", "a/b", "b", "c"].map(str::to_owned).to_vec()),
    ] {
        let all = within(SOON, "all are free", client.lock_all(asked)).await.expect("granted");
        assert_eq!(names(&all), sorted);
        assert!(all.is_valid() && all.remaining() > Duration::ZERO);
        assert_eq!(t.keys().await.len(), asked.len());
        for name in asked {
            let guard = all.get(name).expect("it was asked for");
            assert!(guard.name() == name && guard.is_valid());
        }
        assert!(all.get("another").is_none());
        // They are the locks that a mutex takes.
        let last = asked.last().expect("there are some");
        assert!(other.mutex(last).try_lock().await.expect("answered").is_none());
        let waiter = t.enqueue(&other, last).await;
        assert_eq!(all.run(async { 42 }).await.expect("they are held"), 42);
        release_both(all, waiter).await;
        assert!(t.keys().await.is_empty());
    }
    let all = client.lock_all(["b", "a", "b"]).await.expect("a name that comes twice counts once");
    assert_eq!(all.guards().len(), 2);
    all.unlock().await.expect("released");
}

/// Two sets that overlap, asked for in opposite orders: nobody waits in a circle, nobody is in
/// twice.
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
    // And one who wants but one of them.
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

pub(crate) async fn lock_all_waits_for_the_one_that_is_held(t: &Case) {
    let [client, other] = t.clients().await;
    for held in ["a", "b", "c"] {
        let guard = other.mutex(held).lock().await.expect("granted");
        let asker = client.clone();
        let asking = tokio::spawn(async move { asker.lock_all(["c", "b", "a"]).await });
        // It holds those before, and nothing of those behind.
        let before = usize::from(held != "a") + usize::from(held == "c");
        t.queue_of(1 + before + 1).await;
        throughout(Duration::from_millis(100), "it waits", async || !asking.is_finished()).await;
        guard.unlock().await.expect("released");
        let all = within(SOON, "all are free", asking).await.expect("no panic").expect("granted");
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
            within(SOON, "the time is up", client.lock_all_timeout(["b", "a", "c"], timeout)).await;
        assert!(none.expect("answered").is_none());
        let took = start.elapsed();
        assert!(
            took >= timeout && took < timeout + Duration::from_secs(2),
            "given up after {took:?} of {timeout:?}"
        );
        eventually(SOON, "nothing of it is left", async || t.keys().await == [guard.key()]).await;
    }
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
    let all = client
        .lock_all_timeout(["b", "a", "c"], SOON)
        .await
        .expect("answered")
        .expect("all are free");
    all.unlock().await.expect("released");
}

pub(crate) async fn try_lock_all_takes_all_or_nothing(t: &Case) {
    let [client, other] = t.clients().await;
    for held in ["a", "b", "c"] {
        let guard = other.mutex(held).lock().await.expect("granted");
        let none = within(SOON, "it does not wait", client.try_lock_all(["c", "a", "b"])).await;
        assert!(none.expect("answered").is_none());
        eventually(SOON, "nothing of it is left", async || t.keys().await == [guard.key()]).await;
        guard.unlock().await.expect("released");
    }
    let all = client.try_lock_all(["c", "a", "b"]).await.expect("answered").expect("all are free");
    assert!(other.try_lock_all(["c", "d"]).await.expect("answered").is_none());
    drop(all);
    t.queue_of(0).await;
    let again = other.try_lock_all(["c", "d"]).await.expect("answered").expect("all are free");
    again.unlock().await.expect("released");
}

/// Dropped wherever it is: before it sends, while one request takes all, while it waits for one.
pub(crate) async fn a_dropped_lock_all_leaves_nothing(t: &Case) {
    let [client, other] = t.clients().await;
    drop(client.lock_all(["a", "b", "c"]));
    let guard = other.mutex("b").lock().await.expect("granted");
    for round in 0..20 {
        let names = if round % 2 == 0 { ["a", "b", "c"] } else { ["x", "y", "z"] };
        let asking = tokio::time::timeout(
            Duration::from_micros(fastrand::u64(..5000)),
            client.lock_all(names),
        )
        .await;
        // If it was quick enough, it is released by the drop.
        drop(asking);
    }
    eventually(SOON, "nothing of it is left", async || t.keys().await == [guard.key()]).await;
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
    // A request may have been under way when nothing was there yet: its entries leave.
    let all = client.lock_all(["a", "b", "c", "x", "y", "z"]);
    let all = within(SOON, "all are free", all).await.expect("granted");
    all.unlock().await.expect("released");
}

/// Nobody knows what became of the first request. What it may have written is deleted, and all is
/// taken in the end.
pub(crate) async fn lock_all_outlasts_a_store_that_does_not_answer(t: &Case) {
    let link = t.link().await;
    let client =
        t.connect(t.builder_for(&link.url()).request_timeout(Duration::from_millis(300))).await;
    link.set_reachable(false);
    let start = Instant::now();
    let error = within(SOON, "a try does not wait", client.try_lock_all(["a", "b", "c"])).await;
    assert!(matches!(error, Err(Error::Unavailable { .. })), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(5), "given up after {:?}", start.elapsed());
    let asker = client.clone();
    let asking = tokio::spawn(async move { asker.lock_all(["a", "b", "c"]).await });
    sleep(Duration::from_millis(700)).await;
    link.set_reachable(true);
    let all = within(SOON * 2, "all are free", asking).await.expect("no panic").expect("granted");
    eventually(SOON, "there are no other keys", async || t.keys().await.len() == 3).await;
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
            let error = refused.expect_err("it can't be locked");
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
    assert_eq!(within(SOON, "it is told", all.lost()).await, ("b", LostReason::Evicted));
    assert!(!all.is_valid());
    assert_eq!(all.remaining(), Duration::ZERO);
    assert!(all.get("a").is_some_and(|guard| guard.is_valid()), "one key is one lock");
    let error = all.unlock().await.expect_err("one was lost before");
    assert!(matches!(&error, Error::Lost { name, .. } if name == "b"), "{error:?}");
    // The others are released all the same.
    waiter.served().await;
    assert!(poll(SOON, async || t.keys().await.is_empty()).await);
}

/// What was taken already is lost while the next one is awaited: nobody is granted a set with a
/// hole in it.
pub(crate) async fn a_lock_lost_while_others_are_awaited_ends_the_wait(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = other.mutex("b").lock().await.expect("granted");
    let asker = client.clone();
    let asking = tokio::spawn(async move { asker.lock_all(["a", "b"]).await });
    t.queue_of(3).await;
    let keys = t.keys().await;
    let first = keys
        .iter()
        .find(|key| key.starts_with(&format!("{}/a/", t.namespace)))
        .expect("it holds the first");
    t.store.delete_key(first).await;
    let error =
        within(SOON, "it is told", asking).await.expect("no panic").expect_err("it lost one");
    assert!(matches!(&error, Error::Evicted { name, .. } if name == "a"), "{error:?}");
    assert!(error.is_retryable());
    eventually(SOON, "nothing of it is left", async || t.keys().await == [guard.key()]).await;
    guard.unlock().await.expect("released");
}

/// What several locks protect is written only while all of them are held: the store says so, also
/// of a lock that another client has taken by then.
pub(crate) async fn a_write_under_several_locks_needs_all_of_them(t: &Case) {
    let [client, other] = t.clients().await;
    let keys = [t.data_key("alice"), t.data_key("bob")];
    let transfer = |value: &str| keys.each_ref().map(|key| Write::put(key, value));
    for lost in ["alice", "bob"] {
        let all = client.lock_all(["alice", "bob"]).await.expect("granted");
        within(SOON, "it is written", all.write(&transfer("before"))).await.expect("all are held");
        let key = all.get(lost).expect("it was asked for").key().to_owned();
        assert!(other.evict(&key).await.expect("answered"), "it was there");
        let next = locked(&other, lost).await;
        let error = within(SOON, "it is refused", all.write(&transfer("after"))).await;
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
        next.unlock().await.expect("it was held");
        drop(all);
    }
    t.erase(&keys).await;
}
