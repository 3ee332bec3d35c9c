//! The read-write lock: readers share it, a writer is alone, and all are granted in order of
//! arrival.

use std::{
    sync::{
        Arc,
        atomic::{AtomicIsize, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, Error, LockGuard, LostReason, ReadGuard, WriteGuard};
use tokio::task::JoinSet;

use crate::common::{
    Case, SOON, Sessions, Waiter,
    cases::costs::{sessions_of, settled},
    eventually, handover, locked, release, release_both, throughout, within,
};

async fn reader(t: &Case, client: &Client) -> Waiter<ReadGuard> {
    let lock = client.rw_lock("rw");
    t.stands(async move { lock.read().await }).await
}

async fn writer(t: &Case, client: &Client) -> Waiter<WriteGuard> {
    let lock = client.rw_lock("rw");
    t.stands(async move { lock.write().await }).await
}

/// Counts the holders: 1 for a reader, 1000 for a writer.
#[derive(Default)]
struct Inside(AtomicIsize);

impl Inside {
    async fn read(&self) {
        assert!(self.0.fetch_add(1, SeqCst) < 1000, "a writer holds the lock");
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..1000))).await;
        assert!(self.0.fetch_sub(1, SeqCst) < 1000, "a writer was granted the lock");
    }

    async fn write(&self) {
        assert_eq!(self.0.fetch_add(1000, SeqCst), 0, "the lock has other holders");
        tokio::time::sleep(Duration::from_micros(fastrand::u64(..1000))).await;
        assert_eq!(self.0.fetch_sub(1000, SeqCst), 1000, "another holder was granted the lock");
    }
}

pub(crate) async fn readers_share_and_writers_do_not(t: &Case) {
    let [one, two] = t.clients().await;
    let readers = [&one, &two, &one].map(|client| client.rw_lock("rw"));
    let mut inside = Vec::new();
    for reader in &readers {
        inside.push(within(SOON, "readers share", reader.read()).await.expect("granted"));
    }
    let writer = writer(t, &two).await;
    writer.waits_throughout(Duration::from_millis(200), "the writer waits").await;
    for reader in inside {
        assert!(reader.is_valid() && writer.waits());
        reader.unlock().await.expect("released");
    }
    let writer = writer.granted().await;
    let another = self::writer(t, &one).await;
    let reader = reader(t, &one).await;
    throughout(Duration::from_millis(200), "both wait", async || another.waits() && reader.waits())
        .await;
    release_both(writer, another).await;
    reader.served().await;
}

pub(crate) async fn readers_and_writers_never_overlap(t: &Case) {
    let inside = Arc::new(Inside::default());
    let clients = t.clients::<3>().await;
    let mut contenders = JoinSet::new();
    for contender in 0..30 {
        let (lock, inside) = (clients[contender % 3].rw_lock("rw"), Arc::clone(&inside));
        contenders.spawn(async move {
            for round in 0..3 {
                if (contender + round) % 4 == 0 {
                    let guard = lock.write().await.expect("granted");
                    inside.write().await;
                    guard.unlock().await.expect("released");
                } else {
                    let guard = lock.read().await.expect("granted");
                    inside.read().await;
                    guard.unlock().await.expect("released");
                }
            }
        });
    }
    within(SOON * 6, "all are served", contenders.join_all()).await;
}

/// Neither readers nor writers starve.
pub(crate) async fn readers_do_not_pass_a_waiting_writer(t: &Case) {
    let [one, two] = t.clients().await;
    let first = one.rw_lock("rw").read().await.expect("granted");
    let writer = writer(t, &two).await;
    let behind = [reader(t, &one).await, reader(t, &two).await];
    let waits = async || writer.waits() && behind.iter().all(Waiter::waits);
    throughout(Duration::from_millis(200), "the readers wait behind the writer", waits).await;
    let writer = handover(first, writer).await;
    throughout(Duration::from_millis(200), "the writer is alone", async || {
        behind.iter().all(Waiter::waits)
    })
    .await;
    writer.unlock().await.expect("released");
    release(behind).await;
}

pub(crate) async fn a_writer_that_gives_up_lets_the_readers_in(t: &Case) {
    let [one, two] = t.clients().await;
    let first = one.rw_lock("rw").read().await.expect("granted");
    let writer = writer(t, &two).await;
    let behind = [reader(t, &one).await, reader(t, &two).await];
    writer.cancel();
    release(behind).await;
    first.unlock().await.expect("released");
}

/// The clients of the writer and of the reader both notice it by the store.
pub(crate) async fn an_evicted_writer_lets_the_readers_in(t: &Case) {
    let [one, two, operator] = t.clients().await;
    let first = one.rw_lock("rw").read().await.expect("granted");
    let writer = writer(t, &one).await;
    let behind = [reader(t, &one).await, reader(t, &two).await];
    assert!(operator.evict(&writer.key).await.expect("a reply"));
    release(behind).await;
    first.unlock().await.expect("released");
    writer.cancel();
}

pub(crate) async fn a_hundred_readers_enter_after_one_release(t: &Case) {
    let clients = t.clients::<4>().await;
    let guard = clients[0].rw_lock("rw").write().await.expect("granted");
    let mut readers = JoinSet::new();
    for reader in 0..100 {
        let lock = clients[reader % 4].rw_lock("rw");
        readers.spawn(async move { lock.read().await });
    }
    t.queue_of(101).await;
    guard.unlock().await.expect("released");
    let inside = within(SOON, "all readers are granted", readers.join_all()).await;
    let inside: Vec<ReadGuard> =
        inside.into_iter().map(|reader| reader.expect("granted")).collect();
    assert_eq!(inside.len(), 100);
    assert!(inside.iter().all(|reader| reader.is_valid()));
    release(inside).await;
}

/// By the servers' counters: a writer is notified only of the nearest reader.
pub(crate) async fn a_writer_watches_one_reader_at_a_time(t: &Case) {
    let [one, two] = t.clients().await;
    let mut readers = Vec::new();
    for _ in 0..100 {
        readers.push(one.rw_lock("rw").read().await.expect("granted"));
    }
    let writer = writer(t, &two).await;
    let sessions = sessions_of(t, &[&writer.key]).await;
    settled(t, &sessions).await;
    let nearest = readers.pop().expect("there are some");
    let before = t.cost(&sessions).await;
    let mut others: Vec<ReadGuard> = readers.drain(..20).collect();
    let last = readers.pop().expect("there are some");
    release(others.drain(..)).await;
    settled(t, &sessions).await;
    let spent = t.cost(&sessions).await - before;
    // A client may still get the event of its own key. No other client gets one.
    assert!(
        spent.events <= 20,
        "{spent:?}: the writer was notified of readers other than the nearest"
    );
    assert!(writer.waits());
    let before = t.cost(&sessions).await;
    nearest.unlock().await.expect("released");
    settled(t, &sessions).await;
    // A server does not count sent and received messages at one instant, so a ping in between hides
    // an event for a moment.
    let least = i64::from(t.store.notifies());
    eventually(SOON, "the writer is notified", async || {
        (t.cost(&sessions).await - before).events >= least
    })
    .await;
    let spent = t.cost(&sessions).await - before;
    assert!((least..=2 * least).contains(&spent.events), "{spent:?}: one event was due");
    assert!(writer.waits());
    release(readers.into_iter().chain([last])).await;
    writer.served().await;
}

pub(crate) async fn a_downgrade_lets_readers_in_and_no_writer(t: &Case) {
    let [one, two] = t.clients().await;
    let guard = one.rw_lock("rw").write().await.expect("granted");
    let token = guard.fencing_token();
    let near = [reader(t, &one).await, reader(t, &two).await];
    let writers = [writer(t, &two).await, writer(t, &one).await];
    let far = reader(t, &two).await;
    let guard = within(SOON, "the writer is a reader", guard.downgrade()).await.expect("not lost");
    assert_eq!(guard.fencing_token(), token);
    let mut inside = Vec::new();
    for reader in near {
        inside.push(reader.granted().await);
    }
    let waits = async || far.waits() && writers.iter().all(Waiter::waits) && guard.is_valid();
    throughout(Duration::from_millis(300), "no writer is granted in between", waits).await;
    release(inside).await;
    throughout(Duration::from_millis(200), "a reader still holds the lock", async || {
        writers.iter().all(Waiter::waits)
    })
    .await;
    guard.unlock().await.expect("released");
    for writer in writers {
        let writer = writer.granted().await;
        assert!(writer.fencing_token() > token, "tokens rise");
        writer.unlock().await.expect("released");
    }
    far.served().await;
}

/// What a writer writes before the downgrade, it reads afterwards, a thousand times.
pub(crate) async fn no_write_happens_during_a_downgrade(t: &Case) {
    let clients = t.clients::<3>().await;
    let written = Arc::new(AtomicIsize::new(0));
    let mut writers = JoinSet::new();
    // With `DISTLOCK_ROUNDS=125` servers also do a thousand, which takes a busy machine longer than
    // the time limit of a case.
    let rounds = t.rounds(125, 30);
    for writer in 0..8 {
        let (lock, written) = (clients[writer % 3].rw_lock("rw"), Arc::clone(&written));
        writers.spawn(async move {
            for round in 0..rounds {
                let guard =
                    within(SOON, "the writer is granted", lock.write()).await.expect("granted");
                let mine = 1 + (writer * rounds + round) as isize;
                written.store(mine, SeqCst);
                let guard = guard.downgrade().await.expect("not lost");
                tokio::task::yield_now().await;
                assert_eq!(written.load(SeqCst), mine, "another writer wrote in between");
                guard.unlock().await.expect("released");
                assert!(written.load(SeqCst) != 0);
            }
        });
    }
    writers.join_all().await;
}

pub(crate) async fn downgraded_guard_can_be_lost_and_dropped(t: &Case) {
    let [one, two] = t.clients().await;
    let guard =
        one.rw_lock("rw").write().await.expect("granted").downgrade().await.expect("not lost");
    assert_eq!(t.keys().await, [guard.key()]);
    let writer = writer(t, &two).await;
    t.store.delete_key(guard.key()).await;
    let reason = within(SOON, "the reader is notified", guard.lost()).await;
    assert_eq!(reason, LostReason::Evicted);
    assert!(!guard.is_valid());
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    let guard = writer.granted().await;
    // A dropped downgrade releases the lock, as a dropped guard does.
    t.store.delete_key(guard.key()).await;
    let error = within(SOON, "the downgrade fails", guard.downgrade())
        .await
        .expect_err("the key was deleted");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    for polls in 0..6 {
        let guard = one.rw_lock("rw").write().await.expect("granted");
        let mut downgrade = Box::pin(guard.downgrade());
        for _ in 0..polls {
            if once(&mut downgrade).await {
                break;
            }
        }
        drop(downgrade);
    }
    eventually(SOON, "no keys are left", async || t.keys().await.is_empty()).await;
}

/// Polls once. Returns `true` if the future is ready.
async fn once<F: Future + Unpin>(future: &mut F) -> bool {
    let ready = std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_ready())
    });
    let ready = ready.await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    ready
}

pub(crate) async fn tries_on_a_busy_lock_leave_nothing(t: &Case) {
    let [one, two] = t.clients().await;
    let lock = two.rw_lock("rw");
    let guard = one.rw_lock("rw").read().await.expect("granted");
    assert!(lock.try_write().await.expect("a reply").is_none());
    assert!(lock.write_timeout(Duration::from_millis(100)).await.expect("a reply").is_none());
    let reader = lock.try_read().await.expect("a reply").expect("readers share");
    release([reader, guard]).await;
    let guard = lock.try_write().await.expect("a reply").expect("the lock is free");
    let lock = one.rw_lock("rw");
    assert!(lock.try_read().await.expect("a reply").is_none());
    assert!(lock.read_timeout(Duration::from_millis(100)).await.expect("a reply").is_none());
    assert!(lock.read_timeout(Duration::ZERO).await.expect("a reply").is_none());
    eventually(SOON, "only the writer's key is there", async || t.keys().await == [guard.key()])
        .await;
    guard.unlock().await.expect("released");
}

/// A waiter whose session ends in the queue is never granted, and does not block the waiters behind
/// it.
pub(crate) async fn a_writer_whose_session_ends_in_the_queue_is_passed_over(
    t: &Case<dyn Sessions>,
) {
    let [holder, expiring, other] = t.clients().await;
    let guard = holder.rw_lock("rw").read().await.expect("granted");
    let writer = writer(t, &expiring).await;
    let reader = reader(t, &other).await;
    t.store.end_session_of(&writer.key).await;
    reader.served().await;
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
    let error = writer.result(SOON).await.expect_err("the session has ended");
    assert!(matches!(error, Error::SessionLost { .. } | Error::Evicted { .. }), "{error:?}");
}

pub(crate) async fn a_dead_writer_lets_the_readers_in(t: &Case<dyn Sessions>) {
    let [dying, other] = [t.mortal_client().await, t.client().await];
    let guard = dying.rw_lock("rw").write().await.expect("granted");
    let readers = [reader(t, &other).await, reader(t, &other).await];
    t.store.end_session_of(guard.key()).await;
    within(SOON, "the writer is notified", guard.lost()).await;
    release(readers).await;
}

pub(crate) async fn dropped_readers_and_writers_leave_nothing(t: &Case) {
    let [one, two] = t.clients().await;
    let guard = one.rw_lock("rw").read().await.expect("granted");
    let mut droppers = JoinSet::new();
    for dropper in 0..40 {
        let lock = two.rw_lock("rw");
        droppers.spawn(async move {
            let limit = Duration::from_micros(fastrand::u64(..8000));
            if dropper % 2 == 0 {
                drop(tokio::time::timeout(limit, lock.read()).await);
            } else {
                drop(tokio::time::timeout(limit, lock.write()).await);
            }
        });
    }
    within(SOON, "all are dropped", droppers.join_all()).await;
    eventually(SOON, "only the reader's key is there", async || t.keys().await == [guard.key()])
        .await;
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
}

pub(crate) async fn primitives_of_one_name_are_independent(t: &Case) {
    let client = t.client().await;
    let mutex = locked(&client, "same").await;
    let writer =
        within(SOON, "the lock is free", client.rw_lock("same").write()).await.expect("granted");
    let permit = within(SOON, "the lock is free", client.semaphore("same", 1).acquire())
        .await
        .expect("granted");
    let guards: [&LockGuard; 3] = [&mutex, &writer, &permit];
    assert!(guards.iter().all(|guard| guard.is_valid() && guard.name() == "same"));
    mutex.unlock().await.expect("released");
    writer.unlock().await.expect("released");
    permit.release().await.expect("released");
}
