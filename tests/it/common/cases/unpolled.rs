//! Futures that are not polled, and stores that do not reply: other calls do not wait for them.

use std::{
    pin::{Pin, pin},
    task::{Context, Waker},
    time::{Duration, Instant},
};

use distlock::{Client, Error, LockGuard, Mutex};
use futures_util::future::join_all;
use tokio::{task::yield_now, time::sleep};

use crate::common::{Case, SOON, Sessions, locked, take_turn, within};

/// Slack for a busy machine.
const SLACK: Duration = Duration::from_millis(1500);

type Left = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn poll(future: &mut Left, times: usize) {
    for _ in 0..times {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            *future = Box::pin(std::future::pending());
        }
        yield_now().await;
        // Like a caller that polls only from time to time.
        if times > 3 {
            sleep(Duration::from_micros(500)).await;
        }
    }
}

/// Creates every public future of a client, on names of its own.
async fn futures(client: &Client, number: usize) -> Vec<Left> {
    let name = |what: &str| format!("{what}-{number}");
    let [one, two, three] = [client.clone(), client.clone(), client.clone()];
    let (mutex, rw) = (client.mutex(name("lock")), client.rw_lock(name("rw")));
    let (semaphore, election) =
        (client.semaphore(name("permits"), 2), client.election(name("election")));
    let guard = client.mutex(name("guard")).lock().await.expect("granted");
    let written = client.mutex(name("written")).lock().await.expect("granted");
    let leader = client.election(name("leader")).campaign("old").await.expect("granted");
    let key = format!("/data-unpolled/{}", name("put"));
    let mut observed = client.election(name("leader")).observe().expect("a good name");
    let mut watched = client.mutex(name("guard")).watch_queue().expect("a good name");
    let all = [name("all-1"), name("all-2")];
    let all_tried = [name("try-1"), name("try-2")];
    macro_rules! left {
        ($($future:expr),* $(,)?) => {
            vec![$(Box::pin(async move { drop($future.await) }) as Left),*]
        };
    }
    let (m1, m2, m3, m4, m5) =
        (mutex.clone(), mutex.clone(), mutex.clone(), mutex.clone(), mutex.clone());
    let (r1, r2, r3) = (rw.clone(), rw.clone(), rw.clone());
    let (s1, s2) = (semaphore.clone(), semaphore.clone());
    let (e1, e2) = (election.clone(), election.clone());
    left![
        async move { m1.lock().await },
        async move { m2.try_lock().await },
        async move { m3.lock_timeout(SOON).await },
        async move { m4.queue().await },
        async move { m5.request_release("please").await },
        async move { r1.read().await },
        async move { r2.write().await },
        async move { r3.try_read().await },
        async move { s1.acquire().await },
        async move { s2.try_acquire().await },
        async move { semaphore.set_permits(3).await },
        async move { e1.campaign("value").await },
        async move { e2.leader().await },
        async move { one.lock_all(all).await },
        async move { two.try_lock_all(all_tried).await },
        async move { guard.unlock().await },
        async move { written.put(key, "value").await },
        async move { leader.proclaim("new").await },
        async move { observed.next().await },
        async move { watched.next().await },
        async move { three.mutex("nobody").holder().await },
    ]
}

/// Abandoned futures, polled any number of times, block no call of this client or of another.
pub(crate) async fn abandoned_futures_block_no_other_call(t: &Case) {
    const POLLS: usize = 20;
    let [client, other] = t.clients().await;
    let held = client.mutex("held").lock().await.expect("granted");
    let mut left = Vec::new();
    for polls in 0..=POLLS {
        let mut futures = futures(&client, polls).await;
        for future in &mut futures {
            poll(future, polls).await;
        }
        left.extend(futures);
        for client in [&client, &other] {
            let free = format!("free-{polls}");
            let guard = locked(client, &free).await;
            within(SOON, "the lock is released", guard.unlock()).await.expect("released");
            let guard = within(SOON, "the try ends", client.mutex(&free).try_lock())
                .await
                .expect("a reply");
            drop(guard.expect("the lock is free"));
            let reader = within(SOON, "a reader is granted", client.rw_lock(&free).read())
                .await
                .expect("granted");
            drop(reader);
            within(SOON, "a queue is returned", client.mutex("held").queue())
                .await
                .expect("a reply");
        }
        assert!(held.is_valid());
    }
    within(SOON, "the lock is released", held.unlock()).await.expect("released");
    // Closing does not need the futures either.
    within(SOON, "the client is closed", client.close()).await.expect("closed");
    // Data that belongs to no session: the numbers of permits, and written values.
    for number in 0..=POLLS {
        let limit = format!("{}/permits-{number}!permits/limit=3+2+@1", t.namespace);
        t.erase([limit, format!("/data-unpolled/put-{number}")]).await;
    }
    let is_empty = crate::common::case::poll(SOON, async || t.keys().await.is_empty()).await;
    assert!(is_empty, "keys are left: {:?}", t.keys().await);
    drop(left);
}

/// Hundreds of joins that were polled once occupy all slots of the client's concurrency limit.
pub(crate) async fn hundreds_of_joins_polled_once_block_no_other_call(t: &Case) {
    let [client, other] = t.clients().await;
    let guard = client.mutex("held").lock().await.expect("granted");
    let mutex = client.mutex("held");
    let mut left: Vec<_> = (0..300).map(|_| Box::pin(mutex.lock())).collect();
    for future in &mut left {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Avoids tokio's cooperative budget of a task.
        yield_now().await;
    }
    let start = Instant::now();
    let free =
        within(SOON, "the try ends", client.mutex("free").try_lock()).await.expect("a reply");
    println!("a free lock after {:?}", start.elapsed());
    drop(free.expect("the lock is free"));
    // Their slots do not keep the keys of a closed client.
    client.close().await.expect("closed");
    take_turn(&other, "held").await;
    drop((left, guard));
}

/// Acquires a lock in time, and retries if the session is lost: a busy machine loses short ones.
async fn acquired(mutex: &Mutex) -> LockGuard {
    let granted = async {
        loop {
            match mutex.lock().await {
                Err(Error::SessionLost { .. }) => {}
                granted => return granted.expect("granted"),
            }
        }
    };
    within(SOON, "the lock is granted", granted).await
}

/// A session is lost. The first call that needs a new one is polled once and abandoned.
pub(crate) async fn a_session_is_replaced_though_a_caller_is_not_polled(t: &Case<dyn Sessions>) {
    // etcd reports the loss only with the next keepalive. `DISTLOCK_ROUNDS=50` takes a minute.
    let rounds = t.rounds(1000, 15);
    let clients = [t.mortal_client().await, t.mortal_client().await];
    for round in 0..rounds {
        let client = &clients[round % 2];
        let guard = acquired(&client.mutex("a")).await;
        t.store.end_session_of(guard.key()).await;
        // Stores with a guarded write report the loss in its reply. Otherwise the next keepalive
        // does.
        let _ = guard.put("/data-unpolled/lost", "").await;
        within(SOON, "the holder is notified", guard.lost()).await;
        drop(guard);
        let (one, two) = (client.mutex("b"), client.mutex("c"));
        let mut first = pin!(one.lock());
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(acquired(&two).await);
        // A `select!` of two futures, each of which needs the progress of the other.
        let mut second = pin!(two.lock());
        let both = async {
            tokio::select! {
                guard = &mut first => drop(guard),
                guard = &mut second => drop(guard),
            }
        };
        within(SOON, "one of both is granted", both).await;
    }
}

/// All calls that wait for a session share one outcome.
pub(crate) async fn failed_openings_are_shared(t: &Case) {
    const LIMIT: Duration = Duration::from_millis(300);
    let link = t.link().await;
    let builder = t.builder_for(&link.url()).session_ttl(t.store.min_ttl()).request_timeout(LIMIT);
    let client = t.connect(builder.connect_timeout(LIMIT)).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    link.set_reachable(false);
    within(SOON * 2, "the session is lost", guard.lost()).await;
    let start = Instant::now();
    let tries = (0..20).map(|number| {
        let mutex = client.mutex(format!("free-{number}"));
        async move { mutex.try_lock().await }
    });
    for outcome in within(SOON, "the tries end", join_all(tries)).await {
        let error = outcome.expect_err("there is no session");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
    assert!(start.elapsed() < LIMIT * 3 + SLACK, "{:?}", start.elapsed());
    link.set_reachable(true);
}

/// Each try ends within twice the request timeout, whatever the store does.
pub(crate) async fn tries_end_in_time_without_a_store(t: &Case) {
    const LIMIT: Duration = Duration::from_millis(300);
    let link = t.link().await;
    let client = t.connect(t.builder_for(&link.url()).request_timeout(LIMIT)).await;
    let guard = client.mutex("known").lock().await.expect("granted");
    link.set_reachable(false);
    let start = Instant::now();
    let ended = |what: &'static str, error: Error| {
        println!("{what} after {:?}: {error}", start.elapsed());
        assert!(matches!(error, Error::Unavailable { .. }), "{what}: {error:?}");
        assert!(start.elapsed() < LIMIT * 2 + SLACK, "{what}: {:?}", start.elapsed());
    };
    let (mutex, rw, semaphore) =
        (client.mutex("m"), client.rw_lock("rw"), client.semaphore("s", 2));
    let election = client.election("e");
    tokio::join!(
        async { ended("try_lock", mutex.try_lock().await.expect_err("no reply")) },
        async { ended("try_read", rw.try_read().await.expect_err("no reply")) },
        async { ended("try_write", rw.try_write().await.expect_err("no reply")) },
        async { ended("try_acquire", semaphore.try_acquire().await.expect_err("no reply")) },
        async { ended("try_campaign", election.try_campaign("x").await.expect_err("no reply")) },
        async {
            ended("try_lock_all", client.try_lock_all(["x", "y"]).await.expect_err("no reply"))
        },
    );
    link.set_reachable(true);
    drop(guard);
}

/// A try does not wait for calls that are about to join, however many they are.
pub(crate) async fn a_try_does_not_wait_for_a_crowd(t: &Case) {
    const LIMIT: Duration = Duration::from_millis(300);
    let link = t.link().await;
    let client = t.connect(t.builder_for(&link.url()).request_timeout(LIMIT)).await;
    let guard = client.mutex("crowd").lock().await.expect("granted");
    link.set_reachable(false);
    let mutex = client.mutex("crowd");
    let mut crowd: Vec<_> = (0..1500).map(|_| Box::pin(mutex.lock())).collect();
    for future in &mut crowd {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Avoids tokio's cooperative budget of a task.
        yield_now().await;
    }
    let start = Instant::now();
    let error =
        within(SOON, "the try ends", client.mutex("free").try_lock()).await.expect_err("no reply");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(start.elapsed() < LIMIT * 2 + SLACK, "{:?}", start.elapsed());
    drop(crowd);
    link.set_reachable(true);
    drop(guard);
}
