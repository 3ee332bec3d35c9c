//! When a waiter reads the queue, and what it concludes, on a paused clock.

mod room;
#[cfg(feature = "tracing")]
mod slow;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    Error, LockGuard,
    backend::{
        Entry, Event, Fate, Joined, LeaveOutcome, Listing, Member, Predecessor, Present,
        SequencePoint, Standing, Watch, error::StoreError,
    },
    client::Client,
    runtime::clock::{sleep, timeout},
    session::fake_store::{self, FakeStore, grow},
};

/// A store in which each new entry gets this standing.
fn store(standing: impl Fn() -> Standing + Send + 'static) -> Arc<FakeStore> {
    store_in("/ns/a/", standing)
}

/// A store in which each key is this prefix and a number.
fn store_in(
    prefix: &'static str,
    standing: impl Fn() -> Standing + Send + 'static,
) -> Arc<FakeStore> {
    let (store, last) = (FakeStore::new(), AtomicU64::new(0));
    store.enqueue.then(0, move || {
        let number = last.fetch_add(1, Ordering::Relaxed) + 1;
        let (entry, at) = (Entry::new(format!("{prefix}{number}"), number), SequencePoint(number));
        Ok(Joined::Queued { entry, standing: standing(), at, alive: None, alone: false })
    });
    let at = SequencePoint(u64::MAX);
    store.leave.then(0, move || Ok(LeaveOutcome { existed: true, successor: false, at }));
    store.close.then(0, || Ok(()));
    store
}

fn behind(first: bool, seen: bool) -> Standing {
    Standing::Behind(Predecessor { entry: Entry::new("/ns/a/other", 0), first, seen })
}

fn never() -> Watch {
    Box::pin(std::future::pending())
}

fn deleted() -> Watch {
    Box::pin(async { Ok(Event::Deleted) })
}

/// Waits for a mutex for this many seconds.
async fn waits(store: &Arc<FakeStore>, seconds: u64) -> Option<Result<LockGuard, Error>> {
    let client = Client::open(store.shared()).await.unwrap();
    timeout(Duration::from_secs(seconds), client.mutex("a").lock()).await.ok()
}

/// A waiter rechecks two keys every 20 to 25 seconds, and reads the queue only after a change.
#[tokio::test(start_paused = true)]
async fn waiter_rechecks_periodically() {
    for (own, ahead, granted) in [
        (true, Fate::There, None),
        (true, Fate::Gone, Some(true)),
        (true, Fate::Released, Some(true)),
        (false, Fate::There, Some(false)),
        (false, Fate::Gone, Some(false)),
    ] {
        let store = store(|| behind(true, true));
        store.urgent_watch.then(0, || Ok(Some(never())));
        store.present.then(0, || Ok(Present { own: true, ahead: Fate::There }));
        store.present.then(0, move || Ok(Present { own, ahead }));
        let taken = waits(&store, 76).await;
        let result = taken.as_ref().map(|taken| match taken {
            Ok(_) => true,
            Err(Error::Evicted { .. }) => false,
            Err(error) => panic!("{error:?}"),
        });
        assert_eq!(result, granted, "{own} {ahead:?}");
        let looks = store.asked("present");
        assert_eq!(looks.len(), if granted.is_some() { 2 } else { 3 }, "{looks:?}");
        let mut last = 0;
        for look in &looks {
            assert!((20_000..=25_001).contains(&(look - last)), "{looks:?}");
            last = *look;
        }
        // During the recheck, the watch continues and the queue is not read.
        assert_eq!(store.asked("urgent watch /ns/a/other").len(), 1);
        assert!(store.asked("standing /ns/a/1").is_empty());
    }
}

/// What a predecessor's deletion proves depends on what is known of the predecessor.
#[tokio::test(start_paused = true)]
async fn predecessor_deletion_triggers_a_read() {
    for (first, seen, present, standing) in
        [(true, true, 1, 0), (false, true, 0, 1), (true, false, 0, 1), (false, false, 0, 1)]
    {
        let store = store(move || behind(first, seen));
        store.urgent_watch.then(0, || Ok(Some(deleted())));
        store.present.then(0, || Ok(Present { own: true, ahead: Fate::Gone }));
        store.standing.then(0, || Ok(Standing::First));
        let taken = waits(&store, 1).await;
        assert!(taken.is_some_and(|taken| taken.is_ok()), "{first} {seen}");
        let asked = (store.asked("present").len(), store.asked("standing /ns/a/1").len());
        // A predecessor that was only inferred has been seen once its watch has started.
        let looked = if (first, seen) == (true, false) { (1, 0) } else { (present, standing) };
        assert_eq!(asked, looked, "{first} {seen}");
    }
}

/// A read-write lock's queue: our own reader, and a writer if `is_there`.
fn written(is_there: bool) -> Listing {
    let member = |key: &str, revision, label: &str| Member {
        entry: Entry::new(key, revision),
        label: Some(label.into()),
        detail: None,
    };
    let writer = is_there.then(|| member("/ns/a/other", 0, "w"));
    let members = writer.into_iter().chain([member("/ns/a/1", 1, "r")]).collect();
    Listing { members, ..Listing::default() }
}

/// Where keys show labels, a reader rechecks only the writer's key and its own, because thousands
/// of readers would otherwise list thousands of keys each. After a change, it reads the queue.
#[tokio::test(start_paused = true)]
async fn a_recheck_of_readers_needs_no_list() {
    for (shows_labels, own, ahead, looks, lists, granted) in [
        (true, true, Fate::There, 3, 1, None),
        (true, true, Fate::Gone, 2, 2, Some(true)),
        (true, true, Fate::Released, 2, 2, Some(true)),
        (true, false, Fate::There, 2, 1, Some(false)),
        (false, true, Fate::There, 0, 4, None),
    ] {
        let store = store(|| Standing::First);
        store.change(|facts| facts.renames_relabelled = shows_labels);
        store.list.then(0, || Ok(written(true)));
        if ahead != Fate::There {
            store.list.then(0, || Ok(written(false)));
        }
        store.urgent_watch.then(0, || Ok(Some(never())));
        store.present.then(0, || Ok(Present { own: true, ahead: Fate::There }));
        store.present.then(0, move || Ok(Present { own, ahead }));
        let client = Client::open(store.shared()).await.unwrap();
        let taken = timeout(Duration::from_secs(76), client.rw_lock("a").read()).await.ok();
        let result = taken.as_ref().map(|taken| match taken {
            Ok(_) => true,
            Err(Error::Evicted { .. }) => false,
            Err(error) => panic!("{error:?}"),
        });
        let asked = (store.asked("present").len(), store.asked("list").len());
        assert_eq!((result, asked), (granted, (looks, lists)), "{shows_labels} {own} {ahead:?}");
    }
}

/// When a writer's entry ends, its waiter reads the queue: other entries may be ahead.
#[tokio::test(start_paused = true)]
async fn writer_release_alone_does_not_grant_readers() {
    let store = store(|| Standing::First);
    store.change(|facts| facts.renames_relabelled = true);
    store.list.then(0, || Ok(written(true)));
    store.urgent_watch.then(0, || Ok(Some(deleted())));
    store.urgent_watch.then(0, || Ok(Some(never())));
    store.present.then(0, || Ok(Present { own: true, ahead: Fate::Gone }));
    let client = Client::open(store.shared()).await.unwrap();
    let taken = timeout(Duration::from_secs(5), client.rw_lock("a").read()).await;
    assert!(taken.is_err(), "the list has another writer ahead");
}

/// A semaphore's queue: a holder of the only permit, and our own entry.
fn full(watch: Option<Watch>) -> Listing {
    let member = |key: &str, revision| {
        let (entry, label) = (Entry::new(key, revision), Some("1of1".into()));
        Member { entry, label, detail: None }
    };
    let members = vec![member("/ns/a/other", 0), member("/ns/a/2", 2)];
    Listing { members, watch, ..Listing::default() }
}

fn free() -> Listing {
    let mut listing = full(None);
    listing.members.remove(0);
    listing
}

async fn waits_for_a_permit(
    answers: impl FnOnce(&FakeStore),
    seconds: u64,
) -> (Arc<FakeStore>, bool) {
    let store = store(|| Standing::First);
    answers(&store);
    let client = Client::open(store.shared()).await.unwrap();
    let semaphore = client.semaphore("a", 1);
    let taken = timeout(Duration::from_secs(seconds), semaphore.acquire()).await;
    let granted = taken.is_ok_and(|taken| taken.is_ok());
    (store, granted)
}

fn pauses(store: &FakeStore) -> Vec<u64> {
    let asked = store.asked("list");
    // The first listing has no watch. The second one, with a watch, follows at once.
    assert_eq!(asked[1] - asked[0], 0);
    fake_store::pauses(&asked[1..])
}

#[tokio::test(start_paused = true)]
async fn permit_waiter_reads_after_changes() {
    let changed = |after| {
        let watch: Watch = Box::pin(async move {
            sleep(Duration::from_millis(after)).await;
            Ok(Event::Touched)
        });
        Some(watch)
    };
    let answers = |store: &FakeStore| {
        store.list.then(0, || Ok(full(None)));
        store.list.then(0, move || Ok(full(changed(500))));
        store.list.then(0, move || Ok(full(changed(700))));
        store.list.then(0, || Ok(free()));
    };
    let (store, granted) = waits_for_a_permit(answers, 10).await;
    assert!(granted);
    assert_eq!(pauses(&store), [500, 700]);
}

/// A watch that fails is started again after a pause that grows. An event resets the pause.
#[tokio::test(start_paused = true)]
async fn permit_waiter_backs_off_after_broken_watches() {
    fn broken() -> Option<Watch> {
        Some(Box::pin(async { Err(StoreError::Unavailable("it broke".into())) }))
    }
    let none = |store: &FakeStore| store.list.then(0, || Ok(full(None)));
    let (store, granted) = waits_for_a_permit(none, 1).await;
    assert!(!granted);
    grow(&pauses(&store));
    let answers = |store: &FakeStore| {
        for _ in 0..7 {
            store.list.then(0, || Ok(full(broken())));
        }
        store.list.then(0, || Ok(full(Some(deleted()))));
        store.list.then(0, || Ok(full(broken())));
    };
    let (store, granted) = waits_for_a_permit(answers, 10).await;
    assert!(!granted);
    let pauses = pauses(&store);
    grow(&pauses[..6]);
    assert_eq!(pauses[6], 0, "{pauses:?}");
    grow(&pauses[7..]);
}

#[tokio::test(start_paused = true)]
async fn permit_waiter_rechecks_periodically() {
    let answers = |store: &FakeStore| store.list.then(0, || Ok(full(Some(never()))));
    let (store, granted) = waits_for_a_permit(answers, 76).await;
    assert!(!granted);
    // All listings but the first start a watch. A listing from a server that lags can only make the
    // waiter wait longer. The key at the gate is watched, because an operator may evict the waiter.
    let (looks, watched) = (store.asked("list").len(), store.asked("watched list").len());
    assert_eq!((watched, store.asked("fresh list").len()), (looks - 1, 0));
    assert!(!store.asked("watch /ns/a/1").is_empty());
    let pauses = pauses(&store);
    assert_eq!(pauses.len(), 3, "{pauses:?}");
    assert!(pauses.iter().all(|pause| (20_000..=25_001).contains(pause)), "{pauses:?}");
}

fn nobody() -> Listing {
    Listing { members: vec![], ..Listing::default() }
}

/// An attempt without a wait writes nothing if the newest state shows too few permits.
#[tokio::test(start_paused = true)]
async fn try_reads_before_it_writes() {
    for (looks, written) in [
        // No permit is free; or another client takes it while this one is at the gate; or as this
        // one joins the queue of the permits.
        (&[true][..], 0),
        (&[false, true], 1),
        (&[false, false, true], 2),
    ] {
        let store = store(|| Standing::First);
        for &full_by_then in looks {
            store.list.then(0, move || Ok(if full_by_then { full(None) } else { nobody() }));
        }
        let client = Client::open(store.shared()).await.unwrap();
        let semaphore = client.semaphore("a", 1);
        let taken = timeout(Duration::from_millis(200), semaphore.try_acquire());
        assert!(taken.await.unwrap().unwrap().is_none(), "{looks:?}");
        assert_eq!(store.asked("enqueue").len(), written, "{looks:?}");
        // After an entry in vain, the queue is listed, because the entries ahead may be dead.
        assert_eq!(store.asked("fresh list").len(), looks.len(), "{looks:?}");
        sleep(Duration::from_millis(10)).await;
        assert_eq!(store.asked("leave").len(), written, "{looks:?}");
    }
}

/// A writer behind the same writer as before continues to wait. Behind another one, it watches that
/// one.
#[tokio::test(start_paused = true)]
async fn reader_behind_writer_rechecks_periodically() {
    let queue = |keys: &[(&str, u64)]| {
        let member = |(key, revision): &(&str, u64)| Member {
            entry: Entry::new(*key, *revision),
            label: Some("w".into()),
            detail: None,
        };
        Listing { members: keys.iter().map(member).collect(), ..Listing::default() }
    };
    let store = store(|| behind(false, true));
    let own = ("/ns/a/1", 1);
    let (other, another) = ("/ns/a/other", "/ns/a/another");
    for ahead in [other, other, other, another, another] {
        store.list.then(0, move || Ok(queue(&[(ahead, 0), own])));
    }
    store.list.then(0, move || Ok(queue(&[own])));
    store.urgent_watch.then(0, || Ok(Some(never())));
    let client = Client::open(store.shared()).await.unwrap();
    let lock = client.rw_lock("a");
    assert!(timeout(Duration::from_secs(101), lock.write()).await.unwrap().is_ok());
    // Two listings at the start; then the same writer; then another one, which is watched; then
    // none.
    assert_eq!(store.asked("urgent watch /ns/a/other").len(), 1);
    assert_eq!(store.asked("urgent watch /ns/a/another").len(), 1);
    let looks = store.asked("list");
    assert!(looks.len() >= 5, "{looks:?}");
}

/// What is known of the predecessor decides whether both keys are read when the watch starts.
#[tokio::test(start_paused = true)]
async fn a_short_hold_may_end_before_it_is_watched() {
    for (first, seen, fate, granted) in [
        (true, true, Fate::Gone, true),
        (true, true, Fate::Released, true),
        (true, true, Fate::There, false),
        (true, false, Fate::Gone, false),
        (false, true, Fate::Gone, false),
    ] {
        let store = store(move || behind(first, seen));
        store.urgent_watch.then(600_000, || Ok(Some(never())));
        store.present.then(5, move || Ok(Present { own: true, ahead: fate }));
        let taken = waits(&store, 10).await;
        assert_eq!(taken.is_some_and(|taken| taken.is_ok()), granted, "{first} {seen} {fate:?}");
        assert_eq!(store.asked("present").len(), usize::from(first && seen));
    }
}

/// A watch that fails to start proves nothing. The following read shows the standing.
#[tokio::test(start_paused = true)]
async fn waiter_without_watch_polls_the_queue() {
    let silent = || StoreError::Unavailable("no answer".into());
    let store = store(|| behind(true, false));
    store.urgent_watch.then(5, move || Err(silent()));
    // The same predecessor, which exists; then another one; then none.
    store.standing.then(0, || Ok(behind(true, true)));
    store.standing.then(0, || {
        let entry = Entry::new("/ns/a/another", 0);
        Ok(Standing::Behind(Predecessor { entry, first: true, seen: false }))
    });
    store.standing.then(0, || Ok(Standing::First));
    let taken = waits(&store, 10).await;
    assert!(taken.is_some_and(|taken| taken.is_ok()));
    assert_eq!(store.asked("standing /ns/a/1").len(), 3);
    // The predecessor had been seen, so both keys are read when the second watch starts.
    assert_eq!(store.asked("present").len(), 1);
    let watched = |key: &str| store.asked(&format!("urgent watch {key}")).len();
    assert_eq!((watched("/ns/a/other"), watched("/ns/a/another")), (2, 1));
}

/// Only the reply to joining shows a predecessor that existed at that moment.
#[tokio::test(start_paused = true)]
async fn predecessor_seen_at_join_counts_as_existing() {
    for (first, seen, expected) in
        [(true, true, 1), (false, true, 1), (true, false, 0), (false, false, 0)]
    {
        let store = store(move || behind(first, seen));
        store.urgent_watch.then(5, || Ok(Some(Box::pin(async { Ok(Event::Touched) }))));
        store.urgent_watch.then(5, || Ok(Some(deleted())));
        store.present.then(5, || Ok(Present { own: true, ahead: Fate::There }));
        store.standing.then(0, move || Ok(behind(first, true)));
        store.standing.then(0, move || {
            let entry = Entry::new("/ns/a/another", 0);
            Ok(Standing::Behind(Predecessor { entry, first, seen: true }))
        });
        store.standing.then(0, || Ok(Standing::First));
        drop(waits(&store, 1).await);
        let known = |key: &str| store.asked(&format!("watch /ns/a/{key} that existed at 1")).len();
        assert_eq!((known("other"), known("another")), (expected, 0), "{first} {seen}");
        assert!(store.asked("urgent watch /ns/a/other").len() > 1, "{first} {seen}");
    }
}
