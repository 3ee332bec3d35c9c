//! A pool that has few connections, or temporarily none.

use std::time::{Duration, Instant};

use distlock::Error;
use distlock_testkit::proxy::Mode;

use super::{REQUEST, client_of, place, pool_of};
use crate::common::{
    SOON, Servers as _, Waiter, chain, close, company, connected, eventually, locked, release_both,
    take_turn, throughout, within,
};

/// The time limit for a call without a free connection in the pool, on a busy machine.
pub(in super::super) const PROMPT: Duration = Duration::from_secs(5);

/// Asserts that the call failed because the pool lent no connection.
pub(in super::super) fn lent_none<T: std::fmt::Debug>(outcome: distlock::Result<T>) {
    let error = outcome.expect_err("the pool has no connection");
    assert!(matches!(error, Error::Unavailable { .. }) && error.is_retryable(), "{error:?}");
    assert!(chain(&error).contains("the pool lent no connection"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_serves_two_clients() {
    let _company = company().await;
    let pool = pool_of(&place::url(), 1);
    let builder = client_of(&pool);
    let [one, two] = [connected(builder.clone()).await, connected(builder).await];
    for _ in 0..3 {
        let guard = locked(&one, "a").await;
        assert!(two.mutex("a").try_lock().await.expect("a reply").is_none());
        let waiter = Waiter::of(&two, "a");
        release_both(guard, waiter).await;
    }
    let guards = (0..20).map(|number| one.mutex(number.to_string()));
    let guards: Vec<_> = guards.map(|mutex| async move { mutex.lock().await }).collect();
    for guard in futures_util::future::join_all(guards).await {
        guard.expect("granted").unlock().await.expect("released");
    }
    close([one, two]).await;
}

/// Keepalives do not use the pool.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guard_outlives_a_pool_that_is_exhausted_for_two_ttl() {
    let _company = company().await;
    let pool = pool_of(&place::url(), 2);
    let ttl = Duration::from_secs(3);
    let client = connected(client_of(&pool).session_ttl(ttl)).await;
    let [held, dropped] = [locked(&client, "held").await, locked(&client, "dropped").await];
    let taken = [pool.acquire().await.expect("lent"), pool.acquire().await.expect("lent")];
    drop(dropped);
    let until = Instant::now() + ttl * 2;
    while Instant::now() < until {
        let other = client.mutex("other");
        let attempt = within(PROMPT, "lock() returns", other.lock());
        let valid = throughout(REQUEST / 2, "the guard is valid", async || held.is_valid());
        lent_none(tokio::join!(attempt, valid).0);
    }
    assert!(held.is_valid() && held.remaining() > ttl / 4, "{:?}", held.remaining());
    drop(taken);
    take_turn(&client, "other").await;
    // Released in the background, as soon as there was a connection.
    take_turn(&client, "dropped").await;
    held.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The late reply to an abandoned request never reaches the pool's other users.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_of_an_unanswered_request_is_closed() {
    let _company = company().await;
    let proxies = place::by_pool().await.proxies().await;
    let pool = pool_of(&proxies.url(), 1);
    let client = connected(client_of(&pool)).await;
    let process = async || -> i32 {
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.expect("a number")
    };
    let before = process().await;
    assert_eq!(process().await, before, "the pool has one connection");
    // sqlx tests the connection as it is released.
    eventually(SOON, "the connection is idle", async || pool.num_idle() == 1).await;
    proxies.set(&Mode::BlackholeToClient);
    // The first attempt is sent; for the next ones the pool cannot connect.
    within(SOON, "try_lock() returns", client.mutex("a").try_lock()).await.expect_err("no reply");
    proxies.set(&Mode::Pass);
    assert_ne!(within(SOON, "the pool connects again", process()).await, before);
    take_turn(&client, "a").await;
    client.close().await.expect("closed");
}
