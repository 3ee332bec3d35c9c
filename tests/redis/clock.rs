//! The server's clock, which somebody sets.

use std::{error::Error as _, time::Duration};

use distlock::Error;
use distlock_testkit::proxy::Mode;
use tokio::time::{Instant, sleep};

use crate::{
    common::case::{SOON, within},
    own::{Server, TTL},
};

/// Who has watched the clock for so long believes it.
const WATCHED: Duration = Duration::from_millis(3400);
const HOUR: i64 = 3600;

async fn a_jump_frees_nothing(by: i64) {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let guard = client.mutex("a").lock().await.expect("granted");
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(WATCHED).await;
    server.set_clock(by).await;
    let jumped = Instant::now();
    let newcomer = server.client().await;
    while jumped.elapsed() < TTL * 3 {
        let tried = newcomer.mutex("a").try_lock().await;
        assert!(matches!(tried, Ok(None) | Err(Error::Unavailable { .. })), "{tried:?}");
        assert!(guard.is_valid() && !waiter.is_finished(), "after {:?}", jumped.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    guard.unlock().await.expect("it was held all the time");
    let next = within(SOON, "the next one's turn", waiter).await.expect("no panic");
    next.expect("granted").unlock().await.expect("released");
    for client in [client, other, newcomer] {
        client.close().await.expect("closed");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_forward_frees_nothing() {
    a_jump_frees_nothing(HOUR).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_back_frees_nothing() {
    a_jump_frees_nothing(-HOUR).await;
}

/// By the clock, the dead holder would live for an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_put_away_by_a_clock_that_was_set_back() {
    let server = Server::start().await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Refuse);
    server.set_clock(-HOUR).await;
    let next = within(TTL * 4, "the next one's turn", waiter).await.expect("no panic");
    assert!(!guard.is_valid());
    next.expect("granted").unlock().await.expect("released");
    other.close().await.expect("closed");
    drop((guard, holder));
}

/// Nobody has watched the clock since it died, so that the first to come has to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newcomer_is_not_told_that_a_dead_holder_lives() {
    let server = Server::start().await;
    let (holder, proxies, guard) = server.holder().await;
    proxies.all[0].set(Mode::Refuse);
    sleep(TTL * 2).await;
    assert!(!guard.is_valid());
    let newcomer = server.client().await;
    let error = newcomer.mutex("a").try_lock().await.expect_err("nobody knows");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(error.source().expect("a reason").to_string().contains("seems dead"), "{error:?}");
    let next = newcomer.mutex("a").lock_timeout(TTL * 2).await.expect("an answer");
    next.expect("granted").unlock().await.expect("released");
    newcomer.close().await.expect("closed");
    drop((guard, holder));
}

/// It cannot renew its session, and believes in its lock until its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_set_forward_leaves_one_who_is_cut_off_its_time() {
    let server = Server::start().await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Blackhole);
    server.set_clock(HOUR).await;
    let cut = Instant::now();
    while !waiter.is_finished() {
        assert!(cut.elapsed() < TTL * 4, "it is never put away");
        // Each request looks for sessions that are over.
        other.mutex("b").lock().await.expect("granted").unlock().await.expect("released");
        assert!(!(waiter.is_finished() && guard.is_valid()), "both hold it");
    }
    waiter.await.expect("no panic").expect("granted").unlock().await.expect("released");
    other.close().await.expect("closed");
    drop((guard, holder));
}

/// One who was cut off meanwhile has seen nothing of it, and takes the clock for one that is never
/// set.
async fn it_is_left_its_time(wrong: i64) {
    let server = Server::start().await;
    let (unknowing, proxies, before) = server.holder().await;
    before.unlock().await.expect("released");
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Refuse);
    server.set_clock(wrong).await;
    let (holder, way, guard) = server.holder().await;
    // It cannot renew its session by the right clock, and believes in its lock until its deadline.
    way.all[0].set(Mode::Refuse);
    server.set_clock(0).await;
    proxies.all[0].set(Mode::Pass);
    assert!(guard.is_valid());
    let next = within(TTL * 4, "the next one's turn", unknowing.mutex("a").lock()).await;
    assert!(!guard.is_valid(), "both hold it");
    next.expect("granted").unlock().await.expect("released");
    unknowing.close().await.expect("closed");
    drop((guard, holder));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_began_while_the_clock_was_wrong_is_left_its_time() {
    it_is_left_its_time(-HOUR).await;
}

/// By so little that its row does not tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_began_while_the_clock_was_a_little_wrong_is_left_its_time() {
    it_is_left_its_time(-3).await;
}
