//! Exclusion, order, and rising tokens.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::FencingToken;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use crate::common::{Case, SOON, handover, locked, release, release_both, within};

/// A resource that detects concurrent access: the count loses an update, or the flag is already
/// set.
#[derive(Default)]
pub(crate) struct Fragile {
    count: AtomicU32,
    busy: AtomicBool,
}

impl Fragile {
    pub(crate) async fn touch(&self) {
        assert!(!self.busy.swap(true, SeqCst), "two holders at once");
        let count = self.count.load(SeqCst);
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..1000))).await;
        self.count.store(count + 1, SeqCst);
        assert!(self.busy.swap(false, SeqCst), "two holders at once");
    }
}

pub(crate) async fn fifty_contenders_never_overlap(t: &Case) {
    let resource = Arc::new(Fragile::default());
    let clients = t.clients::<5>().await;
    let mut contenders = JoinSet::new();
    for contender in 0..50 {
        let (mutex, resource) = (clients[contender % 5].mutex("contended"), Arc::clone(&resource));
        contenders.spawn(async move {
            for _ in 0..2 {
                let guard = mutex.lock().await.expect("granted");
                resource.touch().await;
                assert!(guard.is_valid());
                guard.unlock().await.expect("released");
            }
        });
    }
    within(SOON * 6, "all are served", contenders.join_all()).await;
    assert_eq!(resource.count.load(SeqCst), 100);
}

pub(crate) async fn waiters_are_granted_in_order(t: &Case) {
    let clients = t.clients::<3>().await;
    let mut holder = clients[0].mutex("queue").lock().await.expect("granted");
    let mut waiters = t.enqueue_all(clients.iter().cycle().take(10), "queue").await;
    while !waiters.is_empty() {
        holder = handover(holder, waiters.remove(0)).await;
        assert!(waiters.iter().all(|waiter| waiter.waits()), "a waiter was granted out of order");
    }
}

/// Each holder loses the lock, and does not release it.
pub(crate) async fn waiters_are_granted_in_order_though_holders_are_lost(t: &Case) {
    let clients = t.clients::<3>().await;
    let mut holder = clients[0].mutex("queue").lock().await.expect("granted");
    let mut waiters = t.enqueue_all(clients.iter().cycle().take(8), "queue").await;
    let mut lost = Vec::new();
    while !waiters.is_empty() {
        t.store.delete_key(holder.key()).await;
        let next = waiters.remove(0).granted().await;
        assert!(next.fencing_token() > holder.fencing_token());
        assert!(waiters.iter().all(|waiter| waiter.waits()), "a waiter was granted out of order");
        lost.push(std::mem::replace(&mut holder, next));
    }
    for guard in &lost {
        within(SOON, "the holder is notified", guard.lost()).await;
    }
    holder.unlock().await.expect("released");
}

pub(crate) async fn two_tasks_of_one_client_exclude_each_other(t: &Case) {
    let client = t.client().await;
    let (guard, waiter) = t.contended(&client, &client, "own").await;
    waiter.waits_behind(&guard, Duration::from_millis(200)).await;
    release_both(guard, waiter).await;
}

pub(crate) async fn two_namespaces_are_independent(t: &Case) {
    let (here, below) = (t.client().await, format!("{}/below", t.namespace));
    let there = t.connect(t.builder().namespace(below)).await;
    let one = here.mutex("same").lock().await.expect("granted");
    let other = locked(&there, "same").await;
    assert_ne!(one.key(), other.key());
    // A lock with the name of the other namespace's last part is stored in the directory of that
    // namespace's locks.
    let between = locked(&here, "below").await;
    assert!(one.is_valid() && other.is_valid() && between.is_valid());
    release([one, other, between]).await;
}

pub(crate) async fn tokens_rise_over_twenty_grants(t: &Case) {
    let clients = t.clients::<2>().await;
    let mut last: Option<FencingToken> = None;
    for grant in 0..20 {
        let guard = clients[grant % 2].mutex("token").lock().await.expect("granted");
        assert!(last < Some(guard.fencing_token()), "{last:?} then {guard:?}");
        last = Some(guard.fencing_token());
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn tokens_rise_across_successive_clients(t: &Case) {
    let mut last = 0;
    for _ in 0..3 {
        let client = t.builder().connect().await.expect("connected");
        let guard = client.mutex("token").lock().await.expect("granted");
        assert!(u64::from(guard.fencing_token()) > last);
        last = guard.fencing_token().into();
        guard.unlock().await.expect("released");
        client.close().await.expect("closed");
    }
}

/// ZooKeeper deletes a lock's directory when it is empty. The next directory counts from zero.
pub(crate) async fn tokens_rise_after_the_store_removed_the_lock(t: &Case) {
    let client = t.client().await;
    let mut last = 0;
    for _ in 0..2 {
        // More than one grant, so that a counter in the directory would be seen to fall.
        for _ in 0..3 {
            let guard = client.mutex("rare").lock().await.expect("granted");
            assert!(guard.fencing_token().as_u64() > last);
            last = guard.fencing_token().as_u64();
            guard.unlock().await.expect("released");
        }
        t.store.forget(&t.namespace).await;
    }
}

/// A resource that keeps the highest token seen refuses a write that was in flight when its guard
/// was dropped. It accepts a write that arrives in time.
pub(crate) async fn a_write_that_outlives_its_lock_is_refused(t: &Case) {
    let [one, two] = t.clients().await;
    let highest = Arc::new(AtomicU64::new(0));
    for in_time in [true, false] {
        let (arrive, arrives) = oneshot::channel::<()>();
        let (guard, waiter) = t.contended(&one, &two, "write").await;
        let (token, seen) = (guard.fencing_token().as_u64(), Arc::clone(&highest));
        let write = tokio::spawn(async move {
            arrives.await.expect("the write arrives");
            seen.fetch_max(token, SeqCst) <= token
        });
        drop(guard);
        let successor = waiter.granted().await;
        assert!(successor.fencing_token().as_u64() > token);
        if !in_time {
            assert!(
                highest.fetch_max(successor.fencing_token().as_u64(), SeqCst) <= token,
                "the successor's token is accepted"
            );
        }
        arrive.send(()).expect("the write is in flight");
        assert_eq!(write.await.expect("no panic"), in_time);
        successor.unlock().await.expect("released");
    }
}

pub(crate) async fn tokens_rise_in_the_order_of_grants(t: &Case) {
    let clients = t.clients::<4>().await;
    let (grants, mut granted) = mpsc::unbounded_channel();
    let mut contenders = JoinSet::new();
    for contender in 0..24 {
        let (mutex, grants) = (clients[contender % 4].mutex("tokens"), grants.clone());
        contenders.spawn(async move {
            let guard = mutex.lock().await.expect("granted");
            // Sent while the lock is held: the channel's order is the order of the grants.
            grants.send(guard.fencing_token()).expect("the receiver exists");
            guard.unlock().await.expect("released");
        });
    }
    drop(grants);
    let mut order = Vec::new();
    while let Some(token) = within(SOON, "another grant comes", granted.recv()).await {
        order.push(token);
    }
    assert_eq!(order.len(), 24);
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
}
