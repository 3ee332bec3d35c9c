//! The maximum hold time of a lock.

use std::{
    future::pending,
    sync::mpsc,
    time::{Duration, Instant},
};

use distlock::{Error, LockGuard, LockHandle, LostReason};

use crate::common::{Case, SOON, throughout, within};

/// The maximum hold time in these cases.
const LIMIT: Duration = Duration::from_millis(400);

/// Checks that a guard beyond its maximum hold time is lost and refuses writes.
async fn assert_over(t: &Case, guard: &LockGuard) {
    assert!(!guard.is_valid() && guard.remaining().is_zero());
    assert_eq!(within(SOON, "the holder is notified", guard.lost()).await, LostReason::HeldTooLong);
    let key = t.data_key("limits");
    let error = guard.put(&key, "late").await.expect_err("the lock is lost");
    assert!(matches!(error, Error::Lost { reason: LostReason::HeldTooLong, .. }), "{error:?}");
    assert_eq!(t.store.data(&key).await, None);
}

fn assert_lost(unlocked: Result<(), Error>) {
    let error = unlocked.expect_err("the lock was lost");
    assert!(matches!(error, Error::Lost { reason: LostReason::HeldTooLong, .. }), "{error:?}");
}

/// The work of a live process hangs, while its session is renewed.
pub(crate) async fn work_that_hangs_keeps_a_lock_for_max_hold(t: &Case) {
    let [client, other] = t.clients().await;
    let (began, mutex) = (Instant::now(), client.mutex("hangs").max_hold(LIMIT));
    let guard = mutex.lock().await.expect("granted");
    assert!(guard.is_valid() && guard.remaining() <= LIMIT);
    let waiter = t.enqueue(&other, "hangs").await;
    let hung = within(SOON, "the work is stopped", guard.run(pending::<()>())).await;
    assert_eq!(hung.expect_err("the lock is lost").reason, LostReason::HeldTooLong);
    assert!(began.elapsed() >= LIMIT);
    waiter.served().await;
    let next = other.mutex("hangs").lock().await.expect("granted");
    assert!(next.fencing_token() > guard.fencing_token());
    assert_over(t, &guard).await;
    assert!(next.is_valid(), "the former holder does not affect the next one");
    assert_lost(guard.unlock().await);
    next.unlock().await.expect("released");
    // A holder that ends in time is not affected.
    for _ in 0..3 {
        mutex.lock().await.expect("granted").unlock().await.expect("released");
    }
}

pub(crate) async fn every_primitive_has_a_longest_hold(t: &Case) {
    let [client, other] = t.clients().await;
    let rw_lock = client.rw_lock("rw").max_hold(LIMIT);
    let writer = rw_lock.write().await.expect("granted");
    let next = other.rw_lock("rw");
    let reader = within(SOON, "the maximum hold time ends", next.read()).await.expect("granted");
    assert_over(t, &writer).await;
    let reading = rw_lock.read().await.expect("granted");
    reader.unlock().await.expect("released");
    let written = within(SOON, "the maximum hold time ends", next.write()).await.expect("granted");
    assert_over(t, &reading).await;
    written.unlock().await.expect("released");
    assert_lost(writer.unlock().await);

    let permit = client.semaphore("s", 1).max_hold(LIMIT).acquire().await.expect("granted");
    let semaphore = other.semaphore("s", 1);
    let next =
        within(SOON, "the maximum hold time ends", semaphore.acquire()).await.expect("granted");
    assert_over(t, &permit).await;
    next.release().await.expect("released");
    assert_lost(permit.release().await);

    let election = client.election("e").max_hold(LIMIT);
    let leadership = election.campaign("one").await.expect("elected");
    let election = other.election("e");
    let next = within(SOON, "the maximum hold time ends", election.campaign("two"))
        .await
        .expect("elected");
    assert_over(t, &leadership).await;
    let error = leadership.proclaim("three").await.expect_err("the leader is lost");
    assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    next.resign().await.expect("the leader led");
    drop(leadership);

    let reentrant = client.mutex("r").max_hold(LIMIT).reentrant("me");
    let (outer, inner) = (reentrant.lock().await, reentrant.lock().await);
    let (outer, inner) = (outer.expect("granted"), inner.expect("granted again"));
    let mutex = other.mutex("r");
    let next = within(SOON, "the maximum hold time ends", mutex.lock()).await.expect("granted");
    assert_over(t, &outer).await;
    assert_over(t, &inner).await;
    next.unlock().await.expect("released");
    drop((outer, inner));

    let all = client.multi_lock(["a", "b"]).max_hold(LIMIT).lock().await.expect("granted");
    let both = within(SOON, "the maximum hold time ends", other.lock_all(["a", "b"]))
        .await
        .expect("granted");
    for guard in all.guards() {
        assert_over(t, guard).await;
    }
    both.unlock().await.expect("released");
    assert_lost(all.unlock().await);
}

/// The time counts from the grant of the write lock.
pub(crate) async fn downgrade_does_not_extend_max_hold(t: &Case) {
    // Enough for a downgrade on a busy machine, after a part of it.
    let longest = LIMIT * 3;
    let [client, other] = t.clients().await;
    let writer = client.rw_lock("rw").max_hold(longest).write().await.expect("granted");
    let began = Instant::now();
    throughout(LIMIT, "the writer holds the lock", async || writer.is_valid()).await;
    let reader = writer.downgrade().await.expect("a reader");
    let (held, left) = (began.elapsed(), reader.remaining());
    assert!(held >= LIMIT && held + left <= longest, "{left:?} left after {held:?}");
    let next = other.rw_lock("rw");
    let next = within(SOON, "the maximum hold time ends", next.write()).await.expect("granted");
    assert!(began.elapsed() < SOON);
    assert_over(t, &reader).await;
    next.unlock().await.expect("released");
}

/// A thread that blocks the program's runtime does not stop the client's timers.
pub(crate) async fn max_hold_works_while_the_caller_runtime_is_blocked(t: &Case) {
    let [client, other] = t.clients().await;
    let (held, is_held) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    let blocked = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async move {
            let guard = client.mutex("blocked").max_hold(LIMIT).lock().await.expect("granted");
            held.send(guard.handle()).expect("the test waits");
            // Nothing is polled here any longer.
            let _ = is_done.recv();
            assert!(!guard.is_valid());
            assert_lost(guard.unlock().await);
        });
    });
    let handle: LockHandle = tokio::task::spawn_blocking(move || is_held.recv())
        .await
        .expect("no panic")
        .expect("a handle");
    let mutex = other.mutex("blocked");
    let next = within(SOON, "the maximum hold time ends", mutex.lock()).await.expect("granted");
    assert_over(t, &handle).await;
    next.unlock().await.expect("released");
    drop(done);
    let ended = tokio::task::spawn_blocking(move || blocked.join()).await.expect("no panic");
    ended.expect("the thread did not panic");
}

pub(crate) async fn bad_limits_are_refused_before_anything_is_sent(t: &Case) {
    let client = t.client().await;
    for bad in [Duration::ZERO, Duration::MAX] {
        let refused = [
            client.mutex("a").max_hold(bad).lock().await.map(drop),
            client.mutex("a").max_hold(bad).try_lock().await.map(drop),
            client.mutex("a").max_hold(bad).reentrant("me").lock().await.map(drop),
            client.rw_lock("a").max_hold(bad).read().await.map(drop),
            client.rw_lock("a").max_hold(bad).write().await.map(drop),
            client.semaphore("a", 1).max_hold(bad).acquire().await.map(drop),
            client.election("a").max_hold(bad).campaign("me").await.map(drop),
            client.multi_lock(["a", "b"]).max_hold(bad).lock().await.map(drop),
        ];
        for refused in refused {
            let error = refused.expect_err("an invalid limit");
            assert!(
                matches!(error, Error::InvalidArgument { argument: "max_hold", .. }),
                "{error:?}"
            );
        }
    }
    assert!(t.keys().await.is_empty());
}

/// A handle has the state of its guard, and keeps nothing alive.
pub(crate) async fn a_handle_ends_with_its_guard(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("handle");
    let guard = mutex.lock().await.expect("granted");
    let (handle, other) = (guard.handle(), guard.handle().handle().clone());
    assert!(handle.is_valid() && handle.fencing_token() == guard.fencing_token());
    drop(other);
    assert!(guard.is_valid(), "a handle that is dropped releases nothing");
    let watcher = tokio::spawn({
        let handle = handle.clone();
        async move { handle.run(pending::<()>()).await }
    });
    guard.unlock().await.expect("released");
    let stopped = within(SOON, "the work is stopped", watcher).await.expect("no panic");
    assert_eq!(stopped.expect_err("the lock is lost").reason, LostReason::Released);
    assert!(!handle.is_valid());
    let next = mutex.lock().await.expect("granted");
    let error = handle.put(t.data_key("handle"), "late").await.expect_err("the lock is released");
    assert!(matches!(error, Error::Lost { reason: LostReason::Released, .. }), "{error:?}");
    drop(handle);
    assert!(next.is_valid());
    next.unlock().await.expect("released");
}
