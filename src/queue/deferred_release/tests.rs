//! When a release that is left to one of the user's transactions sends a request, on a paused
//! clock.

use std::{process, time::Duration};

use distlock_fork::{Fork, ends_within};

use super::*;
use crate::{
    backend::{Entry, Join, Joined, LeaveOutcome, Queue, SequencePoint, Standing},
    queue::{attempt::Attempt, hold_until},
    runtime::clock::{self, sleep},
    session::{fake_store::FakeStore, own_key::OwnKey},
};

/// A release that is left to a transaction, and the key.
async fn deferred(
    store: &Arc<FakeStore>,
    held: Option<Duration>,
) -> (DeferredRelease, Arc<OwnKey>) {
    store.enqueue.then(0, || {
        let (entry, standing) = (Entry::new("/ns/a/1", 1), Standing::First);
        Ok(Joined::Queued { entry, standing, at: SequencePoint(1), alive: None, alone: true })
    });
    store
        .leave
        .then(0, || Ok(LeaveOutcome { existed: false, successor: false, at: SequencePoint(2) }));
    let session = store.session().await;
    let attempt = Attempt::in_session(&session, &Queue::new("/ns", "a").unwrap()).unwrap();
    let (interest, _interested) = oneshot::channel();
    let joined = attempt.join(Join::Always, None, interest).await.unwrap();
    let mut attempt = joined.unwrap().attempt;
    attempt.grant().unwrap();
    let own = Arc::clone(attempt.own_key().unwrap());
    if let Some(held) = held {
        hold_until(&attempt, &own, clock::now() + held);
    }
    (attempt.defer_release().unwrap(), own)
}

fn is_busy(session: &Session) -> bool {
    session.deadline.vitals().busy
}

#[tokio::test(start_paused = true)]
async fn deferred_release_queries_store_after_drop() {
    let store = FakeStore::new();
    let (release, own) = deferred(&store, None).await;
    let session = Arc::clone(&release.session);
    assert!(!own.is_held(), "its guard is not valid any more");
    sleep(Duration::from_secs(30)).await;
    assert!(store.asked("leave").is_empty());
    assert!(is_busy(&session), "the session has a key");
    drop(release);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(store.asked("leave"), [30_000]);
    assert!(!is_busy(&session));
}

#[tokio::test(start_paused = true)]
async fn store_is_not_asked_after_a_commit() {
    let store = FakeStore::new();
    let (release, own) = deferred(&store, None).await;
    let session = Arc::clone(&release.session);
    let next = {
        let entry = Entry::new("/ns/a/2", 2);
        session.own_keys.add(entry, SequencePoint(2), Duration::ZERO, false)
    };
    let waiting = tokio::spawn(async move { own.ended(&next).await });
    sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished());
    release.was_made();
    waiting.await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert!(store.asked("leave").is_empty());
    assert!(!is_busy(&session), "all counts are even");
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_deferred_release() {
    for dropped in [false, true] {
        let store = FakeStore::new();
        let (release, _own) = deferred(&store, Some(Duration::from_secs(5))).await;
        let session = Arc::clone(&release.session);
        sleep(Duration::from_secs(2)).await;
        let release = (!dropped).then_some(release);
        sleep(Duration::from_secs(10)).await;
        assert_eq!(store.asked("leave"), [if dropped { 2000 } else { 5000 }]);
        if let Some(release) = release {
            release.was_made();
        }
        assert!(!is_busy(&session), "all counts are even");
    }
}

/// The timer of the maximum hold time may hold the lock at the fork.
#[tokio::test]
async fn forked_child_does_not_wait_for_its_parents_release() {
    let store = FakeStore::new();
    let (release, _own) = deferred(&store, None).await;
    let pending = Arc::clone(&release.pending);
    let held = pending.lock();
    let child = match distlock_fork::split().unwrap() {
        Fork::Child => {
            drop(release);
            process::exit(0);
        }
        Fork::Parent(child) => child,
    };
    drop(held);
    let ended = ends_within(child, Duration::from_secs(20)).unwrap();
    assert!(ended, "the child hangs");
    drop(release);
}
