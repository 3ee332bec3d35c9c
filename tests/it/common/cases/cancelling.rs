//! Futures that are dropped: at any point, and nothing stays behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use distlock::Client;
use tokio::{task::JoinSet, time::timeout};

use crate::common::{
    Case, SOON, cases::costs::sessions_of, locked, release_both, take_turn, within,
};

/// Half of them on a lock that is free, so that they are dropped while joining, while holding and
/// while releasing; half on one that is held, so that they are dropped while waiting.
pub(crate) async fn a_thousand_dropped_locks_leave_nothing(t: &Case) {
    let [client, holder] = t.clients().await;
    let marker = client.mutex("marker").lock().await.expect("granted");
    let held = holder.mutex("held").lock().await.expect("granted");
    let session = sessions_of(t, &[marker.key()]).await;
    let granted = Arc::new(AtomicUsize::new(0));
    let mut droppers = JoinSet::new();
    for dropper in 0..20 {
        let mutex = client.mutex(if dropper % 2 == 0 { "free" } else { "held" });
        let granted = Arc::clone(&granted);
        droppers.spawn(async move {
            for _ in 0..50 {
                let patience = Duration::from_micros(fastrand::u64(..5000));
                if let Ok(guard) = timeout(patience, mutex.lock()).await {
                    drop(guard.expect("no error"));
                    granted.fetch_add(1, SeqCst);
                }
            }
        });
    }
    within(SOON * 3, "all are dropped", droppers.join_all()).await;
    t.keys_within(Duration::from_secs(5), 2).await;
    assert!(marker.is_valid() && held.is_valid(), "no session paid for it");
    assert!(granted.load(SeqCst) < 600, "most were to be dropped");
    held.unlock().await.expect("released");
    // The same session goes on, and the locks are free.
    for name in ["free", "held"] {
        let guard = locked(&client, name).await;
        assert_eq!(sessions_of(t, &[guard.key()]).await, session);
        guard.unlock().await.expect("released");
    }
    marker.unlock().await.expect("released");
}

/// Polls a future so many times, then drops it. Gives its output if it has come to one.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut polls) = (std::pin::pin!(future), 0);
    std::future::poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Nothing would wake it when only the drop is left.
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Not at random: before the first poll, after it, and after each one that follows.
pub(crate) async fn a_lock_dropped_after_any_poll_leaves_nothing(t: &Case) {
    let [client, holder] = t.clients().await;
    let held = holder.mutex("held").lock().await.expect("granted");
    let mut granted = 0;
    // Each server's answer may be a poll.
    let servers = t.store.at_once() as usize;
    for round in 0..60 {
        // The last poll of a waiter does not come while the lock is held. What is free is granted,
        // or dropped, however long a busy machine takes for that.
        for (name, times, limit) in [
            ("free", round % (3 * servers + 3), SOON),
            ("held", round % (3 * servers), Duration::from_millis(20)),
        ] {
            let lock = timeout(limit, polled(times, client.mutex(name).lock())).await;
            granted += u32::from(matches!(lock, Ok(Some(Ok(_)))));
        }
    }
    assert!(
        (1..50).contains(&granted),
        "{granted} of 60 were granted: some were to be dropped before, some not"
    );
    t.queue_of(1).await;
    assert!(held.is_valid());
    held.unlock().await.expect("released");
    for name in ["free", "held"] {
        take_turn(&client, name).await;
    }
}

pub(crate) async fn a_waiter_dropped_at_its_grant_passes_the_lock_on(t: &Case) {
    let [one, two, three] = t.clients().await;
    for _ in 0..20 {
        let (guard, dropped) = t.contended(&one, &two, "handed").await;
        let last = t.enqueue(&three, "handed").await;
        let release = tokio::spawn(guard.unlock());
        // Somewhere between the delete, the event, the read and the grant.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
        dropped.cancel();
        last.served().await;
        release.await.expect("no panic").expect("released");
    }
}

/// A, B, C and D in a queue; B and C go in each order: D moves up, but it is A who lets D in.
pub(crate) async fn waiters_dropped_in_the_middle_do_not_wake_the_last(t: &Case) {
    let clients = t.clients().await;
    drop_in_the_middle(t, &clients).await;
}

/// They know of each other.
pub(crate) async fn waiters_of_one_client_dropped_in_the_middle_do_not_wake_the_last(t: &Case) {
    let client = t.client().await;
    drop_in_the_middle(t, &[client.clone(), client.clone(), client.clone(), client]).await;
}

async fn drop_in_the_middle(t: &Case, [one, two, three, four]: &[Client; 4]) {
    for b_goes_first in [true, false] {
        let (a, b) = t.contended(one, two, "abcd").await;
        let c = t.enqueue(three, "abcd").await;
        let d = t.enqueue(four, "abcd").await;
        let (first, second) = if b_goes_first { (b, c) } else { (c, b) };
        first.cancel();
        t.queue_of(3).await;
        second.cancel();
        t.queue_of(2).await;
        d.waits_behind(&a, Duration::from_millis(300)).await;
        release_both(a, d).await;
    }
}

/// A holder that drops the future of `unlock()` has still let go.
pub(crate) async fn dropped_unlocks_still_release(t: &Case) {
    let [one, two] = t.clients().await;
    let (unpolled, waiter) = t.contended(&one, &two, "unlocked").await;
    drop(unpolled.unlock());
    let polled = waiter.granted().await;
    let waiter = t.enqueue(&one, "unlocked").await;
    // One poll, and no more.
    tokio::select! {
        biased;
        _ = polled.unlock() => {}
        () = std::future::ready(()) => {}
    }
    waiter.served().await;
}
