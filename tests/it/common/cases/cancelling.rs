//! Dropped futures leave nothing behind, at whatever point they are dropped.

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

/// Half of the calls are on a free lock, and are dropped while joining, holding or releasing. The
/// other half are on a held lock, and are dropped while waiting.
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
                let limit = Duration::from_micros(fastrand::u64(..5000));
                if let Ok(guard) = timeout(limit, mutex.lock()).await {
                    drop(guard.expect("no error"));
                    granted.fetch_add(1, SeqCst);
                }
            }
        });
    }
    within(SOON * 3, "all are dropped", droppers.join_all()).await;
    // A busy machine may delay a request for longer than its timeout. The session searches for the
    // keys of such requests 1 s, 5 s and 13 s later.
    t.keys_within(Duration::from_secs(15), 2).await;
    assert!(marker.is_valid() && held.is_valid(), "no session was lost");
    assert!(granted.load(SeqCst) < 600, "too many calls were granted before they were dropped");
    held.unlock().await.expect("released");
    // The session is the same, and the locks are free.
    for name in ["free", "held"] {
        let guard = locked(&client, name).await;
        assert_eq!(sessions_of(t, &[guard.key()]).await, session);
        guard.unlock().await.expect("released");
    }
    marker.unlock().await.expect("released");
}

/// Polls a future up to `times` times, then drops it. Returns its output if it is ready by then.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut polls) = (std::pin::pin!(future), 0);
    std::future::poll_fn(|context| {
        if polls == times {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // No wake-up may follow the last poll.
            Poll::Pending if polls == times => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Drops the call systematically: before the first poll, and after each number of polls.
pub(crate) async fn a_lock_dropped_after_any_poll_leaves_nothing(t: &Case) {
    let [client, holder] = t.clients().await;
    let held = holder.mutex("held").lock().await.expect("granted");
    let (mut granted, mut polled_at_all) = (0, 0);
    // The reply of each server may cause a poll.
    let servers = t.store.at_once() as usize;
    for round in 0..60 {
        polled_at_all += u32::from(round % (3 * servers + 3) > 0);
        // A waiter does not get its last poll while the lock is held. A call on the free lock is
        // granted or dropped, however long a busy machine takes.
        for (name, times, limit) in [
            ("free", round % (3 * servers + 3), SOON),
            ("held", round % (3 * servers), Duration::from_millis(20)),
        ] {
            let lock = timeout(limit, polled(times, client.mutex(name).lock())).await;
            granted += u32::from(matches!(lock, Ok(Some(Ok(_)))));
        }
    }
    assert!(
        (1..polled_at_all).contains(&granted),
        "{granted} of {polled_at_all} were granted: some must be dropped before it, some after it"
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
        // Falls anywhere between the delete, the event, the read and the grant.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..3000))).await;
        dropped.cancel();
        last.served().await;
        release.await.expect("no panic").expect("released");
    }
}

/// A, B, C and D are in a queue. B and C leave in either order. D moves up, and only the release of
/// A grants the lock to D.
pub(crate) async fn waiters_dropped_in_the_middle_do_not_wake_the_last(t: &Case) {
    let clients = t.clients().await;
    drop_in_the_middle(t, &clients).await;
}

/// All four waiters belong to one client, which knows all of them.
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

/// A dropped future of `unlock()` still releases.
pub(crate) async fn dropped_unlocks_still_release(t: &Case) {
    let [one, two] = t.clients().await;
    let (unpolled, waiter) = t.contended(&one, &two, "unlocked").await;
    drop(unpolled.unlock());
    let polled = waiter.granted().await;
    let waiter = t.enqueue(&one, "unlocked").await;
    // Polled once.
    tokio::select! {
        biased;
        _ = polled.unlock() => {}
        () = std::future::ready(()) => {}
    }
    waiter.served().await;
}
