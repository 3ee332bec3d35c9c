//! The keys of an unused namespace.

use distlock::{Client, FencingToken};
use distlock_testkit::docker::set_clock;
use redis::{Cmd, cmd};

use crate::{
    common::{
        SOON, close, connected, eventually, locked,
        own::TTL,
        redis::{META, QUEUE, SESSIONS},
        release, take_turn, within,
    },
    redis::own::Server,
};

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// A key of the application, with a longer TTL than the keys of an unused namespace.
fn key_of_the_program(number: u32) -> Cmd {
    let mut set = cmd("SET");
    set.arg(format!("program:{number}")).arg("x".repeat(20_000)).arg("EX").arg(10 * DAY);
    set
}

/// Returns the number of keys that the server has evicted.
async fn evicted(server: &Server) -> u64 {
    let stats: String = server.ask(cmd("INFO").arg("stats")).await;
    let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
    evicted.and_then(|evicted| evicted.trim().parse().ok()).expect("a number")
}

async fn exists(server: &Server, key: &str) -> bool {
    server.ask(cmd("EXISTS").arg(key)).await
}

/// The server evicts keys with a TTL, which no lock has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_evicts_no_lock() {
    let server = Server::start().await;
    let [client, other] = [server.client().await, server.client().await];
    let set = async |name: &str, value: &str| {
        let _: String = server.ask(cmd("CONFIG").arg("SET").arg(name).arg(value)).await;
    };
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        set("maxmemory-policy", policy).await;
        let guard = locked(&client, "a").await;
        let namespace = server.builder().namespace("/unused");
        let unused = connected(namespace).await;
        take_turn(&unused, "a").await;
        unused.close().await.expect("closed");
        let left = "{distlock:/unused}:meta";
        assert!(exists(&server, left).await, "{policy}");
        let memory: String = server.ask(cmd("INFO").arg("memory")).await;
        let used = memory.lines().find_map(|line| line.strip_prefix("used_memory:"));
        let used: u64 = used.and_then(|used| used.trim().parse().ok()).expect("a number");
        set("maxmemory", &(used + 4_000_000).to_string()).await;
        let before = evicted(&server).await;
        let mut number = 0;
        eventually(SOON, "keys are evicted", async || {
            for _ in 0..100 {
                let _: String = server.ask(&key_of_the_program(number)).await;
                number += 1;
            }
            evicted(&server).await > before + 100
        })
        .await;
        for key in [META, QUEUE, SESSIONS] {
            assert_eq!(server.ask::<i64>(cmd("PTTL").arg(key)).await, -1, "{policy}: {key}");
        }
        assert!(guard.is_valid(), "{policy}");
        assert!(other.mutex("a").try_lock().await.expect("a reply").is_none(), "{policy}");
        take_turn(&other, "b").await;
        // Some keys of the unused namespace may have been evicted.
        let back = connected(server.builder().namespace("/unused")).await;
        take_turn(&back, "a").await;
        back.close().await.expect("closed");
        set("maxmemory", "0").await;
        release([guard]).await;
    }
    close([client, other]).await;
}

/// Sets the server's clock and returns the token of the first client after it.
async fn next_token(server: &Server, clock: i64) -> FencingToken {
    server.own.run(&["sh", "-c", &set_clock(clock)]).await;
    let client: Client = server.client().await;
    let guard = within(TTL * 4, "granted", client.mutex("a").lock()).await.expect("granted");
    let token = guard.fencing_token();
    release([guard]).await;
    client.close().await.expect("closed");
    token
}

/// The clock is set back by an hour while the namespace is unused, first with its counter, and then
/// without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_a_reused_namespace_rise() {
    let server = Server::start().await;
    let first = next_token(&server, 0).await;
    let with_a_counter = next_token(&server, -HOUR).await;
    assert!(exists(&server, META).await);
    server.own.run(&["sh", "-c", &set_clock(3 * DAY)]).await;
    eventually(SOON, "the counter expires", async || !exists(&server, META).await).await;
    let without = next_token(&server, 3 * DAY - HOUR).await;
    let tokens = [first, with_a_counter, without];
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}
