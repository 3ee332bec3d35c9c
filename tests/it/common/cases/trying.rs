//! Calls that do not wait, or only for a limited time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::common::{Case, SOON, release, release_both, take_turn, throughout, within};

pub(crate) async fn try_lock_takes_a_free_lock(t: &Case) {
    let client = t.client().await;
    let guard = client.mutex("free").try_lock().await.expect("a reply").expect("the lock is free");
    assert!(guard.is_valid());
    assert_eq!(t.keys().await, [guard.key()]);
    guard.unlock().await.expect("released");
    drop(client.mutex("free").try_lock().await.expect("a reply").expect("the lock is free again"));
}

/// Reads the store all the while: there is never a second key, not even for a moment.
pub(crate) async fn two_clients_alternate_by_try_lock(t: &Case) {
    let clients = t.clients::<2>().await;
    let mutexes = clients.each_ref().map(|client| client.mutex("turns"));
    for turn in 0..6 {
        let [one, other] = [&mutexes[turn % 2], &mutexes[(turn + 1) % 2]];
        let guard = one.try_lock().await.expect("a reply").expect("the lock is free");
        for mutex in [other, one] {
            assert!(mutex.try_lock().await.expect("a reply").is_none());
        }
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn try_lock_on_a_held_lock_leaves_nothing_at_any_time(t: &Case) {
    let [holder, trier] = t.clients().await;
    let guard = holder.mutex("held").lock().await.expect("granted");
    let reads = Arc::new(AtomicUsize::new(0));
    let tries = tokio::spawn({
        let (reads, mutexes) = (Arc::clone(&reads), [holder.mutex("held"), trier.mutex("held")]);
        async move {
            let mut rounds = 0;
            while rounds < 25 || reads.load(SeqCst) < 50 {
                for mutex in &mutexes {
                    assert!(mutex.try_lock().await.expect("a reply").is_none());
                }
                rounds += 1;
            }
        }
    });
    while !tries.is_finished() {
        assert_eq!(t.keys().await, [guard.key()]);
        reads.fetch_add(1, SeqCst);
    }
    tries.await.expect("every try returns None");
    assert_eq!(t.keys().await, [guard.key()]);
    guard.unlock().await.expect("released");
}

pub(crate) async fn try_lock_does_not_pass_waiters(t: &Case) {
    let [holder, waiting, trier] = t.clients().await;
    let (guard, waiter) = t.contended(&holder, &waiting, "queue").await;
    let next = t.enqueue(&waiting, "queue").await;
    let mutex = trier.mutex("queue");
    assert!(mutex.try_lock().await.expect("a reply").is_none());
    guard.unlock().await.expect("released");
    // Immediately, during the handover: the queue is never empty.
    assert!(mutex.try_lock().await.expect("a reply").is_none());
    let guard = waiter.granted().await;
    assert!(mutex.try_lock().await.expect("a reply").is_none());
    release_both(guard, next).await;
    drop(mutex.try_lock().await.expect("a reply").expect("the queue is empty"));
}

pub(crate) async fn try_locks_at_once_grant_one_at_most(t: &Case) {
    let clients = t.clients::<4>().await;
    for _ in 0..5 {
        let mut tries = JoinSet::new();
        for place in 0..20 {
            let mutex = clients[place % 4].mutex("raced");
            tries.spawn(async move { mutex.try_lock().await.expect("a reply") });
        }
        // All guards are kept until all have tried.
        let guards: Vec<_> = within(SOON, "all tries return", tries.join_all())
            .await
            .into_iter()
            .flatten()
            .collect();
        assert!(guards.len() <= 1, "{guards:?}");
        release(guards).await;
        // Failed tries have left nothing that blocks the lock.
        take_turn(&clients[0], "raced").await;
    }
}

/// Calls with no timeout or one of 1 ms, on a free lock, a held one and a contended one. A call
/// that returns `None` leaves nothing.
pub(crate) async fn tries_with_tiny_timeouts_leave_no_keys(t: &Case) {
    const TRIES: usize = 40;
    let clients = t.clients::<4>().await;
    let held = clients[0].mutex("held").lock().await.expect("granted");
    let (granted, gave_up, holders) =
        (Arc::default(), Arc::default(), Arc::<AtomicUsize>::default());
    let mut tries = JoinSet::new();
    for place in 0..12 {
        let client = clients[place % 4].clone();
        let (granted, gave_up) =
            (Arc::<AtomicUsize>::clone(&granted), Arc::<AtomicUsize>::clone(&gave_up));
        let holders = Arc::clone(&holders);
        tries.spawn(async move {
            let [own, contended, held] =
                [format!("own-{place}"), "contended".into(), "held".into()];
            for round in 0..TRIES {
                for name in [&own, &contended, &held] {
                    let timeout = Duration::from_millis(round as u64 % 2);
                    let Some(guard) =
                        client.mutex(name).lock_timeout(timeout).await.expect("no error")
                    else {
                        gave_up.fetch_add(1, SeqCst);
                        continue;
                    };
                    assert_ne!(name, "held", "granted twice");
                    if name == "contended" {
                        assert_eq!(holders.fetch_add(1, SeqCst), 0, "two holders");
                        tokio::task::yield_now().await;
                        assert_eq!(holders.fetch_sub(1, SeqCst), 1, "two holders");
                    }
                    granted.fetch_add(1, SeqCst);
                    guard.unlock().await.expect("released");
                }
            }
        });
    }
    within(SOON * 6, "all have tried", tries.join_all()).await;
    let [granted, gave_up] = [granted.load(SeqCst), gave_up.load(SeqCst)];
    assert_eq!(granted + gave_up, 12 * TRIES * 3);
    assert!(granted > 0 && gave_up >= 12 * TRIES, "{granted} were granted, {gave_up} gave up");
    t.queue_of(1).await;
    assert!(held.is_valid());
    held.unlock().await.expect("released");
}

pub(crate) async fn lock_timeout_gives_up_in_time(t: &Case) {
    let [holder, waiter] = t.clients().await;
    let guard = holder.mutex("held").lock().await.expect("granted");
    for timeout in [1, 50, 400].map(Duration::from_millis) {
        let start = Instant::now();
        let outcome = waiter.mutex("held").lock_timeout(timeout).await.expect("no error");
        let took = start.elapsed();
        assert!(outcome.is_none());
        assert!(took >= timeout, "given up after {took:?} of {timeout:?}");
        assert!(
            took < timeout + Duration::from_millis(600),
            "given up after {took:?} of {timeout:?}"
        );
        t.queue_of(1).await;
    }
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
}

pub(crate) async fn lock_timeout_of_zero_is_a_try_lock(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("zero");
    let guard =
        mutex.lock_timeout(Duration::ZERO).await.expect("no error").expect("the lock is free");
    assert!(mutex.lock_timeout(Duration::ZERO).await.expect("no error").is_none());
    assert_eq!(t.keys().await, [guard.key()], "a try leaves nothing");
    guard.unlock().await.expect("released");
}

pub(crate) async fn lock_timeout_takes_a_lock_that_comes_free(t: &Case) {
    let [holder, waiter] = t.clients().await;
    let guard = holder.mutex("held").lock().await.expect("granted");
    let mutex = waiter.mutex("held");
    // What matters is not how soon the lock is granted but that it is granted before the timeout.
    let waiting = tokio::spawn(async move { mutex.lock_timeout(SOON * 2).await });
    t.queue_of(2).await;
    guard.unlock().await.expect("released");
    let guard =
        within(SOON * 3, "the call returns", waiting).await.expect("no panic").expect("no error");
    assert!(guard.expect("in time").is_valid());
    // Any timeout is valid, and a free lock is granted at once.
    t.queue_of(0).await;
    let guard =
        within(SOON * 2, "the lock is free", waiter.mutex("held").lock_timeout(Duration::MAX))
            .await
            .expect("no error");
    guard.expect("the lock is free").unlock().await.expect("released");
}

pub(crate) async fn waiters_that_timed_out_are_passed_over(t: &Case) {
    let [holder, hasty, patient] = t.clients().await;
    let guard = holder.mutex("queue").lock().await.expect("granted");
    let mutex = hasty.mutex("queue");
    let hasty = tokio::spawn(async move { mutex.lock_timeout(Duration::from_secs(1)).await });
    t.queue_of(2).await;
    let waiter = t.enqueue(&patient, "queue").await;
    assert!(hasty.await.expect("no panic").expect("no error").is_none());
    t.queue_of(2).await;
    // Its key still exists. The waiter would have noticed a deletion by now.
    let held = async || waiter.waits() && guard.is_valid();
    throughout(
        Duration::from_millis(300),
        "the predecessor left, and the holder keeps the lock",
        held,
    )
    .await;
    release_both(guard, waiter).await;
}
