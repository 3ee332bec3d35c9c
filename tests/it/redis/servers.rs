//! Restarts and changes of the server, and servers that are refused.

use std::time::Duration;

use distlock::{Client, Error, FailoverBehavior};
use redis::cmd;
use tokio::time::sleep;

use super::own::Server;
use crate::common::{
    SOON, close, connect, connected, contended, eventually, locked, locked_at_last,
    own::TTL,
    promises, reason,
    redis::{META, run, without_hello},
    refused, release, release_both, take_turn, throughout, within,
};

/// A server with all its data on disk keeps its locks over a restart, and grants at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_back_grants_at_once() {
    let server = Server::start().await;
    let client = connected(server.builder().session_ttl(TTL * 5)).await;
    let (guard, waiter) = contended(&client, &client, "a").await;
    assert_eq!(promises(&client).await, (true, FailoverBehavior::Blocks));
    server.restart().await;
    let other = server.client().await;
    take_turn(&other, "b").await;
    assert!(other.mutex("a").try_lock().await.expect("a reply").is_none());
    assert!(guard.is_valid() && waiter.waits());
    release_both(guard, waiter).await;
    close([client, other]).await;
}

/// A server that may have lost its last confirmed writes grants nothing for the longest TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_have_forgotten_grants_nothing_for_a_while() {
    // The holder outlives the restart, however busy the machine is.
    const LONG: Duration = Duration::from_secs(6);
    let server = Server::with(&["--appendfsync", "everysec"]).await;
    let client = connect(&server.url(), LONG).await;
    assert_eq!(promises(&client).await.1, FailoverBehavior::MayLoseGrants);
    let guard = client.mutex("a").lock().await.expect("granted");
    let token = guard.fencing_token();
    // By then the write is on disk.
    sleep(Duration::from_millis(1500)).await;
    server.restart().await;
    let back = tokio::time::Instant::now();
    // Its attempts wait at most for its own TTL.
    let other = connect(&server.url(), TTL / 3).await;
    let error = other.mutex("b").try_lock().await.expect_err("the lost state is unknown");
    assert!(matches!(error, Error::NotYet { .. }), "{error:?}");
    assert!(reason(&error).contains("the longest TTL"), "{error:?}");
    let lock = other.rw_lock("r");
    let reader = tokio::spawn(async move {
        let guard = lock.read().await;
        (tokio::time::Instant::now(), guard)
    });
    let free = other.mutex("b").lock_timeout(LONG * 3).await.expect("a reply").expect("granted");
    assert!(back.elapsed() > LONG * 8 / 10, "after {:?}", back.elapsed());
    let (read, reader) = within(SOON, "a reader is granted", reader).await.expect("no panic");
    assert!(read - back > LONG * 8 / 10, "a reader after {:?}", read - back);
    reader.expect("granted").unlock().await.expect("released");
    assert!(guard.is_valid(), "the lock was kept");
    release([free, guard]).await;
    let next = client.mutex("a").lock().await.expect("granted");
    assert!(next.fencing_token() > token);
    next.unlock().await.expect("released");
    close([client, other]).await;
}

/// After a failover, each session lives for another TTL, although it has expired by the clock. The
/// lock is certainly held until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_try_behind_a_resumed_session_finds_the_lock_held() {
    let server = Server::start().await;
    let client = server.client().await;
    let lines = "begin('de', 3600000000)
        last = last + 1
        add_entry('/distlock/a!rw', last, 'de', 'ticket', 'w', 'vx')
        call('ZADD', SESSIONS, text(now - 1000000), 'de')
        call('HSET', META, 'last', text(last), 'resumed', text(now) .. ' ' .. text(beat))
        return 1";
    let _: u8 = run(&server.operator().await, lines, &[]).await;
    let lock = client.rw_lock("a");
    let read = within(SOON, "the try ends", lock.try_read()).await;
    assert!(read.expect("a reply").is_none());
    let write = within(SOON, "the try ends", lock.try_write()).await;
    assert!(write.expect("a reply").is_none());
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let server = Server::start().await;
    let client = server.client().await;
    for _ in 0..3 {
        let guard = client.mutex("a").lock().await.expect("granted");
        let _: String = server.ask(cmd("SCRIPT").arg("FLUSH")).await;
        guard.put("/data/a", "b").await.expect("written");
        let _: String = server.ask(cmd("SCRIPT").arg("FLUSH")).await;
        guard.unlock().await.expect("released");
    }
    client.close().await.expect("closed");
}

/// An emptied server is another store: holders are notified, and tokens still rise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_notified_that_everything_was_deleted() {
    let server = Server::start().await;
    let client = server.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let token = guard.fencing_token();
    let _: String = server.ask(&cmd("FLUSHALL")).await;
    // The next keepalive, at a third of the TTL, notices.
    within(TTL / 2, "the holder is notified", guard.lost()).await;
    assert!(!guard.is_valid());
    let next = locked(&client, "a").await;
    assert!(next.fencing_token() > token, "{:?}", next.fencing_token());
    let token = next.fencing_token();
    next.unlock().await.expect("released");
    client.close().await.expect("closed");
    let _: String = server.ask(&cmd("FLUSHALL")).await;
    // A new client has seen no token, so its token comes from the clock.
    let stranger = server.client().await;
    let later = locked(&stranger, "a").await;
    assert!(later.fencing_token() > token, "{:?}", later.fencing_token());
    later.unlock().await.expect("released");
    stranger.close().await.expect("closed");
}

/// The server looks as if it had lost the session's last write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_notified_of_lost_confirmed_writes() {
    let server = Server::start().await;
    let client = server.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let session = guard.key().rsplit('/').next().and_then(|name| name.split('-').next());
    let lines = "local life = life_of(ARGV[3])
        life.writes = life.writes - 1
        keep_life(ARGV[3], life)
        return 1";
    let operator = server.operator().await;
    let _: u64 = run(&operator, lines, &[session.expect("a session")]).await;
    within(TTL / 2, "the holder is notified", guard.lost()).await;
    let next =
        within(TTL * 2, "the client continues", client.mutex("b").lock()).await.expect("granted");
    next.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// A server that lacks a watch has lost none of the session's confirmed writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_are_not_counted_as_writes() {
    let server = Server::start().await;
    // No keepalive is due.
    let client = connected(server.builder().session_ttl(SOON * 6)).await;
    let guard = locked(&client, "a").await;
    let session = guard.key().rsplit('/').next().and_then(|name| name.split('-').next());
    let arguments = [session.expect("a session")];
    let lines = "return { life_of(ARGV[3]).writes, #starting(QUEUE, '~' .. ARGV[3] .. ' w ') }";
    let operator = server.operator().await;
    let counts = async || run::<(u64, u64)>(&operator, lines, &arguments).await;
    let (before, _) = counts().await;
    eventually(SOON, "the holder watches its key", async || counts().await.1 == 1).await;
    assert_eq!(counts().await.0, before);
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_any_key_is_refused_by_name() {
    let server = Server::with(&["--maxmemory-policy", "allkeys-lru"]).await;
    let error = server.builder().connect().await.expect_err("refused");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("maxmemory-policy = allkeys-lru"), "{error:?}");
    let allowed = Client::connect(format!("{}?allow_eviction=true", server.url()));
    let client = within(SOON, "the client connects", allowed).await.expect("connected");
    assert!(!client.durability().await.expect("a reply").exclusive);
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_hello_is_refused_by_name() {
    let address = without_hello().await;
    let error = refused(Client::builder(format!("redis://{address}"))).await;
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    let reason = reason(&error);
    assert!(reason.contains(&address.to_string()) && reason.contains("HELLO"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_is_refused_by_name() {
    let server = Server::start().await;
    let client = server.client().await;
    let _: String = server.ask(cmd("REPLICAOF").arg("192.0.2.1").arg(6379)).await;
    let builder = server.builder().connect_timeout(Duration::from_secs(1));
    let error = builder.connect().await.expect_err("refused");
    assert!(reason(&error).contains("is a replica"), "{error:?}");
    let error = client.mutex("a").try_lock().await.expect_err("nothing can be written");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let _: String = server.ask(cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    let guard = within(TTL * 4, "the client continues", locked_at_last(&client.mutex("a"))).await;
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// A full server accepts writes that free memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_keeps_and_releases_held_locks() {
    let server = Server::start().await;
    let client = server.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let limit = async |bytes: u64| {
        let _: String = server.ask(cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes)).await;
    };
    limit(1).await;
    let error = client.mutex("b").try_lock().await.expect_err("the server is full");
    assert!(reason(&error).contains("OOM"), "{error:?}");
    let error = server.builder().connect().await.expect_err("the server is full");
    assert!(matches!(error, Error::Backend { .. }) && reason(&error).contains("OOM"), "{error:?}");
    throughout(TTL * 2, "the lock is held", async || guard.is_valid()).await;
    guard.unlock().await.expect("released");
    limit(0).await;
    take_turn(&client, "b").await;
    client.close().await.expect("closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_is_refused_by_name() {
    let server = Server::start().await;
    let client = server.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let change = async |version: u32| {
        let _: u32 = server.ask(cmd("HSET").arg(META).arg("version").arg(version)).await;
    };
    change(3).await;
    let error = server.builder().connect().await.expect_err("version 3 is unknown");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("version 3"), "{error:?}");
    let error = client.mutex("b").try_lock().await.expect_err("version 3 is unknown");
    assert!(reason(&error).contains("version 3"), "{error:?}");
    within(TTL, "the holder is notified", guard.lost()).await;
    change(2).await;
    let other = server.client().await;
    let next =
        within(TTL * 4, "the lock is granted", other.mutex("a").lock()).await.expect("granted");
    next.unlock().await.expect("released");
    other.close().await.expect("closed");
    drop(guard);
}

/// An operator evicts a holder through a client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_evicted() {
    let server = Server::start().await;
    let [client, operator] = [server.client().await, server.client().await];
    let guard = client.mutex("a").lock().await.expect("granted");
    assert!(operator.evict(guard.key()).await.expect("a reply"));
    within(SOON, "the holder is notified", guard.lost()).await;
    take_turn(&operator, "a").await;
    assert!(!operator.evict(guard.key()).await.expect("a reply"));
    close([client, operator]).await;
}
