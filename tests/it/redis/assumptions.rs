//! Variations of settings and states that the adapter must not rely on.

use std::time::Duration;

use distlock::Error;
use distlock_testkit::proxy::Mode;
use redis::cmd;
use tokio::time::sleep;

use super::own::Server;
use crate::common::{
    connect, eventually, locked,
    own::TTL,
    redis::{META, calls, run},
    within,
};

/// The server ran with `everysec`, lost its last second in a crash, and restarts with `always`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_under_everysec_delays_grants_after_a_restart_with_always() {
    let long = TTL * 3;
    let mut server = Server::with(&["--appendfsync", "everysec"]).await;
    let (client, way) = server.by_proxy(long).await;
    server.copy_disk().await;
    let guard = locked(&client, "a").await;
    way.set(Mode::Blackhole);
    server.start_with(&["--appendfsync", "always"]);
    server.crash().await;
    let other = connect(&server.url(), TTL).await;
    let tried = other.mutex("a").try_lock().await;
    assert!(guard.is_valid(), "the crash took too long");
    assert!(matches!(tried, Err(Error::NotYet { .. })), "{tried:?}");
    let next = within(long * 3, "granted", other.mutex("a").lock()).await.expect("granted");
    assert!(!guard.is_valid(), "two clients hold the lock");
    next.unlock().await.expect("released");
}

/// The last token is days old, and the server continues without the newest one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_jump_from_the_clock_after_an_idle_day() {
    let mut server = Server::with(&["--appendfsync", "everysec"]).await;
    let client = connect(&server.url(), TTL).await;
    let newest = locked(&client, "a").await;
    let token = newest.fencing_token().as_u64();
    newest.unlock().await.expect("released");
    client.close().await.expect("closed");
    // The state of a copy that lacks that grant.
    let old = token - 3 * 24 * 60 * 60 * 1000;
    let _: u8 = server.ask(cmd("HSET").arg(META).arg("last").arg(old)).await;
    // By then the write is on disk.
    sleep(Duration::from_millis(1500)).await;
    server.die().await;
    let other = connect(&server.url(), TTL).await;
    let next = locked(&other, "a").await;
    let jump = next.fencing_token().as_u64() - token;
    assert!(jump > 24 * 60 * 60 * 1000, "{jump} ms above the newest token");
    next.unlock().await.expect("released");
}

/// One client joins many live ones. Neither its first lock nor its first renewals, which check
/// whether the clock was set back, read all sessions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_reads_all_other_sessions() {
    const SESSIONS: u64 = 300;
    let server = Server::start().await;
    let lines = "for id = 1, tonumber(ARGV[3]) do
            begin(string.format('%x', id + 15), 3600000000)
        end
        return 1";
    let operator = server.operator().await;
    let _: u8 = run(&operator, lines, &[&SESSIONS.to_string()]).await;
    let client = server.client().await;
    let read = async || {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        calls(&stats, "hget")
    };
    let before = read().await;
    let guard = locked(&client, "a").await;
    let renewals = async || {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        calls(&stats, "hincrby")
    };
    let renewed = renewals().await;
    eventually(TTL, "the session is renewed", async || renewals().await > renewed + 1).await;
    let reads = read().await - before;
    assert!(reads < SESSIONS / 2, "{reads} reads for one lock");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The server ends connections that are idle for less than a third of the TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_succeeded_in_spite_of_an_idle_limit() {
    let ttl = TTL * 3;
    let server = Server::with(&["--timeout", "1"]).await;
    let (holder, way) = server.by_proxy(ttl).await;
    let waiting = connect(&server.url(), ttl).await;
    let guard = locked(&holder, "a").await;
    way.set(Mode::Blackhole);
    let next =
        within(ttl * 3, "the waiter is granted", waiting.mutex("a").lock()).await.expect("granted");
    assert!(!guard.is_valid(), "two clients hold the lock");
    next.unlock().await.expect("released");
}
