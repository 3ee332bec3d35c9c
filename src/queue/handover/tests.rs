//! How often a lock is passed on within a client, by a stopped clock.

use std::{
    sync::{
        Mutex as StdMutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::*;
use crate::{
    backend::{Entry, Joined, Left, Moment, Standing, error::StoreError},
    client::Client,
    runtime::clock::{Instant, sleep},
    session::double::Double,
};

/// A store in which everybody who joins is first.
fn store() -> Arc<Double> {
    let (store, last) = (Double::new(), AtomicU64::new(0));
    store.enqueue.then(0, move || {
        let number = last.fetch_add(1, Ordering::Relaxed) + 1;
        let entry = Entry::new(format!("/ns/a/{number}"), number);
        let (standing, at) = (Standing::First, Moment(number));
        Ok(Joined::Queued { entry, standing, at, alive: None, alone: true })
    });
    let at = Moment(u64::MAX);
    store.leave.then(0, move || Ok(Left { existed: true, successor: false, at }));
    store.close.then(0, || Ok(()));
    store
}

/// The keys, and the numbers of the grants, that so many callers of one client are given who wait
/// for each other; and when.
async fn grants(store: &Arc<Double>, max: u32, callers: usize) -> Vec<(u64, u64, u64)> {
    let client = Client::open(store.shared(), Some(max)).await.unwrap();
    let (began, grants) = (Instant::now(), Arc::<StdMutex<Vec<_>>>::default());
    let take = || {
        let (mutex, grants) = (client.mutex("a"), Arc::clone(&grants));
        async move {
            let guard = mutex.lock().await.unwrap();
            let token = guard.fencing_token().as_u64();
            let at = u64::try_from(began.elapsed().as_millis()).unwrap();
            assert!(guard.key().ends_with(&format!("/{}", token >> 16)), "{guard:?}");
            grants.lock().unwrap().push((token >> 16, token & 0xffff, at));
            guard
        }
    };
    let first = take().await;
    let others: Vec<_> = (1..callers)
        .map(|_| {
            let take = take();
            tokio::spawn(async move { take.await.unlock().await.unwrap() })
        })
        .collect();
    sleep(Duration::from_millis(1)).await;
    first.unlock().await.unwrap();
    for other in others {
        other.await.unwrap();
    }
    let grants = grants.lock().unwrap();
    grants.clone()
}

fn without_times(grants: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
    grants.iter().map(|(key, grant, _)| (*key, *grant)).collect()
}

/// So often it is passed on without a look whether others wait.
#[tokio::test(start_paused = true)]
async fn a_lock_is_passed_on_so_often() {
    for (max, alone, granted, looks) in [
        // Where nobody else waits it is passed on, and counted anew.
        (2, true, [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5)], 2),
        (2, false, [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)], 1),
        (1, false, [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)], 2),
        (5, false, [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5)], 0),
    ] {
        let store = store();
        store.followed.then(0, move || Ok(!alone));
        let grants = grants(&store, max, 6).await;
        assert_eq!(without_times(&grants), granted, "{max} {alone}");
        assert_eq!(store.asked("followed").len(), looks, "{max} {alone}");
        // Nobody waits behind the last one.
        assert_eq!(store.asked("leave").len(), store.asked("enqueue").len());
    }
}

/// Nobody has the lock while it is not known whether others wait: that is not for long.
#[tokio::test(start_paused = true)]
async fn without_an_answer_the_others_get_their_turn() {
    for (fails, waits) in [(true, 0), (false, 250)] {
        let store = store();
        if fails {
            store.followed.then(0, || Err(StoreError::Unavailable("no answer".into())));
        }
        let grants = grants(&store, 1, 3).await;
        assert_eq!(without_times(&grants), [(1, 0), (1, 1), (2, 0)]);
        assert_eq!(grants[2].2 - grants[1].2, waits);
    }
}

/// One that only tries gets no lock that another caller of its client has, unless that is lost.
#[tokio::test(start_paused = true)]
async fn who_only_tries_gets_what_is_free() {
    let store = store();
    let client = Client::open(store.shared(), Some(4)).await.unwrap();
    let mutex = client.mutex("a");
    let guard = mutex.try_lock().await.unwrap().unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert_eq!(store.asked("enqueue").len(), 1);
    guard.own_key().lose(crate::LostReason::KeyDeleted);
    let next = mutex.try_lock().await.unwrap().unwrap();
    assert_eq!(store.asked("enqueue").len(), 2);
    assert!(next.is_valid() && !guard.is_valid());
    // What was lost is not given to those who come.
    drop(guard);
    assert!(mutex.try_lock().await.unwrap().is_none() && next.is_valid());
    next.unlock().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_some());
}

/// Nobody is left over when all have gone.
#[tokio::test(start_paused = true)]
async fn those_who_go_are_forgotten() {
    let store = store();
    let shared = store.shared();
    let (handover, sessions) =
        (Arc::new(Handover::new(4, shared.runtime.clone())), Sessions::open(shared).await.unwrap());
    let known = || handover.state.lock().locals.len();
    let waiting = || handover.state.lock().locals.values().map(|local| local.waiting.len()).sum();
    let holder = handover.acquire(&sessions, "a", Wait::Forever).await.unwrap().unwrap();
    let short = Wait::at_most(Duration::from_millis(10));
    assert!(handover.acquire(&sessions, "a", short).await.unwrap().is_none());
    assert_eq!((known(), waiting()), (1, 0));
    let mut waits = Box::pin(handover.acquire(&sessions, "a", Wait::Forever));
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
    assert_eq!((known(), waiting()), (1, 1));
    // It is given to one that has gone since: then to the next one, or to nobody.
    drop(holder);
    drop(waits);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(known(), 0);
    assert_eq!(store.asked("leave").len(), 1);
    // Those who wait are told of the client's end, and those who come later.
    let holder = handover.acquire(&sessions, "a", Wait::Forever).await.unwrap();
    let mut waits = Box::pin(handover.acquire(&sessions, "a", Wait::Forever));
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
    handover.close();
    assert!(matches!(waits.await, Err(Error::Closed)));
    for wait in [Wait::Forever, Wait::No] {
        assert!(matches!(handover.acquire(&sessions, "b", wait).await, Err(Error::Closed)));
    }
    drop(holder);
}

/// A turn that reaches nobody is the next one's, and so is a place in the store's queue.
#[tokio::test(start_paused = true)]
async fn a_turn_of_one_who_has_gone_is_passed_on() {
    let gone = |handover: &Handover| {
        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        let mut state = handover.state.lock();
        state.locals.values_mut().next().unwrap().waiting.insert(0, sender);
    };
    // From a holder.
    let store = store();
    let shared = store.shared();
    let handover = Arc::new(Handover::new(4, shared.runtime.clone()));
    let sessions = Sessions::open(shared).await.unwrap();
    let holder = handover.acquire(&sessions, "a", Wait::Forever).await.unwrap().unwrap();
    let mut waits = Box::pin(handover.acquire(&sessions, "a", Wait::Forever));
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
    gone(&handover);
    drop(holder);
    let share = waits.await.unwrap().unwrap();
    assert_eq!((share.token(), store.asked("enqueue").len()), (1 << 16 | 2, 1));
    sleep(Duration::from_millis(10)).await;
    assert!(store.asked("leave").is_empty() && share.tenure().is_valid());
    drop(share);
    // From one that was about to take it from the store.
    let store = Double::new();
    store.enqueue.then(500, || {
        let (entry, standing) = (Entry::new("/ns/a/1", 1), Standing::First);
        Ok(Joined::Queued { entry, standing, at: Moment(1), alive: None, alone: true })
    });
    store.leave.then(0, || Ok(Left { existed: true, successor: false, at: Moment(2) }));
    let shared = store.shared();
    let handover = Arc::new(Handover::new(4, shared.runtime.clone()));
    let sessions = Sessions::open(shared).await.unwrap();
    let mut leads = Box::pin(handover.acquire(&sessions, "a", Wait::Forever));
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut leads).await.is_err());
    let mut waits = Box::pin(handover.acquire(&sessions, "a", Wait::Forever));
    assert!(tokio::time::timeout(Duration::from_millis(10), &mut waits).await.is_err());
    gone(&handover);
    drop(leads);
    let share = waits.await.unwrap().unwrap();
    assert_eq!((share.token(), store.asked("enqueue").len()), (1 << 16, 1));
}
