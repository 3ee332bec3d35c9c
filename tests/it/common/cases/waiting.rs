//! The requests of waiters on servers that notify.

use std::time::{Duration, Instant};

use tokio::{task::JoinSet, time::sleep};

use super::costs::settled;
use crate::common::{
    Case, Cost, SOON, Sessions, eventually, handover, release, release_both, within,
};

const TTL: Duration = Duration::from_secs(2);
/// The constant of `src/session/eviction.rs`.
const WATCH_AFTER: Duration = Duration::from_millis(400);

/// Renewals return the remaining TTL of the session ahead, and the server notifies of everything
/// else. Only the recheck remains, which does not happen within this case.
pub(crate) async fn a_waiter_behind_a_live_session_sends_no_requests(t: &Case<dyn Sessions>) {
    let builder = || t.builder().session_ttl(TTL).recheck_interval(Duration::from_secs(60));
    let [holding, waiting] = [t.connect(builder()).await, t.connect(builder()).await];
    let (guard, waiter) = t.contended(&holding, &waiting, "silent").await;
    let session = [t.store.session_of(guard.key()).await];
    settled(t, &session).await;
    let before = t.cost(&session).await;
    sleep(TTL * 4).await;
    let spent = t.cost(&session).await - before;
    assert!(spent.keepalives >= 16, "{spent:?}: two sessions were due for renewal");
    assert_eq!((spent.requests, spent.events), (0, 0), "{spent:?}");
    release_both(guard, waiter).await;
}

/// A lock is one request, and so is an unlock. A handover takes the unlock, one message to the next
/// client, and one read of that client.
pub(crate) async fn requests_of_a_handover_are_counted(t: &Case) {
    let [one, two] = t.clients().await;
    for _ in 0..5 {
        let before = Count::from(t).await;
        let guard = one.mutex("handed").lock().await.expect("granted");
        // From then on a holder watches its own key.
        let soon = Instant::now() + WATCH_AFTER;
        let locked = before.reaches(t, 1).await;
        let (before, mutex) = (Count::from(t).await, two.mutex("handed"));
        let waiting = tokio::spawn(async move { mutex.lock().await });
        // The client joins, watches its predecessor, and reads the queue.
        let joined = before.reaches(t, 3).await;
        let before = Count::from(t).await;
        guard.unlock().await.expect("released");
        let next = within(SOON, "the waiter is granted", waiting)
            .await
            .expect("no panic")
            .expect("granted");
        let handed = before.reaches(t, 2).await;
        let before = Count::from(t).await;
        next.unlock().await.expect("released");
        let unlocked = before.reaches(t, 1).await;
        if Instant::now() < soon {
            assert_eq!([locked, joined, handed, unlocked], [(1, 0), (3, 0), (2, 1), (1, 0)]);
            return;
        }
    }
    panic!("the machine is too busy");
}

/// A client that also watches the whole queue gets one event.
pub(crate) async fn a_release_notifies_a_client_once(t: &Case<dyn Sessions>) {
    let [one, two] = t.clients().await;
    let guard = one.mutex("handed").lock().await.expect("granted");
    let mut queue = two.mutex("handed").watch_queue().expect("a name");
    within(SOON, "the queue is shown", queue.next()).await.expect("the client is open");
    let waiter = t.enqueue(&two, "handed").await;
    while within(SOON, "both entries are shown", queue.next())
        .await
        .expect("the client is open")
        .len()
        < 2
    {}
    let session = [t.store.session_of(guard.key()).await];
    settled(t, &session).await;
    let before = t.cost(&session).await;
    let next = handover(guard, waiter).await;
    assert_eq!((t.cost(&session).await - before).events, 1);
    drop(queue);
    next.unlock().await.expect("released");
}

/// There are more clients than one request of the store notifies.
pub(crate) async fn every_client_that_waits_is_notified(t: &Case) {
    let guard = t.client().await.rw_lock("rw").write().await.expect("granted");
    let clients = t.clients::<120>().await;
    let mut readers = JoinSet::new();
    for client in &clients {
        let lock = client.rw_lock("rw");
        readers.spawn(async move { lock.read().await });
    }
    t.queue_of(1 + clients.len()).await;
    guard.unlock().await.expect("released");
    let inside = within(SOON, "all readers are granted", readers.join_all()).await;
    release(inside.into_iter().map(|reader| reader.expect("granted")).collect::<Vec<_>>()).await;
}

/// Counts requests and messages from a point in time.
struct Count(Cost);

impl Count {
    async fn from(t: &Case) -> Self {
        Self(t.cost(&[]).await)
    }

    /// Waits until there were `requests` requests. Returns how many requests and messages there
    /// were.
    async fn reaches(self, t: &Case, requests: u64) -> (u64, u64) {
        let mut spent = Cost::default();
        eventually(SOON, "the requests are counted", async || {
            spent = t.cost(&[]).await - self.0;
            spent.requests >= requests
        })
        .await;
        (spent.requests, spent.events.cast_unsigned())
    }
}
