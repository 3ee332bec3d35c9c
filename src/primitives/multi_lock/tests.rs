//! When several locks are acquired in one request, and the results, on a paused clock.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::*;
use crate::{
    backend::{Entry, Joined, LeaveOutcome, SequencePoint, Standing},
    runtime::clock::{Instant, sleep},
    session::fake_store::FakeStore,
};

/// Another entry that is first in its queue.
fn first() -> Joined {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let entry = Entry::new(format!("/ns/name/{number}"), number);
    let (standing, at) = (Standing::First, SequencePoint(number));
    Joined::Queued { entry, standing, at, alive: None, alone: true }
}

/// A store in which each lock is free, but only one by one.
fn store() -> Arc<FakeStore> {
    let store = FakeStore::new();
    store.enqueue.then(0, || Ok(first()));
    let at = SequencePoint(u64::MAX);
    store.leave.then(0, move || Ok(LeaveOutcome { existed: true, successor: false, at }));
    store
}

async fn several(store: &Arc<FakeStore>, names: usize) -> Several {
    let sessions = Sessions::open(store.shared()).await.unwrap();
    let names = (0..names).map(|name| format!("lock-{name}"));
    Several::new(sessions, names, None).unwrap()
}

/// Counts the requests to join: for all locks at once, and for single locks.
fn asked(store: &FakeStore) -> (usize, usize) {
    (store.asked("enqueue_all").len(), store.asked("enqueue").len())
}

#[tokio::test(start_paused = true)]
async fn at_most_a_fixed_number_is_acquired_in_one_request() {
    for (names, at_once) in [(1, 0), (2, 1), (AT_ONCE, 1), (AT_ONCE + 1, 0)] {
        let store = store();
        store.enqueue_all.then(0, move || Ok(Some((0..names).map(|_| first()).collect())));
        let all = several(&store, names).await;
        let all = all.take(Wait::Forever).await.unwrap().unwrap();
        assert_eq!(all.guards().len(), names);
        let one_by_one = if at_once == 1 { 0 } else { names };
        assert_eq!(asked(&store), (at_once, one_by_one), "{names}");
        all.unlock().await.unwrap();
    }
}

/// After a failure, the locks are acquired one by one if that may succeed. An attempt that must not
/// wait does not wait behind its own key.
#[tokio::test(start_paused = true)]
async fn failed_batch_is_acquired_one_by_one() {
    fn unavailable() -> StoreError {
        StoreError::Unavailable("no answer".into())
    }
    fn unknown() -> StoreError {
        StoreError::Unknown("no answer".into())
    }
    fn denied() -> StoreError {
        StoreError::Denied("no".into())
    }
    let late = || Wait::Until(Instant::now() + Duration::from_secs(10));
    for (case, (answer, wait, taken)) in [
        (None, Wait::Forever, true),
        (None, Wait::No, true),
        (Some(unavailable as fn() -> StoreError), Wait::Forever, true),
        (Some(unavailable), Wait::No, true),
        (Some(unknown), Wait::Forever, true),
        (Some(unknown), late(), true),
        (Some(unknown), Wait::No, false),
        (Some(denied), Wait::Forever, false),
    ]
    .into_iter()
    .enumerate()
    {
        let store = store();
        store.enqueue_all.then(0, move || answer.map_or(Ok(None), |error| Err(error())));
        let all = several(&store, 3).await.take(wait).await;
        assert_eq!(all.is_ok(), taken, "case {case}");
        assert_eq!(asked(&store), (1, if taken { 3 } else { 0 }), "case {case}");
        if let Ok(all) = all {
            all.unwrap().unlock().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn expired_timeout_does_not_acquire_one_by_one() {
    let store = store();
    let began = Instant::now();
    let wait = Wait::Until(began + Duration::from_millis(300));
    assert!(several(&store, 2).await.take(wait).await.unwrap().is_none());
    assert_eq!(began.elapsed().as_millis(), 300);
    assert_eq!(asked(&store), (1, 0));
}

/// A lock that is lost while the next one is waited for.
#[tokio::test(start_paused = true)]
async fn lock_lost_during_multi_acquire_ends_the_wait() {
    for evicted in [true, false] {
        let (store, held) = (FakeStore::new(), Entry::new("/ns/lock-0/1", 1));
        store.enqueue_all.then(0, || Ok(None));
        let (entry, at) = (held.clone(), SequencePoint(1));
        store.enqueue.then(0, move || {
            let (entry, standing) = (entry.clone(), Standing::First);
            Ok(Joined::Queued { entry, standing, at, alive: None, alone: true })
        });
        // The reply for the second lock takes long.
        store.enqueue.then(600_000, || Ok(first()));
        store.leave.then(0, move || Ok(LeaveOutcome { existed: false, successor: false, at }));
        store.close.then(0, || Ok(()));
        let all = several(&store, 2).await;
        let session = all.sessions.any().await.unwrap();
        let taking = tokio::spawn(async move { all.take(Wait::Forever).await.map(drop) });
        sleep(Duration::from_millis(100)).await;
        if evicted {
            session.own_keys.find(&held).unwrap().lose(LostReason::Evicted);
        } else {
            session.deadline.lose(LostReason::ClientClosed);
        }
        let error = taking.await.unwrap().unwrap_err();
        let reported = match &error {
            Error::Evicted { name } => name == "lock-0",
            Error::Closed => false,
            _ => panic!("{error:?}"),
        };
        assert_eq!(reported, evicted);
    }
}

/// A lock whose key was deleted without an event, while the call waited for the next lock.
#[tokio::test(start_paused = true)]
async fn multi_grant_after_wait_rechecks_earlier_keys() {
    for (waited, there, looks) in [(100, false, 0), (500, true, 1), (500, false, 1)] {
        let (store, at) = (FakeStore::new(), SequencePoint(u64::MAX));
        store.leave.then(0, move || Ok(LeaveOutcome { existed: true, successor: false, at }));
        store.enqueue_all.then(0, || Ok(None));
        let held = Entry::new("/ns/lock-0/1", 1);
        store.enqueue.then(0, move || {
            let (entry, standing) = (held.clone(), Standing::First);
            Ok(Joined::Queued { entry, standing, at, alive: None, alone: true })
        });
        store.enqueue.then(waited, || Ok(first()));
        let standing = move || if there { Standing::First } else { Standing::Evicted };
        store.standing.then(0, move || Ok(standing()));
        store.watch.then(600_000, || Ok(None));
        let taken = several(&store, 2).await.take(Wait::Forever).await;
        assert_eq!(store.asked("standing /ns/lock-0/1").len(), looks, "after {waited} ms");
        match taken {
            Ok(all) => assert!(there || looks == 0, "{all:?}"),
            Err(error) => assert!(matches!(error, Error::Evicted { name } if name == "lock-0")),
        }
    }
}

/// A lock that was lost matters more than a release that the store refuses.
#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_before_a_refused_release() {
    let (store, at) = (FakeStore::new(), SequencePoint(u64::MAX));
    store.enqueue_all.then(0, || Ok(Some(vec![first(), first()])));
    store.leave.then(0, || Err(StoreError::Denied("no".into())));
    store.leave.then(0, move || Ok(LeaveOutcome { existed: false, successor: false, at }));
    let all = several(&store, 2).await.take(Wait::Forever).await.unwrap().unwrap();
    let error = all.unlock().await.unwrap_err();
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
}
