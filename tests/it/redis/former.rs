//! Keys of version 1, left or still used by an earlier build.

use std::time::Duration;

use distlock::Error;
use redis::cmd;
use tokio::time::Instant;

use super::own::Server;
use crate::common::{
    SOON, close, connect, connected, eventually, locked, own::TTL, reason, within,
};

const FORMER: &str = "{distlock}:meta";
const DATA: &str = "{distlock:/distlock}:data";

/// Returns the server's time in microseconds since 1970.
async fn now_micros(server: &Server) -> u64 {
    let [seconds, micros]: [u64; 2] = server.ask(&cmd("TIME")).await;
    seconds * 1_000_000 + micros
}

/// Writes what version 1 writes when a session with this TTL begins or is renewed.
async fn write_session(server: &Server, session: &str, ttl: Duration) {
    let micros = u64::try_from(ttl.as_micros()).expect("a short time");
    let ends = now_micros(server).await + micros;
    let life = format!("{micros} 1 1");
    let mut meta = cmd("HSET");
    meta.arg(FORMER).arg("version").arg(1).arg("longest").arg(86_400_000_000_u64);
    let mut sessions = cmd("ZADD");
    sessions.arg("{distlock}:sessions").arg(ends).arg(session);
    let mut lives = cmd("HSET");
    lives.arg("{distlock}:lives").arg(session).arg(life);
    for command in [meta, sessions, lives] {
        let _: u64 = server.ask(&command).await;
    }
}

async fn version(server: &Server) -> Option<String> {
    server.ask(cmd("HGET").arg(FORMER).arg("version")).await
}

/// All scripts of version 1 check this field first, and refuse another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_version_1_is_refused_after_an_upgrade() {
    let server = Server::start().await;
    server.client().await.close().await.expect("closed");
    assert_eq!(version(&server).await.as_deref(), Some("2"), "no version was stored");
    let _: u64 = server.ask(cmd("HSET").arg(FORMER).arg("version").arg(1)).await;
    let client = server.client().await;
    assert_eq!(version(&server).await.as_deref(), Some("2"), "the version 1 sessions had ended");
    let guard = client.mutex("a").try_lock().await.expect("a reply").expect("free at once");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    let _: u64 = server.ask(cmd("HSET").arg(FORMER).arg("version").arg(3)).await;
    let error = server.builder().connect().await.expect_err("version 3 is unknown");
    assert!(!error.is_retryable() && reason(&error).contains("version 3"), "{error:?}");
}

/// Clients of the two versions would not see each other's locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_begins_while_a_version_1_session_lives() {
    let server = Server::start().await;
    write_session(&server, "1f", Duration::from_secs(600)).await;
    let error = server.builder().connect().await.expect_err("a version 1 session exists");
    assert!(matches!(error, Error::NotYet { .. }) && error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("a client of an earlier version of distlock"), "{error:?}");
    assert_eq!(version(&server).await.as_deref(), Some("1"), "the version is unchanged");
    // The client of version 1 closes.
    for (command, key) in [("ZREM", "{distlock}:sessions"), ("HDEL", "{distlock}:lives")] {
        let _: u64 = server.ask(cmd(command).arg(key).arg("1f")).await;
    }
    let client = server.client().await;
    let guard = client.mutex("a").try_lock().await.expect("a reply").expect("free at once");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The client of version 1 was killed, or is cut off and trusts its lock, and its session looks
/// expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_a_dead_client_of_version_1_are_kept_for_its_ttl() {
    let ttl = TTL * 3;
    let server = Server::start().await;
    write_session(&server, "1f", ttl).await;
    let over = now_micros(&server).await - 1;
    let _: u64 = server.ask(cmd("ZADD").arg("{distlock}:sessions").arg(over).arg("1f")).await;
    let seen = Instant::now();
    let connect_in = async |namespace: &str| connected(server.builder().namespace(namespace)).await;
    let [first, second] = [connect_in("/a").await, connect_in("/b").await];
    for client in [&first, &second] {
        let error = client.mutex("a").try_lock().await.expect_err("a version 1 holder may live");
        assert!(matches!(error, Error::NotYet { .. }), "{error:?}");
    }
    for client in [&first, &second] {
        let granted = within(ttl * 4, "granted", client.mutex("a").lock()).await;
        let after = seen.elapsed();
        assert!(after > ttl * 9 / 10, "after {after:?}");
        granted.expect("granted").unlock().await.expect("released");
    }
    close([first, second]).await;
}

/// Data is migrated once, and tokens continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_and_tokens_of_version_1_are_taken_over() {
    const AHEAD: u64 = 1_000_000_000_000;
    const KEYS: usize = 250;
    let server = Server::start().await;
    let _: String = server.ask(&cmd("FLUSHALL")).await;
    let _: u64 =
        server.ask(cmd("HSET").arg(FORMER).arg("version").arg(1).arg("last").arg(AHEAD)).await;
    let (mut values, mut names) = (cmd("HSET"), cmd("ZADD"));
    values.arg("{distlock}:data");
    names.arg("{distlock}:names");
    for number in 0..KEYS {
        let key = format!("/data/{number}");
        values.arg(&key).arg(format!("value {number}"));
        names.arg(0).arg(key);
    }
    let _: usize = server.ask(&values).await;
    let _: usize = server.ask(&names).await;
    let client = connect(&server.url(), TTL).await;
    let guard = within(SOON, "granted", locked(&client, "a")).await;
    assert!(guard.fencing_token().as_u64() > AHEAD);
    let adopted: usize = server.ask(cmd("HLEN").arg(DATA)).await;
    assert_eq!(adopted, KEYS);
    let value: String = server.ask(cmd("HGET").arg(DATA).arg("/data/249")).await;
    assert_eq!(value, "value 249");
    guard.put("/data/0", "new").await.expect("written");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    // The namespace has expired, and one key of its data was deleted.
    let _: u64 = server.ask(cmd("DEL").arg("{distlock:/distlock}:meta")).await;
    let _: u64 = server.ask(cmd("HDEL").arg(DATA).arg("/data/1")).await;
    let client = connect(&server.url(), TTL).await;
    let left: usize = server.ask(cmd("HLEN").arg(DATA)).await;
    assert_eq!(left, KEYS - 1, "a deleted key is back");
    let value: String = server.ask(cmd("HGET").arg(DATA).arg("/data/0")).await;
    assert_eq!(value, "new");
    client.close().await.expect("closed");
    eventually(SOON, "the version stays", async || version(&server).await.as_deref() == Some("2"))
        .await;
}
