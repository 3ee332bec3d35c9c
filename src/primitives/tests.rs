//! What the primitives conclude from a store's replies, on a paused clock.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{
    Client, Error, LeadershipHandle, LostReason,
    backend::{
        Detail, Entry, Joined, LeaveOutcome, Listing, Member, SequencePoint, Standing,
        error::StoreError, name::Queue,
    },
    runtime::clock::timeout,
    session::{
        Visit,
        fake_store::{FakeStore, grow, pauses},
    },
};

/// A store in which each new entry gets this standing.
fn store(standing: fn() -> Standing) -> Arc<FakeStore> {
    let store = FakeStore::new();
    joins(&store, standing);
    let at = SequencePoint(u64::MAX);
    store.leave.then(0, move || Ok(LeaveOutcome { existed: true, successor: false, at }));
    store.close.then(0, || Ok(()));
    store
}

fn joins(store: &FakeStore, standing: fn() -> Standing) {
    static LAST: AtomicU64 = AtomicU64::new(0);
    store.enqueue.then(0, move || {
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        let (entry, at) = (Entry::new(format!("/ns/a/{number}"), number), SequencePoint(number));
        Ok(Joined::Queued { entry, standing: standing(), at, alive: None, alone: true })
    });
}

fn first() -> Standing {
    Standing::First
}

async fn client(store: &Arc<FakeStore>) -> Client {
    Client::open(store.shared()).await.unwrap()
}

/// A listing of entries with these numbers and this label.
fn listing(numbers: &[u64], label: &str, notes: &[&str]) -> Listing {
    let member = |number: &u64| {
        let entry = Entry::new(format!("/ns/a/other{number}"), *number);
        let detail = Detail { value: vec![], version: 0, since: None, own: true };
        Member { entry, label: Some(label.into()), detail: Some(detail) }
    };
    let notes = notes.iter().map(|note| (*note).into()).collect();
    Listing { members: numbers.iter().map(member).collect(), notes, ..Listing::default() }
}

/// A candidate whose key was deleted joins again, after growing pauses. A refusal ends that.
#[tokio::test(start_paused = true)]
async fn candidate_rejoins_after_its_key_is_deleted() {
    let store = FakeStore::new();
    for _ in 0..5 {
        joins(&store, || Standing::Evicted);
    }
    joins(&store, first);
    store
        .leave
        .then(0, || Ok(LeaveOutcome { existed: true, successor: false, at: SequencePoint(1) }));
    let election = client(&store).await.election("a");
    let done = election.run("candidate", pending(), async |_| "done").await.unwrap();
    assert_eq!(done, Some("done"));
    let asked = store.asked("enqueue");
    assert_eq!(asked.len(), 6);
    grow(&pauses(&asked));
    let store = FakeStore::new();
    store.enqueue.then(0, || Err(StoreError::Denied("no".into())));
    let election = client(&store).await.election("a");
    let refused =
        timeout(Duration::from_secs(5), election.run("candidate", pending(), async |_| ())).await;
    assert!(matches!(refused, Ok(Err(Error::Denied { .. }))), "{refused:?}");
    assert_eq!(store.asked("enqueue").len(), 1);
}

/// A session that ends before anything is written does not fail the call, up to three times.
#[tokio::test(start_paused = true)]
async fn calls_continue_in_new_sessions() {
    let gone = || Err(StoreError::SessionGone(LostReason::SessionExpired));
    for (stale, done) in [(3, true), (4, false)] {
        let stores = [(); 2].map(|()| {
            let store = FakeStore::new();
            store.list.then(0, || Ok(listing(&[7], "", &[])));
            for _ in 0..stale {
                store.enqueue.then(0, gone);
            }
            joins(&store, first);
            store.leave.then(0, || {
                Ok(LeaveOutcome { existed: true, successor: false, at: SequencePoint(1) })
            });
            store.close.then(0, || Ok(()));
            store
        });
        let [locks, asks] = &stores;
        let locked = client(locks).await.mutex("a").lock().await.map(drop);
        let asked = client(asks).await.mutex("a").request_release("please").await;
        for (store, result) in [(locks, locked), (asks, asked.map(drop))] {
            assert_eq!(result.is_ok(), done, "{stale} {result:?}");
            assert!(done || matches!(result, Err(Error::SessionLost { .. })), "{result:?}");
            assert_eq!(store.asked("enqueue").len(), 4);
            assert_eq!(store.asked("open").len(), 4);
        }
    }
}

/// A lost lock is reported by the release, and by work that ran under the lock.
#[tokio::test(start_paused = true)]
async fn losses_are_reported_at_the_end() {
    let store = store(first);
    store
        .leave
        .then(0, || Ok(LeaveOutcome { existed: false, successor: false, at: SequencePoint(1) }));
    // The first reply is for another lock, which was free.
    let client = client(&store).await;
    client.mutex("a").lock().await.unwrap().unlock().await.unwrap();
    let lost = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Lost { .. })), "{result:?}")
    };
    lost(client.mutex("a").lock().await.unwrap().unlock().await);
    lost(client.mutex("a").run(async |_| ()).await);
    lost(client.rw_lock("a").run_read(async |_| ()).await);
    lost(client.rw_lock("a").run_write(async |_| ()).await);
    lost(client.semaphore("a", 1).run(async |_| ()).await);
    lost(client.multi_lock(["a"]).run(async |_| ()).await);
    lost(client.election("a").run("me", pending(), async |_| ()).await.map(drop));
    lost(client.election("a").campaign("me").await.unwrap().resign().await);
    lost(client.rw_lock("a").write().await.unwrap().unlock().await);
    lost(client.semaphore("a", 1).acquire().await.unwrap().release().await);
    lost(client.mutex("a").reentrant("me").lock().await.unwrap().unlock().await);
    lost(client.lock_all(["a"]).await.unwrap().unlock().await);
}

/// The lead is lost just before the work returns, which is not the end of the work.
#[tokio::test(start_paused = true)]
async fn work_that_returns_after_a_loss_starts_again() {
    let (election, runs) = (client(&store(first)).await.election("a"), AtomicU64::new(0));
    let work = async |lead: LeadershipHandle| {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        if run == 0 {
            lead.held.own.lose(LostReason::Evicted);
        }
        run
    };
    assert_eq!(election.run("me", pending(), work).await.unwrap(), Some(1));
}

/// Work that is done keeps its result if the release is refused.
#[tokio::test(start_paused = true)]
async fn work_is_returned_though_its_lock_cannot_be_released() {
    let store = FakeStore::new();
    joins(&store, first);
    store.leave.then(0, || Err(StoreError::Denied("no".into())));
    let client = client(&store).await;
    assert_eq!(client.mutex("a").run(async |_| 7).await.unwrap(), 7);
    assert_eq!(client.rw_lock("a").run_read(async |_| 7).await.unwrap(), 7);
    assert_eq!(client.rw_lock("a").run_write(async |_| 7).await.unwrap(), 7);
    assert_eq!(client.semaphore("a", 1).run(async |_| 7).await.unwrap(), 7);
    assert_eq!(client.multi_lock(["a"]).run(async |_| 7).await.unwrap(), 7);
    let led = client.election("a").run("me", pending(), async |_| 7).await.unwrap();
    assert_eq!(led, Some(7));
}

/// A queue in two parts is reported once both parts have been listed.
#[tokio::test(start_paused = true)]
async fn a_queue_is_returned_as_a_whole() {
    let store = store(first);
    store.list.then(0, || Ok(listing(&[1], "1of1", &[])));
    store.list.then(100, || Ok(listing(&[2], "1of1", &[])));
    let client = client(&store).await;
    let mut queue = client.semaphore("a", 1).watch_queue().unwrap();
    let seen = timeout(Duration::from_secs(1), queue.next()).await.unwrap();
    assert_eq!(seen.map(|entries| entries.len()), Some(2));
}

/// The store knows which session owns a key, even if this client does not know the key.
#[tokio::test(start_paused = true)]
async fn own_keys_are_recognized() {
    let store = store(first);
    store.list.then(0, || Ok(listing(&[1], "", &[])));
    store.list.then(0, || {
        let mut listing = listing(&[1], "", &[]);
        listing.members[0].detail = None;
        Ok(listing)
    });
    let client = client(&store).await;
    let own =
        async || client.mutex("a").holder().await.unwrap().is_some_and(|holder| holder.is_own());
    assert!(own().await);
    assert!(!own().await);
}

/// There may be more permits than this client knows of, so a request for more waits.
#[tokio::test(start_paused = true)]
async fn request_for_more_permits_than_known_waits() {
    // No attempt reaches the gate.
    let store = FakeStore::new();
    store.list.then(0, || Ok(listing(&[1, 2], "1of1", &["limit=3+1+@1"])));
    let semaphore = client(&store).await.semaphore("a", 1);
    let refused = semaphore.acquire_many(4).await;
    assert!(matches!(refused, Err(Error::InvalidArgument { argument: "permits", .. })));
    // The first listing shows that too few permits are left.
    let waits = timeout(Duration::from_secs(1), semaphore.acquire_many(3)).await;
    assert!(waits.is_err(), "{waits:?}");
    assert_eq!(store.asked("enqueue").len(), 1);
}

/// A new number of permits replaces earlier ones, and no other notes in the queue.
#[tokio::test(start_paused = true)]
async fn a_number_of_permits_replaces_numbers() {
    let store = store(first);
    store.list.then(0, || Ok(listing(&[], "", &["limit=3+1+@1", "other"])));
    store.commit.then(0, || Ok(true));
    client(&store).await.semaphore("a", 1).set_permits(2).await.unwrap();
    let changed =
        |change: &str, note: &str| store.asked(&format!("{change} /ns/a!permits/{note}")).len();
    assert_eq!(changed("put", "limit=2+1+3+@2"), 1);
    assert_eq!(changed("delete", "limit=3+1+@1"), 1);
    assert_eq!(changed("delete", "other"), 0);
}

/// A visit that is dropped returns its share of the watch budget.
#[tokio::test(start_paused = true)]
async fn watch_budget_of_visit_is_returned() {
    let store = store(first);
    let queues = ["a", "b"].map(|name| Queue::new("/ns", name).unwrap());
    store.change(|facts| facts.watch_budget = 100);
    let session = store.session().await;
    let visit = Visit::new(&session, &queues[0]).unwrap();
    assert!(Visit::new(&session, &queues[1]).is_none());
    drop(visit);
    assert!(Visit::new(&session, &queues[1]).is_some());
}

/// The store decides for each entry whether its release is marked.
#[tokio::test(start_paused = true)]
async fn marks_releases_is_queried_from_store() {
    let session = store(first).session().await;
    for (key, tells) in [("tells", true), ("other", false)] {
        assert_eq!(session.store.marks_releases(&Entry::new(key, 1)), tells);
    }
}

/// A guard belongs to one store.
#[cfg(any(
    feature = "etcd",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite",
    feature = "zookeeper"
))]
#[tokio::test(start_paused = true)]
async fn a_guard_is_of_one_store() {
    use crate::store_kind::StoreKind;

    let guard = client(&store(first)).await.mutex("a").lock().await.unwrap();
    assert_eq!(guard.entry_in(StoreKind::Memory).map(|entry| &*entry.key), Some(guard.key()));
    assert!(guard.entry_in(StoreKind::Etcd).is_none());
}

/// A call with a timeout acquires a free lock at once.
#[tokio::test(start_paused = true)]
async fn free_locks_are_acquired_within_timeout() {
    let (client, soon) = (client(&store(first)).await, Duration::from_millis(10));
    assert!(client.mutex("a").lock_timeout(soon).await.unwrap().is_some());
    assert!(client.mutex("a").reentrant("me").lock_timeout(soon).await.unwrap().is_some());
    assert!(client.rw_lock("a").read_timeout(soon).await.unwrap().is_some());
    assert!(client.rw_lock("a").write_timeout(soon).await.unwrap().is_some());
    assert!(client.semaphore("a", 2).acquire_timeout(soon).await.unwrap().is_some());
    assert!(client.semaphore("a", 2).acquire_many_timeout(2, soon).await.unwrap().is_some());
    assert!(client.election("a").campaign_timeout("me", soon).await.unwrap().is_some());
}

/// Periodic work depends on the store's record of when it began.
#[tokio::test(start_paused = true)]
async fn work_of_a_period_is_done_once() {
    let shortest = Duration::from_millis(100);
    let now = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap();
        format!("{} 3600000", since.as_millis()).into_bytes()
    };
    for (began, first) in [(None, true), (Some(now()), false)] {
        let store = store(self::first);
        store.commit.then(0, || Ok(true));
        store.read.then(0, move || Ok(began.clone()));
        let (mutex, short) = (client(&store).await.mutex("a"), shortest.mul_f64(0.99));
        assert!(mutex.run_once_per(short, async |_| ()).await.is_err());
        assert!(mutex.try_run_once_per(short, async |_| Ok::<_, Error>(())).await.is_err());
        assert!(store.asked("enqueue").is_empty(), "bad arguments are refused first");
        let guard = mutex.lock().await.unwrap();
        assert!(guard.claim_period(short).await.is_err());
        assert!(store.asked("read").is_empty());
        // A period of an hour, because the system clock is not paused.
        assert_eq!(guard.claim_period(Duration::from_secs(3600)).await.unwrap(), first);
        assert_eq!(store.asked("commit").len(), usize::from(first));
        assert!(guard.claim_period(shortest).await.is_ok());
    }
}

/// The writer waits for a second, and the time of its hold starts with the grant.
#[tokio::test(start_paused = true)]
async fn downgraded_hold_counts_from_the_grant() {
    let (client, time) =
        (Client::connect("memory://downgraded-hold").await.unwrap(), Duration::from_secs(1));
    let lock = client.rw_lock("a");
    let first = lock.write().await.unwrap();
    let waiting = tokio::spawn(async move { lock.write().await });
    tokio::time::sleep(time).await;
    first.unlock().await.unwrap();
    let (writer, granted) = (waiting.await.unwrap().unwrap(), tokio::time::Instant::now());
    let reader = writer.downgrade().await.unwrap();
    reader.hold_at_least(time).await.unwrap();
    let held = granted.elapsed().as_millis();
    assert!((900..1100).contains(&held), "{held}");
    reader.unlock().await.unwrap();
}

/// A downgrade whose request had an unknown outcome continues: either of the two keys may exist.
#[tokio::test(start_paused = true)]
async fn downgrade_is_retried_while_in_doubt() {
    fn unavailable() -> StoreError {
        StoreError::Unavailable("no answer".into())
    }
    fn unknown() -> StoreError {
        StoreError::Unknown("no answer".into())
    }
    fn denied() -> StoreError {
        StoreError::Denied("no".into())
    }
    for (fails, asked, done) in [
        (&[][..], 1, true),
        (&[unavailable as fn() -> StoreError], 2, true),
        (&[unknown], 2, true),
        (&[unknown, denied], 3, true),
        (&[denied], 1, false),
        (&[unavailable, denied], 2, false),
    ] {
        let store = store(first);
        for error in fails {
            let error = *error;
            store.relabel.then(0, move || Err(error()));
        }
        store.relabel.then(0, || Ok(Some(Entry::new("/ns/a/other", 9))));
        let guard = client(&store).await.rw_lock("a").write().await.unwrap();
        let reader = guard.downgrade().await;
        assert_eq!(reader.is_ok(), done);
        assert_eq!(store.asked("relabel").len(), asked);
        // As documented, an error releases the lock.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(store.asked("leave").is_empty(), done);
    }
}
