//! Loss of locks: notified in time, to the affected guards only, and with the right reason.

use std::time::{Duration, Instant};

use distlock::{Client, Error, LostReason};

use crate::common::{
    Case, Job, Loss, SOON, Sessions, cases::costs::sessions_of, eventually, handover, locked, loss,
    precedes_grant, release_both, throughout, within,
};

/// Checks that a guard is lost and that its unlock fails.
macro_rules! assert_lost {
    ($guard:expr, $reason:pat) => {
        assert!(!$guard.is_valid());
        assert_eq!($guard.remaining(), Duration::ZERO);
        let error = $guard.unlock().await.expect_err("the lock was lost before");
        assert!(matches!(error, Error::Lost { reason: $reason, .. }), "{error:?}");
        assert!(!error.is_retryable());
    };
}

pub(crate) async fn holder_of_an_ended_session_is_notified(t: &Case<dyn Sessions>) {
    let [client, other] = t.clients().await;
    let guard = client.mutex("ended").lock().await.expect("granted");
    let second = client.mutex("ended-2").lock().await.expect("granted");
    let waiter = t.enqueue(&other, "ended").await;
    t.store.end_session_of(guard.key()).await;
    let ended = Instant::now();
    // The keys are deleted with the session, and the client may notice either first.
    for guard in [guard, second] {
        let reason = within(SOON, "the holder is notified", guard.lost()).await;
        // The next keepalive reports the loss at the latest, a third of the TTL after the previous
        // one. The rest of the time is for a busy machine.
        let limit = client.session_ttl() / 2;
        assert!(ended.elapsed() < limit, "notified after {:?}", ended.elapsed());
        assert!(matches!(reason, LostReason::SessionExpired | LostReason::Evicted), "{reason}");
        assert_lost!(guard, LostReason::SessionExpired | LostReason::Evicted);
    }
    waiter.served().await;
}

pub(crate) async fn waiters_of_an_ended_session_are_notified(t: &Case<dyn Sessions>) {
    let [holder, client] = t.clients().await;
    let guard = holder.mutex("queue").lock().await.expect("granted");
    let waiters = t.enqueue_all([&client; 5], "queue").await;
    t.store.end_session_of(&waiters[0].key).await;
    for waiter in waiters {
        let error = waiter.result(SOON).await.expect_err("the session has ended");
        assert!(matches!(error, Error::SessionLost { .. } | Error::Evicted { .. }), "{error:?}");
        assert!(error.is_retryable());
    }
    // The retry succeeds.
    let waiter = t.enqueue(&client, "queue").await;
    assert!(guard.is_valid());
    release_both(guard, waiter).await;
}

pub(crate) async fn a_lost_session_is_replaced(t: &Case<dyn Sessions>) {
    let client = t.client().await;
    let guard = client.mutex("held").lock().await.expect("granted");
    let (session, token) = (t.store.session_of(guard.key()).await, guard.fencing_token());
    t.store.end_session_of(guard.key()).await;
    within(SOON, "the holder is notified", guard.lost()).await;
    let again = locked(&client, "held").await;
    assert_ne!(t.store.session_of(again.key()).await, session);
    assert!(again.fencing_token() > token);
    assert!(again.is_valid() && !guard.is_valid());
    // The old guard does not affect its successor.
    drop(guard);
    throughout(Duration::from_millis(300), "the new lock is held", async || {
        again.is_valid() && t.keys().await == [again.key()]
    })
    .await;
    again.unlock().await.expect("released");
}

pub(crate) async fn holder_of_a_deleted_key_is_notified_within_a_second(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = client.mutex("deleted").lock().await.expect("granted");
    let bystander = client.mutex("bystander").lock().await.expect("granted");
    let waiter = t.enqueue(&other, "deleted").await;
    // Once with a lock that was just granted, whose watch has not started, and once with one held
    // for a while.
    for (guard, waiter) in
        [(guard, Some(waiter)), (client.mutex("young").lock().await.expect("granted"), None)]
    {
        let deleted = Instant::now();
        t.store.delete_key(guard.key()).await;
        assert_eq!(within(SOON, "the holder is notified", guard.lost()).await, LostReason::Evicted);
        let took = deleted.elapsed();
        assert!(took < Duration::from_secs(1), "notified after {took:?}");
        assert_lost!(guard, LostReason::Evicted);
        if let Some(waiter) = waiter {
            waiter.served().await;
        }
    }
    assert!(bystander.is_valid(), "one key is one lock, not the session");
    bystander.unlock().await.expect("released");
}

/// The lost guard is unlocked or dropped. The successor belongs to another client.
pub(crate) async fn unlock_of_a_lost_guard_spares_the_successor(t: &Case) {
    let [former, next, third] = t.clients().await;
    for unlocks in [true, false] {
        let lost = former.mutex("lost").lock().await.expect("granted");
        t.store.delete_key(lost.key()).await;
        within(SOON, "the holder is notified", lost.lost()).await;
        let guard = locked(&next, "lost").await;
        assert!(guard.fencing_token() > lost.fencing_token());
        if unlocks {
            let error = lost.unlock().await.expect_err("the lock was lost");
            assert!(matches!(&error, Error::Lost { name, .. } if name == "lost"), "{error:?}");
        } else {
            drop(lost);
        }
        let held = async || {
            let tried = third.mutex("lost").try_lock().await.expect("a reply");
            guard.is_valid() && tried.is_none()
        };
        throughout(Duration::from_millis(200), "the successor holds the lock", held).await;
        guard.unlock().await.expect("released");
    }
}

pub(crate) async fn an_operator_evicts_holders_and_waiters(t: &Case) {
    let [holder, waiting, operator] = t.clients().await;
    let (guard, second) = t.contended(&holder, &waiting, "queue").await;
    let third = t.enqueue(&holder, "queue").await;
    let key = second.key.clone();
    assert!(operator.evict(&key).await.expect("a reply"), "the entry existed");
    let held = guard.key().to_owned();
    assert!(operator.evict(&held).await.expect("a reply"), "the entry existed");
    assert_eq!(within(SOON, "the holder is notified", guard.lost()).await, LostReason::Evicted);
    // The waiter notices it when it next reads the queue.
    let evicted = second.result(SOON).await.expect_err("the key was deleted");
    assert!(matches!(evicted, Error::Evicted { .. }), "{evicted:?}");
    third.served().await;
    for key in [key, held] {
        assert!(!operator.evict(key).await.expect("a reply"), "the entry no longer exists");
    }
}

/// On etcd, a client that acquires a lock again has the key that it had before.
pub(crate) async fn an_eviction_spares_a_later_hold(t: &Case) {
    let [holder, operator] = t.clients().await;
    let (mutex, seen_by) = (holder.mutex("queue"), operator.mutex("queue"));
    let first = mutex.lock().await.expect("free");
    let seen = seen_by.holder().await.expect("a reply").expect("the lock is held");
    assert_eq!(seen.key(), first.key());
    first.unlock().await.expect("released");
    let second = mutex.lock().await.expect("free");
    assert!(!operator.evict_entry(&seen).await.expect("a reply"), "that hold has ended");
    let held = async || second.is_valid() && t.keys().await.len() == 1;
    throughout(Duration::from_millis(300), "the later hold continues", held).await;
    let seen = seen_by.holder().await.expect("a reply").expect("the lock is held");
    assert!(operator.evict_entry(&seen).await.expect("a reply"), "the entry existed");
    assert_eq!(within(SOON, "the holder is notified", second.lost()).await, LostReason::Evicted);
    assert!(!operator.evict_entry(&seen).await.expect("a reply"), "the entry no longer exists");
}

/// An evicted waiter has lost its place. It must not be granted the lock when the holder or its
/// predecessor releases.
pub(crate) async fn an_evicted_waiter_is_never_granted(t: &Case) {
    let clients = t.clients().await;
    evict(t, &clients).await;
}

/// The predecessor belongs to the same client, which does not query the store for the queue's head.
pub(crate) async fn an_evicted_waiter_of_one_client_is_never_granted(t: &Case) {
    let client = t.client().await;
    evict(t, &[client.clone(), client.clone(), client]).await;
}

async fn evict(t: &Case, [holder, evicted, patient]: &[Client; 3]) {
    let (guard, second) = t.contended(holder, evicted, "queue").await;
    let third = t.enqueue(patient, "queue").await;
    t.store.delete_key(&second.key).await;
    t.queue_of(2).await;
    third.waits_behind(&guard, Duration::from_millis(200)).await;
    let third = handover(guard, third).await;
    let error = second.result(SOON).await.expect_err("the key was deleted");
    assert!(matches!(error, Error::Evicted { .. }), "{error:?}");
    assert!(error.is_retryable());
    assert!(third.is_valid());
    third.unlock().await.expect("released");
}

pub(crate) async fn cut_off_holder_is_notified_before_its_successor(t: &Case) {
    let link = t.link().await;
    // On a busy machine, keepalives may be late.
    let ttl = t.store.min_ttl().max(Duration::from_secs(5));
    let builder = t.builder_for(&link.url()).session_ttl(ttl);
    let holder = t.connect(builder.request_timeout(Duration::from_secs(1))).await;
    let other = t.client().await;
    let (guard, waiter) = t.contended(&holder, &other, "cut").await;
    link.cut_off(&guard);
    let cut = Instant::now();
    let loss = loss(guard);
    let successor = waiter.result(ttl * 2 + t.store.grace()).await.expect("granted");
    let Loss { at, reason, guard, .. } = precedes_grant(loss).await;
    assert_eq!(reason, LostReason::DeadlinePassed);
    println!("after {:?} of {ttl:?}", at - cut);
    assert!(at - cut > ttl / 2, "lost too early: a keepalive was due every third of {ttl:?}");
    assert_lost!(guard, LostReason::DeadlinePassed);
    assert!(successor.is_valid());
    successor.unlock().await.expect("released");
}

pub(crate) async fn a_waiter_that_is_cut_off_is_notified(t: &Case) {
    let link = t.link().await;
    let cut_off = t.mortal_client_by(&*link).await;
    let holder = t.client().await;
    let (guard, waiter) = t.contended(&holder, &cut_off, "cut").await;
    let ttl = cut_off.session_ttl();
    link.cut_off_key(&waiter.key);
    let error = waiter.result(ttl * 2 + t.store.grace()).await.expect_err("the place is unknown");
    assert!(matches!(error, Error::SessionLost { .. }), "{error:?}");
    assert!(error.is_retryable());
    assert!(guard.is_valid());
    // Its key is deleted with its session.
    eventually(ttl + t.store.grace(), "the key was deleted", async || {
        t.keys().await == [guard.key()]
    })
    .await;
    guard.unlock().await.expect("released");
}

pub(crate) async fn a_crashed_holder_is_succeeded_in_time(t: &Case) {
    let ttl = t.store.min_ttl();
    let mut process = t.store.lock_elsewhere(Job::new(t, "crash", ttl)).await;
    let token = within(SOON, "the process has the lock", process.granted()).await;
    let other = t.client().await;
    let waiter = t.enqueue(&other, "crash").await;
    let crashed = process.crash().await;
    let guard = waiter.result(ttl + t.store.grace()).await.expect("granted");
    let took = crashed.elapsed();
    println!("succeeded after {took:?} of {ttl:?}");
    assert!(took < ttl + t.store.grace(), "succeeded after {took:?} of {ttl:?}");
    assert!(guard.fencing_token().as_u64() > token);
    guard.unlock().await.expect("released");
}

/// A crashed waiter's key blocks the queue only until its session expires. Its removal does not
/// grant the lock to waiters behind it.
pub(crate) async fn a_crashed_waiter_is_passed_over(t: &Case) {
    let ttl = t.store.min_ttl();
    let [one, two] = t.clients().await;
    let guard = one.mutex("crash").lock().await.expect("granted");
    let process = t.store.lock_elsewhere(Job::new(t, "crash", ttl)).await;
    t.queue_of(2).await;
    let waiter = t.enqueue(&two, "crash").await;
    process.crash().await;
    t.keys_within(ttl + t.store.grace(), 2).await;
    waiter.waits_behind(&guard, Duration::from_millis(300)).await;
    release_both(guard, waiter).await;
}

pub(crate) async fn unlock_without_a_store_is_never_ok(t: &Case) {
    let link = t.link().await;
    let timeout = Duration::from_millis(500);
    let client = t.connect(t.builder_for(&link.url()).request_timeout(timeout)).await;
    let guard = client.mutex("dead").lock().await.expect("granted");
    link.set_reachable(false);
    let start = Instant::now();
    let error = guard.unlock().await.expect_err("not confirmed");
    let took = start.elapsed();
    assert!(matches!(error, Error::ReleaseUnconfirmed { .. } | Error::Lost { .. }), "{error:?}");
    assert!(took < timeout * 2 + Duration::from_millis(500), "given up after {took:?}");
    link.set_reachable(true);
}

/// The network stays cut. The expiry of the session then releases the lock.
pub(crate) async fn a_release_that_never_arrives_ends_with_the_ttl(t: &Case) {
    let link = t.link().await;
    let (client, other) = (t.mortal_client_by(&*link).await, t.client().await);
    let ttl = client.session_ttl();
    let (guard, waiter) = t.contended(&client, &other, "gone").await;
    link.cut_off(&guard);
    let cut = Instant::now();
    let error = guard.unlock().await.expect_err("not confirmed");
    assert!(matches!(error, Error::ReleaseUnconfirmed { .. } | Error::Lost { .. }), "{error:?}");
    let successor = waiter.result(ttl + t.store.grace()).await.expect("granted");
    println!("succeeded after {:?} of {ttl:?}", cut.elapsed());
    link.set_reachable(true);
    // The pending release finds nothing to delete.
    throughout(ttl, "the successor holds the lock", async || successor.is_valid()).await;
    assert_eq!(t.keys().await, [successor.key()]);
    successor.unlock().await.expect("released");
}

pub(crate) async fn a_release_is_completed_when_the_store_is_back(t: &Case) {
    let link = t.link().await;
    let (client, other) = (t.hasty_client_by(&*link).await, t.client().await);
    let guard = client.mutex("back").lock().await.expect("granted");
    let session = sessions_of(t, &[guard.key()]).await;
    let waiter = t.enqueue(&other, "back").await;
    link.set_reachable(false);
    let error = guard.unlock().await.expect_err("not confirmed");
    assert!(matches!(error, Error::ReleaseUnconfirmed { .. }), "{error:?}");
    assert!(waiter.waits());
    link.set_reachable(true);
    // Long before the session would expire.
    let successor = waiter.result(Duration::from_secs(6)).await.expect("granted");
    if let Some(store) = t.store.sessions() {
        assert!(
            store.session_exists(session[0]).await,
            "the release did not need the session's end"
        );
    }
    successor.unlock().await.expect("released");
}
