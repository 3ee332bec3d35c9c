//! The bounds of one script's work, the data it leaves, and the waits that clients cause each
//! other.

use std::time::Duration;

use redis::cmd;
use tokio::time::{Instant, sleep};

use super::own::Server;
use crate::common::{
    SOON, close, connect, eventually, locked,
    own::TTL,
    redis::{META, SESSIONS, calls, run},
    take_turn, throughout, within,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Creates a session that is not renewed, with the locks `many-1` to `many-{locks}`.
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

/// Counts the remaining entries of the dead session.
async fn left(server: &Server) -> usize {
    let lines = "return #starting(QUEUE, '~de ') + (call('ZSCORE', SESSIONS, 'de') and 1 or 0)";
    run(&server.operator().await, lines, &[]).await
}

/// The live client has few locks and the dead one 2,000, which each script removes in part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_client_with_many_locks_is_removed_in_parts() {
    let server = Server::start().await;
    let client = server.client().await;
    dead_session(&server, TTL, 2_000).await;
    let began = Instant::now();
    let last = client.mutex("many-2000");
    let guard = within(TTL * 4, "the waiter is granted", last.lock()).await.expect("granted");
    assert!(began.elapsed() > TTL, "the session was removed before its TTL");
    guard.unlock().await.expect("released");
    eventually(SOON, "all entries are removed", async || left(&server).await == 0).await;
    assert!(client.locks().await.expect("a reply").is_empty());
    client.close().await.expect("closed");
}

/// The holder's session has expired, among many that look expired and may not be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_is_succeeded_among_many_doubtful_sessions() {
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
    let guard = within(TTL * 4, "the waiter is granted", mutex.lock()).await.expect("granted");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The server has evicted one of the two records of the dead holder's session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_holder_without_a_record_is_succeeded() {
    for (remove, key) in [("HDEL", META), ("ZREM", SESSIONS)] {
        let server = Server::start().await;
        dead_session(&server, TTL, 1).await;
        let _: u64 = server.ask(cmd(remove).arg(key).arg("de")).await;
        let client = server.client().await;
        let mutex = client.mutex("many-1");
        let next = within(TTL * 4, "the waiter is granted", mutex.lock()).await;
        next.expect("granted").unlock().await.expect("released");
        eventually(SOON, "all entries are removed", async || left(&server).await == 0).await;
        client.close().await.expect("closed");
    }
}

/// The server has evicted the record of the sessions' TTL, so their ends seem too far ahead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_with_an_unrecorded_ttl_are_not_searched_for_again_and_again() {
    let server = Server::start().await;
    let lines = "for id = 1, 200 do begin(string.format('%x', id + 4096), 3600000000) end
        call('ZREM', SESSIONS, 't3600000000')
        return 1";
    let _: u8 = run(&server.operator().await, lines, &[]).await;
    let client = server.client().await;
    let guard = locked(&client, "a").await;
    let scripts = async || -> u64 {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        calls(&stats, "evalsha")
    };
    let before = scripts().await;
    throughout(TTL, "the lock is held", async || guard.is_valid()).await;
    let spent = scripts().await - before;
    assert!(spent < 100, "{spent} scripts");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// Closing a client frees all its locks, and listing them takes several pages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_with_many_locks_lists_and_closes_them() {
    const LOCKS: usize = 450;
    let server = Server::start().await;
    let [client, other] = [server.client().await, server.client().await];
    let mut guards = Vec::new();
    for number in 0..LOCKS {
        guards.push(locked(&client, &format!("many-{number}")).await);
    }
    assert_eq!(other.locks().await.expect("a reply").len(), LOCKS);
    client.close().await.expect("closed");
    assert!(other.locks().await.expect("a reply").is_empty());
    take_turn(&other, "many-449").await;
    other.close().await.expect("closed");
}

/// No key has a TTL while a session exists. Afterwards all keys except data have one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_keys_expire() {
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
    // A full server with `volatile-ttl` may delete the key.
    let _: u64 = server.ask(cmd("DEL").arg(META)).await;
    let client = server.client().await;
    assert_eq!(server.ask::<i64>(cmd("PTTL").arg(SESSIONS)).await, -1);
    client.close().await.expect("closed");
}

/// A replica that only copies, as `redis-cli --rdb` does, changes the id of the server's history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_delays_no_grants() {
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
        let guard = client.mutex("a").try_lock().await.expect("a reply").expect("free");
        guard.unlock().await.expect("released");
    }
    close([client, other]).await;
}

/// The live client has a short TTL. The one with a TTL of an hour is closed before the server
/// crashes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_with_a_long_ttl_delays_no_grants() {
    let server = Server::with(&["--appendfsync", "everysec"]).await;
    let long = connect(&server.url(), HOUR).await;
    take_turn(&long, "a").await;
    long.close().await.expect("closed");
    let client = server.client().await;
    // By then all writes are on disk.
    sleep(Duration::from_millis(1500)).await;
    server.restart().await;
    let guard = within(TTL * 4, "granted", client.mutex("a").lock()).await.expect("granted");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The scripts of a free lock and of its release make five calls each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_lock_is_ten_calls() {
    let server = Server::start().await;
    let client = server.client().await;
    // By then the server has the session's owner and both scripts.
    take_turn(&client, "a").await;
    let counted = async || -> u64 {
        let stats: String = server.ask(cmd("INFO").arg("commandstats")).await;
        let all = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
        let all = all.map(|line| line.split(':').next().expect("a name"));
        let inside = ["evalsha", "eval", "info", "config", "auth", "hello", "client", "ping"];
        let inner = all.filter(|name| !inside.contains(&name.split('|').next().expect("a word")));
        // Only a keepalive, on another connection, draws a beat.
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
    panic!("every attempt overlapped a keepalive");
}

/// A reader that joins many others looks for a writer, without reading all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_joins_many_readers_without_reading_them() {
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
    let tried = other.rw_lock("a").try_read().await.expect("a reply").expect("readers are in");
    let spent = reads().await - before;
    assert!(spent < 100, "{spent} reads for two readers");
    for reader in [reader, tried] {
        reader.unlock().await.expect("released");
    }
    client.close().await.expect("closed");
    drop(readers);
    other.close().await.expect("closed");
}

/// A queue is listed in parts, and the notes of the whole queue, such as its permits, follow the
/// last part.
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
    eventually(SOON, "the last permit is granted", async || {
        let queue = semaphore.queue().await.expect("a reply");
        tokens = queue.iter().map(|entry| entry.fencing_token()).collect();
        tokens.len() == permits.len()
    })
    .await;
    assert!(tokens.into_iter().eq(permits.iter().map(|permit| permit.fencing_token())));
    assert!(semaphore.try_acquire().await.expect("a reply").is_none());
    semaphore.set_permits(PERMITS + 1).await.expect("set");
    let one_more = semaphore.try_acquire().await.expect("a reply").expect("a permit is free");
    assert!(semaphore.try_acquire().await.expect("a reply").is_none());
    one_more.release().await.expect("released");
    client.close().await.expect("closed");
    drop(permits);
    other.close().await.expect("closed");
}

/// The notes of a queue are listed in parts, too. The note on the number of permits comes last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_notes_are_listed_whole() {
    let server = Server::start().await;
    let client = server.client().await;
    let lines = "for number = 1, 2000 do
            call('ZADD', QUEUE, 0, '/distlock/a!permits /a-' .. text(number))
        end
        return 1";
    let _: u8 = run(&server.operator().await, lines, &[]).await;
    let semaphore = client.semaphore("a", 2);
    semaphore.set_permits(3).await.expect("set");
    assert_eq!(semaphore.permits().await.expect("a reply"), 3);
    client.close().await.expect("closed");
}
