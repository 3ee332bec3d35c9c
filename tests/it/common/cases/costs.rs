//! The cost of operations, by the store's own counters. These cases run alone.

use std::time::{Duration, Instant};

use distlock::Client;

use crate::common::{Case, SOON, Waiter, eventually, handover, release, within};

pub(crate) async fn uncontended_lock_has_a_fixed_request_cost(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("uncontended");
    let session = session_of_a_lock(t, &client).await;
    costs(t, &session, t.store.uncontended(), async || {
        mutex.lock().await.expect("granted").unlock().await.expect("released");
    })
    .await;
}

/// The other primitives cost as much as a mutex. A semaphore costs twice as much, since it has a
/// gate.
pub(crate) async fn uncontended_primitives_have_a_fixed_request_cost(t: &Case) {
    let client = t.client().await;
    let (lock, semaphore, election) = (
        client.rw_lock("uncontended"),
        client.semaphore("uncontended", 2),
        client.election("uncontended"),
    );
    let (session, one) = (session_of_a_lock(t, &client).await, t.store.uncontended());
    costs(t, &session, one, async || {
        lock.read().await.expect("granted").unlock().await.expect("released")
    })
    .await;
    costs(t, &session, one, async || {
        lock.write().await.expect("granted").unlock().await.expect("released")
    })
    .await;
    costs(t, &session, one, async || {
        election.campaign("value").await.expect("granted").resign().await.expect("released");
    })
    .await;
    costs(t, &session, 2 * one, async || {
        semaphore.acquire().await.expect("granted").release().await.expect("released");
    })
    .await;
}

async fn session_of_a_lock(t: &Case, client: &Client) -> Vec<i64> {
    let guard = client.mutex("any").lock().await.expect("granted");
    let session = sessions_of(t, &[guard.key()]).await;
    guard.unlock().await.expect("released");
    session
}

/// Fails unless `once` costs `requests` requests and nothing else.
async fn costs(t: &Case, session: &[i64], requests: u64, once: impl AsyncFn()) {
    const ROUNDS: u64 = 100;
    once().await;
    let due = ROUNDS * requests;
    let mut attempts = 0;
    loop {
        settled(t, session).await;
        let (before, started) = (t.cost(session).await, Instant::now());
        for _ in 0..ROUNDS {
            once().await;
        }
        settled(t, session).await;
        let spent = t.cost(session).await - before;
        assert!(spent.watches <= 2 && spent.events <= 2, "{spent:?}: no task waited");
        // A few keepalives may be counted as well. Concurrent releases of a semaphore may share a
        // request, as they do on PostgreSQL.
        let least = due - due / 4;
        if (least..=due + (6 + upkeep(started)) * servers(t)).contains(&spent.requests) {
            break;
        }
        // ZooKeeper occasionally removes an empty directory, which costs the next lock two
        // requests. That is not the cost of every lock.
        attempts += 1;
        assert!(attempts < 5, "{spent:?} instead of {due} requests");
    }
}

pub(crate) async fn try_lock_on_a_held_lock_creates_no_watch(t: &Case) {
    const ROUNDS: u64 = 50;
    let [one, two] = t.clients().await;
    let guard = one.mutex("busy").lock().await.expect("granted");
    let other = two.mutex("other").lock().await.expect("granted");
    let session = sessions_of(t, &[other.key()]).await;
    settled(t, &session).await;
    let (before, started) = (t.cost(&session).await, Instant::now());
    for _ in 0..ROUNDS {
        assert!(two.mutex("busy").try_lock().await.expect("a reply").is_none());
    }
    let spent = t.cost(&session).await - before;
    let due = ROUNDS * t.store.busy();
    let most = due + (3 + upkeep(started)) * servers(t);
    assert!((due..=most).contains(&spent.requests), "{spent:?} instead of {due} requests");
    assert!(spent.watches == 0 && spent.events == 0, "{spent:?}: no task waited");
    release([guard, other]).await;
}

pub(crate) async fn a_release_wakes_one_waiter(t: &Case) {
    let clients = t.clients::<4>().await;
    let holder = clients[0].mutex("herd").lock().await.expect("granted");
    let mut waiters = t.enqueue_all(clients.iter().cycle().take(20), "herd").await;
    let sessions = sessions(t, &waiters[..4]).await;
    settled(t, &sessions).await;
    let (before, started) = (t.cost(&sessions).await, Instant::now());
    let next = handover(holder, waiters.remove(0)).await;
    settled(t, &sessions).await;
    let spent = t.cost(&sessions).await - before;
    // The delete, one event and one read, then the new holder's watch on its own key. A few
    // keepalives may be counted as well.
    assert!(spent.events <= 2, "{spent:?}: more than one waiter was notified");
    let looks = t.store.looks() * (started.elapsed().as_secs() + 1);
    let most = 9 + (looks + upkeep(started)) * sessions.len() as u64;
    assert!((1..=most).contains(&spent.requests), "{spent:?}: more than one waiter read the queue");
    assert!(spent.watches <= 4, "{spent:?}: more than one waiter started a watch");
    assert!(waiters.iter().all(Waiter::waits));
    drop(waiters);
    next.unlock().await.expect("released");
}

/// One task joins while the other leaves, and neither knows of the other. The reply of the store
/// shows what happened.
pub(crate) async fn handover_within_one_client_sends_no_extra_read(t: &Case) {
    const TURNS: u64 = 100;
    let client = t.client().await;
    let turns = async || {
        let task = || {
            let mutex = client.mutex("turns");
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    mutex.lock().await.expect("locked").unlock().await.expect("released");
                }
            })
        };
        for task in [task(), task()] {
            task.await.expect("no panic");
        }
    };
    turns().await;
    let before = t.cost(&[]).await;
    turns().await;
    let spent = t.cost(&[]).await - before;
    let pairs = 2 * TURNS;
    // One request to lock and one to unlock. Occasionally they arrive in another order.
    assert!(spent.requests <= pairs * 12 / 5, "{spent:?} for {pairs}");
}

pub(crate) async fn idle_waiters_cost_nothing(t: &Case) {
    let clients = t.clients::<2>().await;
    let holder = clients[0].mutex("idle").lock().await.expect("granted");
    let waiters = t.enqueue_all(&clients, "idle").await;
    let sessions = sessions(t, &waiters).await;
    let rest = (0..198).map(|place| {
        let mutex = clients[place % 2].mutex("idle");
        tokio::spawn(async move { mutex.lock().await })
    });
    let rest: Vec<_> = rest.collect();
    t.queue_of(201).await;
    settled(t, &sessions).await;
    let before = t.cost(&sessions).await;
    // Long enough to notice any polling.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = t.cost(&sessions).await - before;
    // The keepalives and pings of two sessions, and the servers' own health checks: a tenth of one
    // request per waiter.
    assert!(spent.requests + spent.keepalives <= 20, "{spent:?}");
    assert!(spent.watches == 0 && spent.events == 0, "{spent:?}");
    for waiter in &rest {
        waiter.abort();
    }
    drop(waiters);
    holder.unlock().await.expect("released");
}

pub(crate) async fn held_locks_share_one_keepalive(t: &Case) {
    let client = t.mortal_client().await;
    let window = client.session_ttl() * 2;
    let mut guards = vec![client.mutex("held").lock().await.expect("granted")];
    let session = sessions_of(t, &[guards[0].key()]).await;
    let mut spent = Vec::new();
    for count in [1, 1000] {
        for number in guards.len()..count {
            guards.push(client.mutex(format!("held-{number}")).lock().await.expect("granted"));
        }
        settled(t, &session).await;
        let before = t.cost(&session).await;
        tokio::time::sleep(window).await;
        spent.push(t.cost(&session).await - before);
    }
    let [one, many] = [spent[0], spent[1]].map(|spent| spent.requests + spent.keepalives);
    assert!(one >= 5, "{spent:?}: about six keepalives were due");
    assert!(many <= one * 2, "{spent:?}: a thousand locks cost more than one");
    assert!(guards.iter().all(|guard| guard.is_valid()));
    drop(guards);
    // On a busy machine this many releases take longer than the end of a case allows.
    t.queue_of(0).await;
}

/// One recheck reads the keys of all held locks, and so finds keys deleted without an event.
pub(crate) async fn held_locks_share_one_recheck(t: &Case) {
    const LOCKS: usize = 200;
    const RECHECKS: u32 = 5;
    let interval = Duration::from_secs(1);
    let client = t.connect(t.builder().recheck_interval(interval)).await;
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(client.mutex(format!("held-{number}")).lock().await.expect("granted"));
    }
    let session = sessions_of(t, &[guards[0].key()]).await;
    settled(t, &session).await;
    let (before, started) = (t.cost(&session).await, Instant::now());
    // A quarter of the interval may be added.
    tokio::time::sleep(interval.mul_f64(1.25) * RECHECKS).await;
    let spent = t.cost(&session).await - before;
    let most = started.elapsed().as_secs() + 1;
    assert!(spent.requests + 1 >= u64::from(RECHECKS), "{spent:?}: the keys were not rechecked");
    // Keepalives and pings of several seconds may be counted, and servers' own health checks.
    assert!(spent.requests <= most + 8, "{spent:?}: more than one request for each interval");
    assert!(spent.watches == 0 && spent.events == 0, "{spent:?}");
    assert!(guards.iter().all(|guard| guard.is_valid()));
    drop(guards);
    t.queue_of(0).await;
}

pub(crate) async fn a_lock_that_is_never_polled_costs_nothing(t: &Case) {
    let client = t.client().await;
    let other = client.mutex("other").lock().await.expect("granted");
    let session = sessions_of(t, &[other.key()]).await;
    settled(t, &session).await;
    let (before, started) = (t.cost(&session).await, Instant::now());
    let mutex = client.mutex("unpolled");
    for _ in 0..100 {
        drop(mutex.lock());
        drop(mutex.try_lock());
        drop(mutex.lock_timeout(Duration::from_secs(1)));
    }
    settled(t, &session).await;
    let spent = t.cost(&session).await - before;
    let most = (3 + upkeep(started)) * servers(t);
    assert!(spent.requests + spent.keepalives <= most, "{spent:?}");
    assert_eq!(t.keys().await, [other.key()]);
    other.unlock().await.expect("released");
}

/// Returns how many keepalives and pings of one session may have been sent since then: a busy
/// machine takes long.
fn upkeep(since: Instant) -> u64 {
    // The interval between two is a third of a case's usual TTL.
    2 * (since.elapsed().as_secs() / 5)
}

/// Returns to how many servers each of a session's requests goes.
fn servers(t: &Case) -> u64 {
    t.store.at_once() as u64
}

pub(crate) async fn sessions(t: &Case, waiters: &[Waiter]) -> Vec<i64> {
    let keys: Vec<_> = waiters.iter().map(|waiter| &*waiter.key).collect();
    sessions_of(t, &keys).await
}

/// Returns the sessions of these keys. Some stores count requests by session; others have none.
pub(crate) async fn sessions_of(t: &Case, keys: &[&str]) -> Vec<i64> {
    let Some(store) = t.store.sessions() else { return Vec::new() };
    let mut sessions = Vec::new();
    for key in keys {
        sessions.push(store.session_of(key).await);
    }
    sessions
}

/// Waits until only keepalives are sent for a while. Then everything that was started is finished,
/// such as the holder's watch on its own key.
pub(crate) async fn settled(t: &Case, sessions: &[i64]) {
    let mut last = t.cost(sessions).await;
    let quiet = eventually(SOON, "the store becomes idle", async || {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = t.cost(sessions).await;
        let spent = now - last;
        last = now;
        spent.requests <= 6 * sessions.len().max(1) as u64
            && spent.watches == 0
            && spent.events == 0
    });
    within(SOON * 2, "the store becomes idle", quiet).await;
}
