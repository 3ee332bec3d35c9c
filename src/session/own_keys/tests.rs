use std::{
    pin::pin,
    sync::mpsc,
    task::{Context, Wake},
    thread,
    time::Duration,
};

use super::*;
use crate::backend::{LeaveOutcome, Predecessor};

fn entry(key: &str, revision: u64) -> Entry {
    Entry::new(key, revision)
}

fn add(own_keys: &OwnKeys, key: &str) -> Arc<OwnKey> {
    own_keys.add(entry(key, 1), SequencePoint(1), Duration::ZERO, false)
}

/// Polls a future once, and returns its result if it is ready.
async fn done<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = future => Some(done),
        () = tokio::task::yield_now() => None,
    }
}

/// A key is known by its name and, where the store reports it, by its creation.
#[test]
fn recreated_key_is_a_different_key() {
    let own_keys = OwnKeys::default();
    let own = own_keys.add(entry("/a/1", 7), SequencePoint(7), Duration::ZERO, false);
    for (key, revision, same) in [
        ("/a/1", 7, true),
        ("/a/1", 0, true),
        ("/a/1", 8, false),
        ("/a/2", 7, false),
        ("/a/2", 0, false),
    ] {
        assert_eq!(own.is(&entry(key, revision)), same, "{key} {revision}");
        assert_eq!(own_keys.find(&entry(key, revision)).is_some(), same, "{key} {revision}");
    }
}

/// An executor with its own thread may poll at once.
#[test]
fn waker_may_search_for_a_key() {
    struct Looks(Arc<OwnKeys>, Entry);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {
            drop(self.0.find(&self.1));
        }
    }
    let (sender, done) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.unwrap();
        let _within = runtime.enter();
        let entry = entry("/a/1", 1);
        let own_keys = Arc::new(OwnKeys::default());
        let _joining = own_keys.joins();
        let waker = Arc::new(Looks(Arc::clone(&own_keys), entry.clone())).into();
        let mut context = Context::from_waker(&waker);
        let mut first = pin!(own_keys.find_soon(&entry));
        let mut second = pin!(own_keys.find_soon(&entry));
        let _ = first.as_mut().poll(&mut context);
        let _ = second.as_mut().poll(&mut context);
        own_keys.add(entry.clone(), SequencePoint(1), Duration::ZERO, false);
        sender.send(()).unwrap();
    });
    done.recv_timeout(Duration::from_secs(10)).expect("it looks while one is added");
}

/// An attempt that joins may own the key in question, so the search waits for a moment.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_about_to_be_added_is_found() {
    let own_keys = OwnKeys::default();
    assert!(done(own_keys.find_soon(&entry("/a/1", 0))).await.is_some_and(|found| found.is_none()));
    let joining = own_keys.joins();
    let wanted = entry("/a/1", 0);
    {
        let mut soon = pin!(own_keys.find_soon(&wanted));
        assert!(done(&mut soon).await.is_none(), "one is about to join");
        add(&own_keys, "/a/2");
        assert!(done(&mut soon).await.is_none(), "that is another one");
        let added = add(&own_keys, "/a/1");
        let found = done(&mut soon).await.unwrap().unwrap();
        assert!(Arc::ptr_eq(&found, &added));
    }
    let (began, other) = (crate::runtime::clock::Instant::now(), entry("/a/3", 0));
    assert!(own_keys.find_soon(&other).await.is_none());
    let waited = began.elapsed();
    assert!((PATIENCE..PATIENCE * 2).contains(&waited), "{waited:?}");
    drop(joining);
    assert!(done(own_keys.find_soon(&other)).await.is_some(), "nobody joins any more");
}

/// Only the keys that ended last are remembered.
#[test]
fn ended_keys_are_remembered_up_to_a_bound() {
    let own_keys = OwnKeys::default();
    let known = |key: &str| own_keys.find(&entry(key, 0)).is_some();
    let (first, second) = (add(&own_keys, "/a/first"), add(&own_keys, "/a/second"));
    own_keys.end(&first, End::Unclear);
    // The name was used again.
    own_keys.end(&second, End::Unclear);
    let again = add(&own_keys, "/a/second");
    for number in 2..REMEMBERED {
        own_keys.end(&add(&own_keys, &format!("/a/{number}")), End::Unclear);
    }
    assert!(known("/a/first"));
    own_keys.end(&add(&own_keys, "/a/another"), End::Unclear);
    assert!(!known("/a/first") && known("/a/2"));
    own_keys.end(&add(&own_keys, "/a/one more"), End::Unclear);
    assert!(known("/a/2"));
    assert!(Arc::ptr_eq(&own_keys.find(&entry("/a/second", 0)).unwrap(), &again));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_for_a_key_learns_how_it_ended() {
    let own_keys = OwnKeys::default();
    let (holder, waiter) = (add(&own_keys, "/a/1"), add(&own_keys, "/a/2"));
    holder.hold();
    assert!(holder.is_held() && !waiter.is_held());
    assert!(holder.successor().is_none(), "nobody waits yet");
    {
        let mut ended = pin!(holder.ended(&waiter));
        assert!(done(&mut ended).await.is_none());
        assert!(Arc::ptr_eq(&holder.successor().unwrap(), &waiter));
        assert!(holder.leave() && !holder.is_held());
        assert!(done(&mut ended).await.is_none(), "it is not gone yet");
        let left = LeaveOutcome { existed: true, successor: true, at: SequencePoint(7) };
        let end = holder.end(true, left, Some(&waiter));
        own_keys.end(&holder, end);
        let end = done(&mut ended).await.unwrap();
        let End::Passed { successor, there: true, .. } = end else { panic!("{end:?}") };
        assert!(Arc::ptr_eq(&successor.upgrade().unwrap(), &waiter));
    }
    // A holder has no predecessor.
    waiter.hold();
    assert!(holder.successor().is_none());
    assert!(!holder.leave(), "it did not hold any more");
}

/// A holder may notice its loss late, so the waiter behind it reads the queue.
#[tokio::test(start_paused = true)]
async fn waiter_for_lost_key_reads_the_queue() {
    let own_keys = OwnKeys::default();
    let (holder, waiter) = (add(&own_keys, "/a/1"), add(&own_keys, "/a/2"));
    holder.hold();
    let mut ended = pin!(holder.ended(&waiter));
    let (mut lost, mut over) = (pin!(holder.lost()), pin!(holder.over()));
    assert!(done(&mut ended).await.is_none() && done(&mut lost).await.is_none());
    assert!(done(&mut over).await.is_none());
    holder.lose(LostReason::Evicted);
    assert!(matches!(done(&mut ended).await, Some(End::Unclear)));
    assert_eq!(done(&mut lost).await, Some(LostReason::Evicted));
    assert!(done(&mut over).await.is_some());
    // The first reason is kept. A release is different from a loss.
    holder.lose(LostReason::ClientClosed);
    assert_eq!(holder.lost_reason(), Some(LostReason::Evicted));
    assert!(holder.leave());
    assert!(done(holder.over()).await.is_some());
}

/// A waiter that leaves gives its place to the one behind it.
#[test]
fn deletion_reported_by_store_determines_key_end() {
    let own_keys = OwnKeys::default();
    let own = add(&own_keys, "/a/2");
    let at = SequencePoint(9);
    let left = |existed| LeaveOutcome { existed, successor: false, at };
    let ahead = Predecessor { entry: entry("/a/1", 1), first: true, seen: false };
    assert!(matches!(own.end(true, left(false), None), End::Unclear));
    assert!(matches!(own.end(false, left(true), None), End::Unclear), "it waited for nobody");
    own.wait_for(&ahead);
    assert!(matches!(own.end(false, left(false), None), End::Unclear));
    let end = own.end(false, left(true), None);
    assert!(
        matches!(&end, End::Left { at: end, predecessor } if (end, predecessor) == (&at, &ahead))
    );
    let end = own.end(true, left(true), None);
    let End::Passed { successor, there: false, .. } = end else { panic!("{end:?}") };
    assert!(successor.upgrade().is_none());
}
