//! Servers that lost all data, or the writes confirmed last.

use std::time::Duration;

use distlock::{Client, Error, FailoverBehavior};
use distlock_testkit::proxy::Mode;
use redis::cmd;
use tokio::time::{Instant, sleep};

use super::own::Server;
use crate::common::{
    SOON, connect, locked,
    own::TTL,
    poll, promises,
    redis::{FORGETTING, META, calls},
    within,
};

/// The TTL of a holder's session that outlives a server's restart.
const LONG: Duration = Duration::from_secs(8);

/// Asserts that no client is granted the lock while the guard is valid, and returns the time of the
/// next grant.
async fn granted_after(guard: &distlock::LockGuard, others: &[Client]) -> Instant {
    let mut tries = 0;
    let mut granted = None;
    let free = poll(LONG * 3, async || {
        for other in others {
            let tried = other.mutex("a").try_lock().await;
            if let Ok(Some(next)) = tried {
                assert!(!guard.is_valid(), "two clients hold the lock, after {tries} tries");
                assert!(next.fencing_token() > guard.fencing_token());
                granted = Some(Instant::now());
                next.unlock().await.expect("released");
                return true;
            }
            let refusals =
                matches!(tried, Ok(None) | Err(Error::NotYet { .. } | Error::Unavailable { .. }));
            assert!(refusals, "{tried:?}");
            tries += 1;
        }
        false
    })
    .await;
    assert!(free, "the lock is never granted");
    granted.expect("just granted")
}

/// The server loses its disk while a holder is cut off, which trusts its lock until its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_server_grants_nothing_while_a_former_guard_is_valid() {
    let mut server = Server::start().await;
    let (client, way) = server.by_proxy(LONG).await;
    let guard = locked(&client, "a").await;
    way.set(Mode::Blackhole);
    server.wipe().await;
    let others = [connect(&server.url(), LONG).await];
    granted_after(&guard, &others).await;
}

/// The first client has a shorter TTL than a lost holder may have had; a later client has a longer
/// one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_client_with_a_longer_ttl_extends_the_quarantine() {
    let mut server = Server::start().await;
    server.wipe().await;
    let wiped = Instant::now();
    let short = connect(&server.url(), TTL / 3).await;
    let first = locked(&short, "b").await;
    let after = wiped.elapsed();
    first.unlock().await.expect("released");
    assert!(after < LONG / 2, "after {after:?}");
    let long = connect(&server.url(), LONG).await;
    let error = short.mutex("b").try_lock().await.expect_err("the lost state is unknown");
    assert!(matches!(error, Error::NotYet { .. }), "{error:?}");
    let next = within(LONG * 2, "granted", long.mutex("b").lock()).await.expect("granted");
    let after = wiped.elapsed();
    assert!(after > LONG - Duration::from_secs(1) && after < LONG * 2, "after {after:?}");
    next.unlock().await.expect("released");
}

/// A server that has been up for longer than any TTL cannot have forgotten a live session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_server_that_runs_for_long_grants_at_once() {
    let server = Server::just_begun(&[]).await;
    sleep(Duration::from_secs(3)).await;
    let client = connect(&server.url(), Duration::from_secs(1)).await;
    let guard = client.mutex("a").try_lock().await.expect("a reply").expect("free");
    guard.unlock().await.expect("released");
}

/// Tokens may be far ahead of the clock, from which an emptied server starts. Tokens that a client
/// has seen are not reused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_after_losing_a_counter_ahead_of_the_clock() {
    const AHEAD: u64 = 1_000_000_000_000;
    let server = Server::start().await;
    let client = connect(&server.url(), TTL).await;
    let _: u8 = server.ask(cmd("HSET").arg(META).arg("last").arg(AHEAD)).await;
    let guard = locked(&client, "a").await;
    let token = guard.fencing_token();
    assert!(token.as_u64() > AHEAD);
    let _: String = server.ask(&cmd("FLUSHALL")).await;
    within(SOON, "the holder is notified", guard.lost()).await;
    let next = locked(&client, "a").await;
    assert!(next.fencing_token() > token, "{:?} after {token:?}", next.fencing_token());
    next.unlock().await.expect("released");
}

/// The server was a replica, possibly before its first synchronization.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_server_that_was_promoted_grants_nothing_for_a_while() {
    let server = Server::just_begun(&[]).await;
    for of in [["192.0.2.1", "6379"], ["NO", "ONE"]] {
        let _: String = server.ask(cmd("REPLICAOF").arg(&of)).await;
    }
    sleep(TTL).await;
    let began = Instant::now();
    let client = connect(&server.url(), TTL).await;
    let guard = within(TTL * 3, "granted", client.mutex("a").lock()).await.expect("granted");
    assert!(began.elapsed() > TTL * 8 / 10, "after {:?}", began.elapsed());
    guard.unlock().await.expect("released");
}

/// `appendfsync everysec` loses the last second or two in a crash of the machine, including grants.
/// The TTL of a holder is on disk before its session begins.
///
/// A killed process loses nothing that is in the page cache. So the test restores a copy of the
/// disk, made after the server confirmed the TTL and before the grant. It also counts the requests
/// for that confirmation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_ttl_survives_a_crash() {
    let mut server = Server::with(&["--appendfsync", "everysec"]).await;
    let short = connect(&server.url(), TTL / 3).await;
    assert_eq!(promises(&short).await, (true, FailoverBehavior::MayLoseGrants));
    let before = waits(&server).await;
    let (client, way) = server.by_proxy(LONG).await;
    assert!(waits(&server).await > before, "the client did not wait for the disk");
    server.copy_disk().await;
    let guard = locked(&client, "a").await;
    way.set(Mode::Blackhole);
    server.crash().await;
    let others = [connect(&server.url(), TTL / 3).await];
    granted_after(&guard, &others).await;
    // A later client does not wait for a TTL that is already on disk.
    let before = waits(&server).await;
    for _ in 0..2 {
        connect(&server.url(), TTL / 3).await.close().await.expect("closed");
    }
    assert!(waits(&server).await <= before + 1);
}

/// Returns the number of waits for the disk.
async fn waits(server: &Server) -> u64 {
    let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
    calls(&stats, "waitaof")
}

/// A server without a persistent file guarantees nothing, and `durability` reports that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_persistence_promises_nothing() {
    let _no_other = FORGETTING.lock().await;
    for options in [&["--appendonly", "no"][..], &["--appendfsync", "no"]] {
        let server = Server::with(options).await;
        let client = connect(&server.url(), TTL).await;
        assert_eq!(promises(&client).await, (false, FailoverBehavior::MayLoseGrants));
        let reasons = client.durability().await.expect("a reply").reasons.concat();
        assert!(reasons.contains("a crash may undo"), "{reasons}");
        client.close().await.expect("closed");
    }
}
