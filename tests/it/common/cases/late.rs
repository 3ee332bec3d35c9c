//! Requests that a paused process sends, and requests that arrive late.

use std::time::{Duration, Instant};

use distlock::Error;
use distlock_testkit::proxy::Mode;
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::common::{
    Case, Elsewhere, Job, SOON, Servers, eventually, process::Process, take_turn, throughout,
    within,
};

/// The number of locks of the paused process. It writes under each of them on waking.
const WRITES: usize = 20;

/// A process that was paused for longer than its TTL writes first thing on waking. The store
/// refuses every write.
///
/// The guard's own deadline would refuse first. So the process writes with the store's native
/// client, under the condition that `distlock::etcd::compare` or `distlock::zookeeper::check`
/// provides: that of a guarded write.
pub(crate) async fn writes_of_a_holder_that_was_stopped_are_refused(t: &Case) {
    let ttl = t.store.min_ttl();
    let job = Job { writes: WRITES, ..Job::new(t, "stopped", ttl) };
    let keys: Vec<_> = (0..WRITES).map(|n| job.key(n)).collect();
    let mut process = Process::start(&t.store.url(), &job);
    within(SOON * 2, "the process has its locks and has written", process.granted()).await;
    for key in &keys {
        assert_eq!(
            t.store.data(key).await.as_deref(),
            Some(&b"old"[..]),
            "the transaction writes while the lock is held"
        );
    }
    let other = t.client().await;
    let succeed = async {
        let mut waiters = Vec::new();
        for n in 0..WRITES {
            waiters.push(t.enqueue(&other, &format!("stopped-{n}")).await);
        }
        let mut successors = Vec::new();
        for (waiter, key) in waiters.into_iter().zip(&keys) {
            let successor = waiter.granted().await;
            successor.put(key, "new").await.expect("written");
            successors.push(successor);
        }
        (successors, Instant::now())
    };
    let pause = ttl + t.store.grace() + Duration::from_secs(6);
    let awake = async { (process.sleep_through(pause).await, Instant::now()) };
    let ((written, woke), (successors, succeeded)) =
        within(pause + SOON * 2, "the process wakes", async { tokio::join!(awake, succeed) }).await;
    println!("succeeded {:?} before it woke", woke.saturating_duration_since(succeeded));
    assert!(succeeded < woke, "inconclusive: the process woke before each lock had a successor");
    assert!(!written, "the store accepted a write of a holder with a successor");
    for (successor, key) in successors.into_iter().zip(&keys) {
        assert!(successor.is_valid());
        assert_eq!(t.store.data(key).await.as_deref(), Some(&b"new"[..]));
        successor.unlock().await.expect("released");
        t.store.erase(key).await;
    }
}

/// The write is sent in time, and arrives when the lock has another holder.
pub(crate) async fn a_write_that_arrives_late_is_refused(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let (holder, other) = (t.mortal_client_by(&*proxies).await, t.client().await);
    let key = t.data_key("late");
    let guard = holder.mutex("late").lock().await.expect("granted");
    guard.put(&key, "early").await.expect("written");
    let waiter = t.enqueue(&other, "late").await;
    proxies.set(&Mode::BlackholeToServer);
    let written = key.clone();
    let writing = tokio::spawn(async move { (guard.put(written, "late").await, guard) });
    let ttl = holder.session_ttl();
    let successor = waiter.result(ttl * 3 + t.store.grace()).await.expect("granted");
    successor.put(&key, "new").await.expect("written");
    // The delayed write arrives now.
    proxies.set(&Mode::Pass);
    let (outcome, guard) = within(SOON, "the write returns", writing).await.expect("no panic");
    let error = outcome.expect_err("no reply in time");
    let expected = matches!(
        error,
        Error::WriteUnconfirmed { .. } | Error::Lost { .. } | Error::Unavailable { .. }
    );
    assert!(expected, "{error:?}");
    throughout(Duration::from_secs(2), "the newer value stays", async || {
        t.store.data(&key).await.as_deref() == Some(b"new")
    })
    .await;
    assert!(!guard.is_valid() && successor.is_valid());
    successor.unlock().await.expect("released");
    t.store.erase(&key).await;
}

/// A write whose reply is lost is applied once or not at all. The caller gets `WriteUnconfirmed`.
pub(crate) async fn a_write_whose_reply_is_lost_is_unconfirmed(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let client = t.hasty_client_by(&*proxies).await;
    let key = t.data_key("unconfirmed");
    let guard = client.mutex("unconfirmed").lock().await.expect("granted");
    guard.put(&key, "before").await.expect("written");
    proxies.set(&Mode::BlackholeToClient);
    let error =
        within(SOON, "the write returns", guard.put(&key, "value")).await.expect_err("no reply");
    let expected = matches!(&error, Error::WriteUnconfirmed { name, .. } if name == "unconfirmed");
    assert!(expected && !error.is_retryable(), "{error:?}");
    assert!(guard.is_valid(), "the lock is not affected");
    let written = async || t.store.data(&key).await.as_deref() == Some(b"value");
    eventually(SOON, "the value is written nevertheless", written).await;
    t.store.erase(&key).await;
    proxies.hang_up();
    proxies.set(&Mode::Pass);
    throughout(Duration::from_secs(2), "the write is not sent again", async || {
        t.store.data(&key).await.is_none()
    })
    .await;
    guard.put(&key, "again").await.expect("written");
    guard.delete(&key).await.expect("deleted");
    t.store.erase(&key).await;
    guard.unlock().await.expect("released");
}

/// The server has created the keys. The client only notices the end of its connection.
pub(crate) async fn a_lock_all_whose_reply_is_lost_takes_all_or_leaves_nothing(
    t: &Case<dyn Servers>,
) {
    let proxies = t.proxies().await;
    let client = t.hasty_client_by(&*proxies).await;
    // An idle session would be replaced if the process stalls, and needs replies for that.
    let marker = client.mutex("marker").lock().await.expect("granted");
    for wanted in [true, false] {
        // Afterwards ZooKeeper's directories exist. A pool also has other connections than the one
        // that it tests when the last request releases it.
        join_all(["a", "b", "c"].map(|name| take_turn(&client, name))).await;
        client.lock_all(["a", "b", "c"]).await.expect("granted").unlock().await.expect("released");
        let caller = client.clone();
        proxies.set(&Mode::BlackholeToClient);
        let locking = tokio::spawn(async move { caller.lock_all(["a", "b", "c"]).await });
        eventually(SOON, "the first key exists", async || t.keys().await.len() > 1).await;
        if !wanted {
            locking.abort();
        }
        proxies.hang_up();
        proxies.set(&Mode::Pass);
        if wanted {
            let all = within(SOON, "all locks are granted", locking)
                .await
                .expect("no panic")
                .expect("granted");
            assert!(all.is_valid());
            // The keys of the lost reply are deleted or belong to the guards.
            t.queue_of(1 + 3).await;
            all.unlock().await.expect("released");
        }
        t.queue_of(1).await;
        sleep(Duration::from_millis(100)).await;
    }
    marker.unlock().await.expect("released");
}

/// A proclaim that was abandoned in flight does not overwrite a later one.
pub(crate) async fn a_proclaim_that_arrives_late_is_refused(t: &Case<dyn Servers>) {
    let proxies = t.proxies().await;
    let client = t.hasty_client_by(&*proxies).await;
    let election = t.client().await.election("late");
    let leadership = client.election("late").campaign("first").await.expect("granted");
    leadership.proclaim("second").await.expect("proclaimed");
    proxies.set(&Mode::BlackholeToClient);
    let error = within(SOON, "the call gives up", leadership.proclaim("third"))
        .await
        .expect_err("no reply");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    proxies.hang_up();
    proxies.set(&Mode::Pass);
    within(SOON, "the value is proclaimed", leadership.proclaim("fourth"))
        .await
        .expect("proclaimed");
    throughout(Duration::from_secs(1), "the last one stays", async || {
        election
            .leader()
            .await
            .expect("a reply")
            .is_some_and(|leader| leader.value_str() == Some("fourth"))
    })
    .await;
    assert!(leadership.is_valid());
    leadership.resign().await.expect("released");
}
