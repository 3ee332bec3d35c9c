//! How much one script does, what it leaves behind, and how long clients wait for each other.

use std::time::Duration;

use redis::cmd;
use tokio::time::{Instant, sleep};

use super::own::Server;
use crate::common::{
    SOON, close, connect, eventually, locked,
    own::TTL,
    redis::{META, SESSIONS, calls, run},
    take_turn, within,
};

const HOUR: Duration = Duration::from_secs(3600);

/// A session that is not renewed, and so many locks of its: `many-1` and on.
async fn dead_session(server: &Server, ttl: Duration, locks: usize) {
    let lines = "begin('de', tonumber(ARGV[3]))
        for number = 1, tonumber(ARGV[4]) do
            last = last + 1
            local dir, ticket = '/distlock/many-' .. text(number), 'ticket-' .. text(number)
            add_entry(dir, last, 'de', ticket, '', 'vx')
        end
        call('HSET', META, 'last', text(last))
        return 1";
    let arguments = [ttl.as_micros().to_string(), locks.to_string()];
    let operator = server.operator().await;
    let _: u8 = run(&operator, lines, &arguments.each_ref().map(String::as_str)).await;
}

/// How much there is of what a dead session has left.
async fn left(server: &Server) -> usize {
    let lines = "return #starting(QUEUE, '~de ') + (call('ZSCORE', SESSIONS, 'de') and 1 or 0)";
    run(&server.operator().await, lines, &[]).await
}

/// A client had few locks: a dead one had 2,000, all of which go, some with each script.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_client_with_many_locks_is_removed_in_parts() {
    let server = Server::start().await;
    let client = server.client().await;
    dead_session(&server, TTL, 2_000).await;
    let began = Instant::now();
    let last = client.mutex("many-2000");
    let guard = within(TTL * 4, "its turn", last.lock()).await.expect("granted");
    assert!(began.elapsed() > TTL, "a live session was ended");
    guard.unlock().await.expect("released");
    eventually(SOON, "all of it goes", async || left(&server).await == 0).await;
    assert!(client.locks().await.expect("an answer").is_empty());
    client.close().await.expect("closed");
}

/// The holder's session has ended, among many that seem over and may not be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_succeeded_whichever_others_seem_over() {
    let server = Server::start().await;
    let client = server.client().await;
    let lines = "for id = 1, 200 do
            local name = string.format('%x', id + 4096)
            begin(name, 3600000000)
            call('ZADD', SESSIONS, text(now - 3600000000), name)
        end
        return 1";
    let _: u8 = run(&server.operator().await, lines, &[]).await;
    dead_session(&server, TTL, 1).await;
    let mutex = client.mutex("many-1");
    let guard = within(TTL * 4, "its turn", mutex.lock()).await.expect("granted");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// All of the session's locks are free when it has closed, and all that it shows comes in pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_many_locks_lists_and_closes_them() {
    const LOCKS: usize = 450;
    let server = Server::start().await;
    let [client, other] = [server.client().await, server.client().await];
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(locked(&client, &format!("many-{number}")).await);
    }
    assert_eq!(other.locks().await.expect("an answer").len(), LOCKS);
    client.close().await.expect("closed");
    assert!(other.locks().await.expect("an answer").is_empty());
    take_turn(&other, "many-449").await;
    other.close().await.expect("closed");
}

/// Nothing has a time to live while somebody lives, and all but data has one afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nobody_uses_expires() {
    let server = Server::start().await;
    let lasts = async || -> i64 { server.ask(cmd("PTTL").arg(META)).await };
    let client = server.client().await;
    take_turn(&client, "a").await;
    let guard = locked(&client, "b").await;
    assert_eq!(lasts().await, -1);
    client.close().await.expect("closed");
    drop(guard);
    assert!(lasts().await > 86_400_000, "{} ms", lasts().await);
    let lasts_too: i64 = server.ask(cmd("PTTL").arg(SESSIONS)).await;
    assert!(lasts_too > 86_400_000, "{lasts_too} ms");
    for name in ["queue", "data"] {
        let there: u64 =
            server.ask(cmd("EXISTS").arg(format!("{{distlock:/distlock}}:{name}"))).await;
        assert_eq!(there, 0, "{name} is left");
    }
    let client = server.client().await;
    assert_eq!(lasts().await, -1);
    assert_eq!(server.ask::<i64>(cmd("PTTL").arg(SESSIONS)).await, -1);
    take_turn(&client, "a").await;
    client.close().await.expect("closed");
    // As a full server with `volatile-ttl` may do.
    let _: u64 = server.ask(cmd("DEL").arg(META)).await;
    let client = server.client().await;
    assert_eq!(server.ask::<i64>(cmd("PTTL").arg(SESSIONS)).await, -1);
    client.close().await.expect("closed");
}

/// A replica that only copies, as `redis-cli --rdb` does, gives the server's history another name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_keeps_nobody_waiting() {
    let server = Server::with(&["--appendfsync", "everysec"]).await;
    let history = async || {
        let info: String = server.ask(cmd("INFO").arg("replication")).await;
        let named = info.lines().find(|line| line.starts_with("master_replid:"));
        named.expect("a history").to_owned()
    };
    let client = server.client().await;
    let before = history().await;
    server.back_up().await;
    assert_ne!(history().await, before, "there was no backup");
    let alone = async || {
        let info: String = server.ask(cmd("INFO").arg("replication")).await;
        info.contains("connected_slaves:0")
    };
    eventually(SOON, "the copy is done", alone).await;
    let other = server.client().await;
    for client in [&client, &other] {
        let guard = client.mutex("a").try_lock().await.expect("an answer").expect("free");
        guard.unlock().await.expect("released");
    }
    close([client, other]).await;
}

/// All clients have the same TTL: one had an hour, and has closed when the server crashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_with_a_long_ttl_keeps_nobody_waiting() {
    let server = Server::with(&["--appendfsync", "everysec"]).await;
    let long = connect(&server.url(), HOUR).await;
    take_turn(&long, "a").await;
    long.close().await.expect("closed");
    let client = server.client().await;
    // All of it is on the disk by then.
    sleep(Duration::from_millis(1500)).await;
    server.restart().await;
    let guard = within(TTL * 4, "granted", client.mutex("a").lock()).await.expect("granted");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The script of a lock that is free, and that of its release, are five calls each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_lock_is_ten_calls() {
    let server = Server::start().await;
    let client = server.client().await;
    // The session's owner is on the server, and the server knows both scripts.
    take_turn(&client, "a").await;
    let counted = async || -> u64 {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        let all = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
        let all = all.map(|line| line.split(':').next().expect("a name"));
        let inside = ["evalsha", "eval", "info", "config", "auth", "hello", "client", "ping"];
        let inner = all.filter(|name| !inside.contains(&name.split('|').next().expect("a word")));
        // A keepalive is of another connection, and alone draws a beat.
        inner.map(|name| calls(&stats, name)).sum()
    };
    let beats = async || -> u64 {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        calls(&stats, "hincrby")
    };
    for _ in 0..100 {
        let (before, beat) = (counted().await, beats().await);
        take_turn(&client, "a").await;
        let used = counted().await - before;
        if beats().await == beat {
            assert_eq!(used, 10);
            client.close().await.expect("closed");
            return;
        }
    }
    panic!("each time there was a keepalive");
}

/// Many readers are in: one more looks for a writer, and not at all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_beside_many_reads_none_of_them() {
    const READERS: usize = 300;
    let server = Server::start().await;
    let [client, other] = [server.client().await, server.client().await];
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(within(SOON, "granted", client.rw_lock("a").read()).await.expect("granted"));
    }
    let reads = async || -> u64 {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        ["hget", "hmget", "zscore"].iter().map(|name| calls(&stats, name)).sum()
    };
    let before = reads().await;
    let reader = within(SOON, "granted", other.rw_lock("a").read()).await.expect("granted");
    let tried = other.rw_lock("a").try_read().await.expect("an answer").expect("readers are in");
    let spent = reads().await - before;
    assert!(spent < 100, "{spent} reads for two readers");
    for reader in [reader, tried] {
        reader.unlock().await.expect("released");
    }
    client.close().await.expect("closed");
    drop(readers);
    other.close().await.expect("closed");
}

/// A queue is listed in parts, with what was left for all of it behind the last one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_is_listed_whole() {
    const PERMITS: u32 = 250;
    let server = Server::start().await;
    let [client, other] = [server.client().await, server.client().await];
    let mut permits = Vec::new();
    for _ in 0..PERMITS {
        let semaphore = client.semaphore("a", PERMITS);
        permits.push(within(SOON, "granted", semaphore.acquire()).await.expect("granted"));
    }
    let semaphore = other.semaphore("a", PERMITS);
    let mut tokens = Vec::new();
    eventually(SOON, "the last one has left the queue of those who wait", async || {
        let queue = semaphore.queue().await.expect("an answer");
        tokens = queue.iter().map(|entry| entry.fencing_token()).collect();
        tokens.len() == permits.len()
    })
    .await;
    assert!(tokens.into_iter().eq(permits.iter().map(|permit| permit.fencing_token())));
    assert!(semaphore.try_acquire().await.expect("an answer").is_none());
    semaphore.set_permits(PERMITS + 1).await.expect("set");
    let one_more = semaphore.try_acquire().await.expect("an answer").expect("there is one");
    assert!(semaphore.try_acquire().await.expect("an answer").is_none());
    one_more.release().await.expect("released");
    client.close().await.expect("closed");
    drop(permits);
    other.close().await.expect("closed");
}
