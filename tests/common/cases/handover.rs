//! Local hand-over: the contenders of one client share a key.

use std::{
    collections::HashSet,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex as StdMutex},
    task::Poll,
    time::{Duration, Instant},
};

use distlock::{Client, Error, LockGuard, LostReason, Result};
use tokio::{
    runtime::{Builder, Runtime},
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::exclusion::Fragile;
use crate::common::case::{Case, SOON, eventually, throughout, within, without_a_runtime};

const MOST: u32 = 65_535;

async fn client(t: &Case, max: u32) -> Client {
    t.connect(t.builder().local_handover(max)).await
}

type Locking = Pin<Box<dyn Future<Output = Result<LockGuard>> + Send>>;

/// Somebody who has come and waits. He stands in the local queue, or has begun to join the store's.
async fn locking(client: &Client, name: &str) -> Locking {
    let mutex = client.mutex(name);
    let mut locking: Locking = Box::pin(async move { mutex.lock().await });
    assert!(
        poll_fn(|context| Poll::Ready(locking.as_mut().poll(context).is_pending())).await,
        "it is not free"
    );
    locking
}

/// The same in a task of its own.
async fn waiting(client: &Client, name: &str) -> JoinHandle<Result<LockGuard>> {
    tokio::spawn(locking(client, name).await)
}

async fn granted(waiting: JoinHandle<Result<LockGuard>>) -> LockGuard {
    within(SOON, "the waiter is granted", waiting).await.expect("no panic").expect("granted")
}

async fn lock(client: &Client, name: &str) -> LockGuard {
    within(SOON, "the lock is granted", client.mutex(name).lock()).await.expect("granted")
}

/// The create revision of the key, and the number of the grant.
fn token(guard: &LockGuard) -> (u64, u64) {
    let token = guard.fencing_token().as_u64();
    (token >> 16, token & 0xffff)
}

pub(crate) async fn contenders_of_two_clients_never_overlap(t: &Case) {
    let (resource, tokens) = (Arc::new(Fragile::default()), Arc::<StdMutex<Vec<_>>>::default());
    let clients = [client(t, 5).await, client(t, 3).await];
    let mut contenders = JoinSet::new();
    for contender in 0..32 {
        let mutex = clients[contender % 2].mutex("contended");
        let (resource, tokens) = (Arc::clone(&resource), Arc::clone(&tokens));
        contenders.spawn(async move {
            for round in 0..4 {
                let guard = mutex.lock().await.expect("granted");
                tokens.lock().expect("no panic").push(guard.fencing_token());
                resource.touch().await;
                assert!(guard.is_valid());
                if round % 2 == 0 {
                    guard.unlock().await.expect("released");
                }
            }
        });
    }
    while let Some(done) = within(SOON * 3, "all are served", contenders.join_next()).await {
        done.expect("a contender fails");
    }
    let tokens = tokens.lock().expect("no panic");
    assert_eq!(tokens.len(), 32 * 4);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

pub(crate) async fn twenty_contenders_share_one_key(t: &Case) {
    let [one, two] = [client(t, MOST).await, client(t, MOST).await];
    let mut holder = lock(&one, "shared").await;
    let mut waiters = Vec::new();
    for _ in 0..20 {
        waiters.push(waiting(&one, "shared").await);
    }
    let first_of_two = t.enqueue(&two, "shared").await;
    for _ in 0..20 {
        waiters.push(waiting(&two, "shared").await);
    }
    throughout(Duration::from_millis(200), "there are two keys", async || {
        t.keys().await.len() == 2
    })
    .await;
    let (key, revision) = (holder.key().to_owned(), token(&holder).0);
    assert_eq!(token(&holder).1, 0);
    let mut rest = waiters.split_off(20);
    for (waiter, number) in waiters.into_iter().zip(1..) {
        holder.unlock().await.expect("passed on");
        holder = granted(waiter).await;
        assert_eq!((holder.key(), token(&holder)), (&*key, (revision, number)));
        assert!(rest.iter().all(|waiter| !waiter.is_finished()));
    }
    // Nobody of the first client is left.
    holder.unlock().await.expect("released");
    let mut holder = first_of_two.granted().await;
    assert_ne!(holder.key(), key);
    assert!(
        token(&holder).0 > revision && token(&holder).1 == 0,
        "a new key has a higher revision"
    );
    for waiter in rest.drain(..) {
        assert_eq!(t.keys().await.len(), 1);
        drop(holder);
        holder = granted(waiter).await;
    }
    holder.unlock().await.expect("released");
}

/// However many wait in one client, another one's turn comes after so many hand-overs.
pub(crate) async fn others_get_in_after_so_many_handovers(t: &Case) {
    const MAX: u32 = 3;
    let [busy, other] = [client(t, MAX).await, t.client().await];
    for drops in [false, true] {
        let mut holder = lock(&busy, "fair").await;
        let mut waiters = Vec::new();
        for _ in 0..10 {
            waiters.push(waiting(&busy, "fair").await);
        }
        let patient = t.enqueue(&other, "fair").await;
        for waiter in waiters.drain(..MAX as usize) {
            holder.unlock().await.expect("passed on");
            holder = granted(waiter).await;
            assert!(patient.waits());
        }
        if drops {
            drop(holder);
        } else {
            holder.unlock().await.expect("released");
        }
        let guard = patient.granted().await;
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        guard.unlock().await.expect("released");
        for waiter in waiters {
            granted(waiter).await.unlock().await.expect("released");
        }
        t.queue_of(0).await;
    }
}

/// While nobody else waits the lock need not be let go.
pub(crate) async fn without_others_the_key_stays(t: &Case) {
    let client = client(t, 2).await;
    let mut holder = lock(&client, "alone").await;
    let key = holder.key().to_owned();
    let mut waiters = Vec::new();
    for _ in 0..9 {
        waiters.push(waiting(&client, "alone").await);
    }
    for (waiter, place) in waiters.into_iter().zip(0..) {
        match place % 3 {
            0 => drop(holder),
            1 => holder.unlock().await.expect("passed on"),
            // Dropped while the store is asked.
            _ => tokio::select! {
                biased;
                _ = holder.unlock() => {}
                () = std::future::ready(()) => {}
            },
        }
        holder = granted(waiter).await;
        assert_eq!(holder.key(), key);
    }
    holder.unlock().await.expect("released");
}

/// A key has 65,536 numbers. The next grant has a new one, though perhaps of the same name.
pub(crate) async fn a_key_with_all_its_numbers_given_is_let_go(t: &Case) {
    let client = client(t, MOST).await;
    let mut holder = lock(&client, "numbers").await;
    let (first, mut revisions) = (token(&holder).0, HashSet::new());
    for number in 1..=65_540 {
        let next = locking(&client, "numbers").await;
        let before = holder.fencing_token();
        holder.unlock().await.expect("passed on or released");
        holder = next.await.expect("granted");
        assert!(holder.fencing_token() > before);
        assert_eq!(token(&holder).1, number % 65_536);
        assert_eq!(token(&holder).0 == first, number < 65_536);
        revisions.insert(token(&holder).0);
    }
    assert_eq!(revisions.len(), 2);
    holder.unlock().await.expect("released");
}

/// The lock is its own before it is polled again. If it never is, the lock goes on to the next.
pub(crate) async fn a_waiter_dropped_at_its_handover_passes_the_lock_on(t: &Case) {
    let client = client(t, MOST).await;
    let guard = lock(&client, "handed").await;
    let (dropped, next) = (locking(&client, "handed").await, waiting(&client, "handed").await);
    let before = guard.fencing_token();
    guard.unlock().await.expect("passed on");
    assert!(!next.is_finished());
    drop(dropped);
    let guard = granted(next).await;
    assert!(guard.fencing_token() > before);
    // One after the other, thousands of them, and then nobody is left.
    let mut crowd = Vec::new();
    for _ in 0..5000 {
        crowd.push(locking(&client, "handed").await);
    }
    drop(guard);
    drop(crowd);
    t.queue_of(0).await;
    // Those who are not the next one just go away.
    let guard = lock(&client, "handed").await;
    let (gone, next) = (locking(&client, "handed").await, waiting(&client, "handed").await);
    drop(gone);
    guard.unlock().await.expect("passed on");
    granted(next).await.unlock().await.expect("released");
}

pub(crate) async fn waiters_within_a_client_give_up_in_time(t: &Case) {
    let client = client(t, MOST).await;
    let guard = lock(&client, "held").await;
    for timeout in [1, 50, 400].map(Duration::from_millis) {
        let start = Instant::now();
        assert!(client.mutex("held").lock_timeout(timeout).await.expect("no error").is_none());
        let took = start.elapsed();
        assert!(
            took >= timeout && took < timeout + Duration::from_millis(500),
            "{took:?} of {timeout:?}"
        );
    }
    let mutex = client.mutex("held");
    let in_time = tokio::spawn(async move { mutex.lock_timeout(SOON).await });
    sleep(Duration::from_millis(50)).await;
    guard.unlock().await.expect("passed on");
    let guard = within(SOON, "it is granted", in_time).await.expect("no panic").expect("no error");
    guard.expect("in time").unlock().await.expect("released");
}

/// The caller that joined the store's queue goes away: its place there belongs to the next one.
pub(crate) async fn the_place_of_a_caller_who_gives_up_is_kept(t: &Case) {
    let [sharing, other] = [client(t, MOST).await, t.client().await];
    for gives_up in ["in time", "dropped"] {
        let guard = other.mutex("kept").lock().await.expect("granted");
        let mutex = sharing.mutex("kept");
        let leader = tokio::spawn(async move { mutex.lock_timeout(Duration::from_secs(1)).await });
        t.queue_of(2).await;
        let key = t.keys().await.into_iter().find(|key| key != guard.key()).expect("just seen");
        let next = waiting(&sharing, "kept").await;
        let behind = t.enqueue(&other, "kept").await;
        if gives_up == "dropped" {
            leader.abort();
            assert!(leader.await.is_err());
        } else {
            assert!(leader.await.expect("no panic").expect("no error").is_none());
        }
        throughout(Duration::from_millis(100), "the key is there", async || {
            t.keys().await.contains(&key)
        })
        .await;
        guard.unlock().await.expect("released");
        let guard = granted(next).await;
        assert_eq!(guard.key(), key);
        assert!(behind.waits());
        guard.unlock().await.expect("released");
        behind.served().await;
        // With nobody to take it over, it goes.
        let guard = other.mutex("kept").lock().await.expect("granted");
        let leader = locking(&sharing, "kept").await;
        let leader = tokio::spawn(leader);
        t.queue_of(2).await;
        leader.abort();
        t.queue_of(1).await;
        guard.unlock().await.expect("released");
    }
}

/// Its holder is told, and keeps its guard; the others do not wait for it.
pub(crate) async fn a_lock_lost_while_others_wait_is_taken_anew(t: &Case) {
    for by_session in [true, false] {
        let client = client(t, MOST).await;
        let lost = lock(&client, "lost").await;
        let (next, last) = (waiting(&client, "lost").await, waiting(&client, "lost").await);
        if by_session {
            t.store.end_session_of(lost.key()).await;
        } else {
            t.store.delete_key(lost.key()).await;
        }
        let reason = within(SOON, "the holder is told", lost.lost()).await;
        assert!(
            matches!(reason, LostReason::SessionExpired | LostReason::KeyDeleted),
            "{reason:?}"
        );
        let next = granted(next).await;
        assert!(next.is_valid() && !lost.is_valid());
        assert!(token(&next).0 > token(&lost).0, "it comes from the store");
        assert!(!last.is_finished());
        let error = lost.unlock().await.expect_err("it was lost before");
        assert!(matches!(error, Error::Lost { .. }), "{error:?}");
        assert!(next.is_valid());
        let key = next.key().to_owned();
        drop(next);
        let lost = granted(last).await;
        assert_eq!(lost.key(), key);
        // Now nobody waits; who comes later does not wait either.
        t.store.delete_key(lost.key()).await;
        within(SOON, "the holder is told", lost.lost()).await;
        let again = client.mutex("lost").try_lock().await.expect("no error").expect("it is free");
        drop(lost);
        assert!(again.is_valid());
        t.store.delete_key(again.key()).await;
        within(SOON, "the holder is told", again.lost()).await;
        lock(&client, "lost").await.unlock().await.expect("released");
        drop(again);
    }
}

pub(crate) async fn a_shared_lock_is_kept_for_three_ttls(t: &Case) {
    let client = t.connect(t.builder().session_ttl(t.store.min_ttl()).local_handover(MOST)).await;
    let mut holder = lock(&client, "long").await;
    let key = holder.key().to_owned();
    let start = Instant::now();
    while start.elapsed() < client.session_ttl() * 3 {
        let next = waiting(&client, "long").await;
        sleep(client.session_ttl() / 5).await;
        assert!(holder.is_valid());
        holder.unlock().await.expect("passed on");
        holder = granted(next).await;
        assert_eq!(t.keys().await, [&*key]);
    }
    holder.unlock().await.expect("released");
}

pub(crate) async fn close_ends_waiting_within_a_client(t: &Case) {
    let [closed, other] = [client(t, MOST).await, t.client().await];
    let held = lock(&closed, "held").await;
    let foreign = other.mutex("foreign").lock().await.expect("granted");
    let leader = t.enqueue(&closed, "foreign").await;
    let mut waiters = Vec::new();
    for name in ["held", "held", "foreign", "foreign"] {
        waiters.push(waiting(&closed, name).await);
    }
    closed.close().await.expect("closed");
    waiters.push(tokio::spawn(leader.result(SOON)));
    for waiter in waiters {
        let error = within(SOON, "it ends", waiter)
            .await
            .expect("no panic")
            .expect_err("the client is closed");
        assert!(matches!(error, Error::Closed), "{error:?}");
    }
    for name in ["held", "foreign", "new"] {
        let mutex = closed.mutex(name);
        let outcomes =
            [mutex.lock().await.map(Some), mutex.try_lock().await, mutex.lock_timeout(SOON).await];
        for outcome in outcomes {
            assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
        }
    }
    assert_eq!(held.lost().await, LostReason::ClientClosed);
    let error = held.unlock().await.expect_err("it was lost before");
    assert!(matches!(error, Error::Lost { reason: LostReason::ClientClosed, .. }), "{error:?}");
    assert!(foreign.is_valid());
    foreign.unlock().await.expect("released");
}

pub(crate) async fn guards_dropped_outside_a_runtime_pass_the_lock_on(t: &Case) {
    let [sharing, other] = [client(t, 1).await, t.client().await];
    let mut guard = lock(&sharing, "dropped").await;
    let (one, two) = (waiting(&sharing, "dropped").await, waiting(&sharing, "dropped").await);
    let behind = t.enqueue(&other, "dropped").await;
    let drop_outside = |guard| std::thread::spawn(move || drop(guard)).join().expect("no panic");
    drop_outside(guard);
    guard = granted(one).await;
    // This one asks the store, and lets go.
    drop_outside(guard);
    let foreign = behind.granted().await;
    foreign.unlock().await.expect("released");
    drop_outside(granted(two).await);
    eventually(SOON, "the key is gone", async || t.keys().await.is_empty()).await;
}

/// Neither on a plain thread nor under a runtime that has no timers; and the same without local
/// hand-over.
pub(crate) async fn timeouts_need_no_runtime_of_the_callers(t: &Case) {
    let [sharing, plain, other] = [client(t, MOST).await, t.client().await, t.client().await];
    let foreign = lock(&other, "foreign").await;
    let untimed = Builder::new_current_thread().build().expect("a runtime");
    for (client, timers) in
        [(&sharing, None), (&sharing, Some(&untimed)), (&plain, None), (&plain, Some(&untimed))]
    {
        std::thread::scope(|scope| {
            let calls = || {
                let _entered = timers.map(Runtime::enter);
                without_a_runtime(time_out(client));
            };
            scope.spawn(calls).join().expect("no timer of the caller's is asked for");
        });
    }
    std::thread::scope(|scope| scope.spawn(move || drop(untimed)).join().expect("no panic"));
    foreign.unlock().await.expect("released");
}

/// All that waits for no longer than a while: behind others of the same client, behind another
/// client's lock, and for what is free.
async fn time_out(client: &Client) {
    const SHORT: Duration = Duration::from_millis(20);
    let free = client.mutex("free");
    let guard = free.lock_timeout(SOON).await.expect("no error").expect("it is free");
    for mutex in [&free, &client.mutex("foreign")] {
        assert!(mutex.lock_timeout(SHORT).await.expect("no error").is_none());
        assert!(mutex.try_lock().await.expect("no error").is_none());
    }
    let names = ["another", "free"];
    assert!(client.lock_all_timeout(names, SHORT).await.expect("no error").is_none());
    let (mut next, mut passed) = (pin!(free.lock_timeout(SOON)), Some(guard));
    let next = poll_fn(|context| {
        let polled = next.as_mut().poll(context);
        // It waits now.
        drop(passed.take());
        polled
    });
    let guard = next.await.expect("no error").expect("it was let go");
    guard.unlock().await.expect("released");

    let (rw_lock, semaphore) = (client.rw_lock("others"), client.semaphore("others", 1));
    let reader = rw_lock.read_timeout(SOON).await.expect("no error").expect("it is free");
    assert!(rw_lock.write_timeout(SHORT).await.expect("no error").is_none());
    reader.unlock().await.expect("released");
    let permit = semaphore.acquire_timeout(SOON).await.expect("no error").expect("there is one");
    assert!(semaphore.acquire_timeout(SHORT).await.expect("no error").is_none());
    permit.release().await.expect("released");
}

pub(crate) async fn try_lock_does_not_pass_a_clients_own(t: &Case) {
    let [sharing, other] = [client(t, MOST).await, t.client().await];
    let try_lock = async || sharing.mutex("tried").try_lock().await.expect("an answer");
    let guard = try_lock().await.expect("it is free");
    assert!(try_lock().await.is_none(), "it is held");
    let next = waiting(&sharing, "tried").await;
    guard.unlock().await.expect("passed on");
    assert!(try_lock().await.is_none(), "it was passed on");
    granted(next).await.unlock().await.expect("released");
    let foreign = other.mutex("tried").lock().await.expect("granted");
    assert!(try_lock().await.is_none(), "another client holds it");
    assert_eq!(t.keys().await, [foreign.key()]);
    let leader = t.enqueue(&sharing, "tried").await;
    assert!(try_lock().await.is_none(), "somebody waits");
    foreign.unlock().await.expect("released");
    leader.served().await;
    try_lock().await.expect("it is free again").unlock().await.expect("released");
}

pub(crate) async fn bad_numbers_of_handovers_are_refused(t: &Case) {
    for max in [0, 65_536, u32::MAX] {
        let error = t.builder().local_handover(max).connect().await.expect_err("it is refused");
        assert!(
            matches!(error, Error::InvalidConfig { option: "local_handover", .. }),
            "{max}: {error:?}"
        );
    }
    let error = client(t, 1).await.mutex("").lock().await.expect_err("a bad name");
    assert!(matches!(error, Error::InvalidName { .. }), "{error:?}");
}

/// Runs alone, as it reads the store's counters.
pub(crate) async fn a_handover_asks_the_store_nothing(t: &Case) {
    let client = client(t, MOST).await;
    let mut holder = lock(&client, "cheap").await;
    let session = [t.store.session_of(holder.key()).await];
    let mut waiters = Vec::new();
    for _ in 0..300 {
        waiters.push(waiting(&client, "cheap").await);
    }
    let before = t.cost(&session).await;
    for waiter in waiters {
        holder.unlock().await.expect("passed on");
        holder = granted(waiter).await;
    }
    let spent = t.cost(&session).await - before;
    // A keepalive, and the watch on the holder's key once it is held for long.
    assert!(spent.requests <= 3 && spent.watches <= 1 && spent.events == 0, "{spent:?}");
    holder.unlock().await.expect("released");
}
