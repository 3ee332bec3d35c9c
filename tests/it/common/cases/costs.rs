//! What things cost, by the store's own counters. These run alone.

use std::time::{Duration, Instant};

use distlock::Client;

use crate::common::{Case, SOON, Waiter, eventually, handover, release, within};

pub(crate) async fn an_uncontended_lock_costs_what_it_must(t: &Case) {
    let client = t.client().await;
    let mutex = client.mutex("uncontended");
    let session = session_of_a_lock(t, &client).await;
    costs(t, &session, t.store.uncontended(), async || {
        mutex.lock().await.expect("granted").unlock().await.expect("released");
    })
    .await;
}

/// As much as a lock, and a semaphore twice as much: it has a gate.
pub(crate) async fn uncontended_primitives_cost_what_they_must(t: &Case) {
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

/// Fails unless it costs so many requests, and nothing else.
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
        assert!(spent.watches <= 2 && spent.events <= 2, "{spent:?}: nobody waited");
        // A few keepalives may fall into it. What a semaphore gives back at the same time may
        // travel together, as PostgreSQL's does.
        let least = due - due / 4;
        if (least..=due + (6 + upkeep(started)) * servers(t)).contains(&spent.requests) {
            break;
        }
        // ZooKeeper removes a directory that it finds empty, which costs the next lock two
        // requests. That is once in a while, not once in a lock.
        attempts += 1;
        assert!(attempts < 5, "{spent:?} instead of {due} requests");
    }
}

pub(crate) async fn a_try_lock_on_a_held_lock_only_looks(t: &Case) {
    const ROUNDS: u64 = 50;
    let [one, two] = t.clients().await;
    let guard = one.mutex("busy").lock().await.expect("granted");
    let other = two.mutex("other").lock().await.expect("granted");
    let session = sessions_of(t, &[other.key()]).await;
    settled(t, &session).await;
    let (before, started) = (t.cost(&session).await, Instant::now());
    for _ in 0..ROUNDS {
        assert!(two.mutex("busy").try_lock().await.expect("an answer").is_none());
    }
    let spent = t.cost(&session).await - before;
    let due = ROUNDS * t.store.busy();
    let most = due + (3 + upkeep(started)) * servers(t);
    assert!((due..=most).contains(&spent.requests), "{spent:?} instead of {due} requests");
    assert!(spent.watches == 0 && spent.events == 0, "{spent:?}: nobody waited");
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
    // The delete, one event, one look; then the new holder's watch on its own key. A few keepalives
    // may fall into it, too.
    assert!(spent.events <= 2, "{spent:?}: more than one was told");
    let looks = t.store.looks() * (started.elapsed().as_secs() + 1);
    let most = 9 + (looks + upkeep(started)) * sessions.len() as u64;
    assert!((1..=most).contains(&spent.requests), "{spent:?}: more than one looked");
    assert!(spent.watches <= 4, "{spent:?}: more than one watched");
    assert!(waiters.iter().all(Waiter::waits));
    drop(waiters);
    next.unlock().await.expect("released");
}

/// One joins while the other one leaves, which does not know of it. The store shows that it was
/// there.
pub(crate) async fn two_tasks_of_one_client_hand_over_without_a_look(t: &Case) {
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
    // One to lock and one to unlock; now and then they come in another order.
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
    // Long enough for anything that polls.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let spent = t.cost(&sessions).await - before;
    // Two sessions' keepalives and pings, and the servers' own health checks: a tenth of what one
    // request for each waiter would be.
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
    assert!(one >= 5, "{spent:?}: it was to be kept alive about six times");
    assert!(many <= one * 2, "{spent:?}: a thousand locks cost more than one");
    assert!(guards.iter().all(|guard| guard.is_valid()));
    drop(guards);
    // So many releases take a busy machine longer than a case's end allows.
    t.queue_of(0).await;
}

/// A look after the keys of all of them, that none was deleted without a word.
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
    assert!(spent.requests + 1 >= u64::from(RECHECKS), "{spent:?}: nobody looked after the keys");
    // Proofs of life and pings of some seconds may be among them, and servers' own health checks.
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

/// How many keepalives and pings of one session may have fallen into the time since then: a busy
/// machine takes long.
fn upkeep(since: Instant) -> u64 {
    // A third of a case's usual TTL is between two.
    2 * (since.elapsed().as_secs() / 5)
}

/// To how many servers each of a session's own requests goes.
fn servers(t: &Case) -> u64 {
    t.store.at_once() as u64
}

pub(crate) async fn sessions(t: &Case, waiters: &[Waiter]) -> Vec<i64> {
    let keys: Vec<_> = waiters.iter().map(|waiter| &*waiter.key).collect();
    sessions_of(t, &keys).await
}

/// The sessions of these keys, where servers know of any: some count requests by them.
pub(crate) async fn sessions_of(t: &Case, keys: &[&str]) -> Vec<i64> {
    let Some(store) = t.store.sessions() else { return Vec::new() };
    let mut sessions = Vec::new();
    for key in keys {
        sessions.push(store.session_of(key).await);
    }
    sessions
}

/// Returns when nothing but keepalives has been asked for a while: what was begun is done, for
/// instance the holder's watch on its own key.
pub(crate) async fn settled(t: &Case, sessions: &[i64]) {
    let mut last = t.cost(sessions).await;
    let quiet = eventually(SOON, "the store comes to rest", async || {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let now = t.cost(sessions).await;
        let spent = now - last;
        last = now;
        spent.requests <= 6 * sessions.len().max(1) as u64
            && spent.watches == 0
            && spent.events == 0
    });
    within(SOON * 2, "the store comes to rest", quiet).await;
}
