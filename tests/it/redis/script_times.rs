//! The run time of one script by the server's count: the median is at most that of 50 locks and
//! unlocks, whatever the amount of data. While a script runs, the server does nothing else.

use std::{env, time::Duration};

use distlock::{Client, LockGuard};
use futures_util::future::join_all;
use redis::{aio::MultiplexedConnection, cmd};

use crate::common::{
    SOON, eventually, locked,
    own::Server,
    redis::{IMAGE, META, OPERATOR, QUEUE, Redis, USUAL, ask, dial, run, settle},
    take_turn,
};

const LOCKS: f64 = 50.0;

/// Starts a server with the machine's clock, and an operator's connection that reads script times.
async fn start() -> (Server, MultiplexedConnection) {
    let server = Server::beside::<Redis>(IMAGE, &[], &[]).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    settle(&operator, USUAL).await;
    (server, operator)
}

/// Returns the median run time of the scripts since the last call, in microseconds.
async fn median(operator: &MultiplexedConnection) -> f64 {
    let stats: String = ask(operator, cmd("INFO").arg("latencystats")).await;
    let _: () = ask(operator, cmd("CONFIG").arg("RESETSTAT")).await;
    let scripts = stats.lines().find_map(|line| line.split_once("_evalsha:p50="));
    let median = scripts.and_then(|(_, times)| times.split(',').next()).expect("scripts");
    median.parse().expect("a number")
}

/// Returns the number of scripts since the last call of `median`.
async fn scripts(operator: &MultiplexedConnection) -> u64 {
    let stats: String = ask(operator, cmd("INFO").arg("commandstats")).await;
    let scripts = stats.lines().find_map(|line| line.split_once("_evalsha:calls="));
    let calls = scripts.and_then(|(_, stats)| stats.split(',').next()).expect("scripts");
    calls.parse().expect("a number")
}

/// Runs `fill` in the server `rounds` times with another number, executes `work`, and waits until
/// `left` members of queues remain.
async fn bounded(fill: &str, rounds: usize, left: usize, work: impl AsyncFn(&Client)) {
    let (server, operator) = start().await;
    let client = server.client().await;
    let unit = unit(&operator, &client).await;
    for number in 1..=rounds {
        let lines = format!("{fill} call('HSET', META, 'last', text(last)) return 1");
        let _: u8 = run(&operator, &lines, &[&number.to_string()]).await;
    }
    work(&client).await;
    wait_until_left(&operator, left).await;
    // Most of the scripts do as much as one may.
    is_bounded(median(&operator).await, unit);
    client.close().await.expect("closed");
}

/// Returns the server's time for a lock and its unlock in microseconds.
async fn unit(operator: &MultiplexedConnection, client: &Client) -> f64 {
    for _ in 0..100 {
        take_turn(client, "unit").await;
    }
    // Half of the scripts are locks, the other half unlocks.
    median(operator).await * 2.0
}

fn is_bounded(longest: f64, unit: f64) {
    println!("{longest} us, {:.1} locks", longest / unit);
    assert!(longest <= unit * LOCKS, "{longest} us, and {unit} us for one lock");
}

/// Waits until `left` members of queues remain.
async fn wait_until_left(operator: &MultiplexedConnection, left: usize) {
    eventually(SOON * 6, "the queues shrink", async || {
        ask::<usize>(operator, cmd("ZCARD").arg(QUEUE)).await == left
    })
    .await;
}

async fn nothing(_: &Client) {}

/// Returns Lua that creates 10,000 locks of one session with a TTL of `ttl` microseconds.
fn ten_thousand_locks(ttl: u64) -> String {
    format!(
        "begin('de', {ttl})
        for number = 1, 10000 do
            last = last + 1
            add_entry('/distlock/a-' .. text(number), last, 'de', 'ticket', '', 'vx')
        end"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_sessions() {
    let fill = "for id = 1, 10000 do begin(string.format('%x', id + 4096), 3600000000) end";
    bounded(fill, 1, 0, async |client| {
        for _ in 0..50 {
            take_turn(client, "a").await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_waiters() {
    let fill = "begin('de', 3600000000)
        for number = 1, 10000 do
            last = last + 1
            local ticket = 'ticket-' .. text(number)
            local entry = add_entry('/distlock/a', last, 'de', ticket, '', 'vx')
            call('ZADD', QUEUE, 0, entry.dir .. ' ;' .. entry.number .. ' de')
        end";
    bounded(fill, 1, 30_000, async |client| {
        let taken = client.mutex("a").lock_timeout(Duration::from_millis(100)).await;
        assert!(taken.expect("a reply").is_none());
        assert_eq!(client.mutex("a").queue().await.expect("a reply").len(), 10_000);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_session_with_ten_thousand_locks() {
    bounded(&ten_thousand_locks(1_000_000), 1, 0, nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundred_dead_sessions_with_a_thousand_locks() {
    let fill = "local dead = string.format('de%x', ARGV[3])
        begin(dead, 1000000)
        for number = 1, 1000 do
            last = last + 1
            add_entry('/distlock/a-' .. text(number), last, dead, 'ticket', '', 'vx')
        end";
    bounded(fill, 100, 0, nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_joins_during_a_quarantine() {
    let fill = "begin('de', 3600000000)
        renew(NOBODY, { ttl = 1000000, writes = 0 })
        for number = 1, 10000 do
            local dir = '/distlock/a-' .. text(number)
            last = last + 2
            add_entry(dir, last - 1, NOBODY, 'ticket', 'nobody', 'vx')
            add_entry(dir, last, 'de', 'ticket', '', 'vx')
        end";
    bounded(fill, 1, 20_000, nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_of_ten_thousand_locks() {
    bounded(&ten_thousand_locks(3_600_000_000), 1, 20_000, async |client| {
        assert_eq!(client.locks().await.expect("a reply").len(), 10_000);
        let guard = locked(client, "b").await;
        guard.unlock().await.expect("released");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_of_ten_thousand_notes() {
    let fill = "for number = 1, 10000 do
            call('ZADD', QUEUE, 0, '/distlock/a!permits /a-' .. text(number))
        end";
    bounded(fill, 1, 10_000, async |client| {
        for _ in 0..5 {
            assert!(client.semaphore("a", 2).queue().await.expect("a reply").is_empty());
        }
    })
    .await;
}

/// A release notifies each of the 2,000 sessions that wait for the entry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_before_two_thousand_waiters() {
    let watches =
        "local first = call('ZRANGEBYLEX', QUEUE, '[/distlock/a 0', '+', 'LIMIT', 0, 1)[1]
        for id = 4097, 6096 do
            session = string.format('%x', id)
            begin(session, 3600000000)
            watch('/distlock/a', string.match(first, '^%S+ (%d+)'))
        end
        return 1";
    let (server, operator) = start().await;
    let client = server.client().await;
    let unit = unit(&operator, &client).await;
    let guard = locked(&client, "a").await;
    let _: u8 = run(&operator, watches, &[]).await;
    median(&operator).await;
    guard.unlock().await.expect("released");
    wait_until_left(&operator, 0).await;
    is_bounded(median(&operator).await, unit);
    client.close().await.expect("closed");
}

/// One request takes at most this many locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_locks_in_one_request() {
    let (server, operator) = start().await;
    let client = server.client().await;
    let unit = unit(&operator, &client).await;
    let mut times = Vec::new();
    for _ in 0..21 {
        let names = (0..32).map(|number| format!("a-{number}"));
        let all = client.lock_all(names).await.expect("granted");
        times.push(median(&operator).await);
        all.unlock().await.expect("released");
        median(&operator).await;
    }
    times.sort_unstable_by(f64::total_cmp);
    is_bounded(times[10], unit);
    client.close().await.expect("closed");
}

/// A read lock among 2,000 readers takes the server at most as long as three without other readers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_among_two_thousand() {
    const TURNS: usize = 50;
    let (server, operator) = start().await;
    let client = server.client().await;
    let turns = async || -> f64 {
        let lock = client.rw_lock("a");
        lock.read().await.expect("granted").unlock().await.expect("released");
        median(&operator).await;
        for _ in 0..TURNS {
            lock.read().await.expect("granted").unlock().await.expect("released");
        }
        median(&operator).await
    };
    let alone = turns().await;
    let fill = "begin('de', 3600000000)
        for number = 1, 2000 do
            last = last + 1
            add_entry('/distlock/a!rw', last, 'de', 'ticket-' .. text(number), 'r', 'vx')
        end
        call('HSET', META, 'last', text(last)) return 1";
    let _: u8 = run(&operator, fill, &[]).await;
    assert_eq!(client.rw_lock("a").queue().await.expect("a reply").len(), 2000);
    let among = turns().await;
    println!("{alone} us alone, {among} us among 2,000");
    assert!(among <= alone * 3.0, "{alone} us alone, {among} us among 2,000");
    client.close().await.expect("closed");
}

/// A script for a permit among 10,000 permits of 100 clients takes the server at most as long as 50
/// locks. Counting the permits takes one script for each thousand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permit_among_ten_thousand() {
    let (server, operator) = start().await;
    let client = server.client().await;
    let unit = unit(&operator, &client).await;
    let fill = "for id = 1, 100 do begin(string.format('de%x', id), 3600000000) end
        for number = 1, 10000 do
            last = last + 1
            local ticket = 'ticket-' .. text(number)
            add_entry('/distlock/a!permits', last, string.format('de%x', number % 100 + 1), ticket,
                '1of10001', 'vx')
        end
        call('HSET', META, 'last', text(last)) return 1";
    let _: u8 = run(&operator, fill, &[]).await;
    let semaphore = client.semaphore("a", 10_001);
    for wait in [Duration::ZERO, SOON] {
        let _: () = ask(&operator, cmd("CONFIG").arg("RESETSTAT")).await;
        let permit = semaphore.acquire_timeout(wait).await.expect("a reply").expect("a permit");
        let requests = scripts(&operator).await;
        assert!(requests <= 40, "{requests} requests");
        is_bounded(median(&operator).await, unit);
        let waiting = semaphore.acquire_timeout(Duration::from_millis(200)).await;
        assert!(waiting.expect("a reply").is_none(), "no permit is left");
        permit.release().await.expect("released");
    }
    client.close().await.expect("closed");
}

/// Returns the server's CPU time for all its work, in seconds.
async fn worked(operator: &MultiplexedConnection) -> f64 {
    let cpu: String = ask(operator, cmd("INFO").arg("cpu")).await;
    let of = |name: &str| -> f64 {
        let time = cpu.lines().find_map(|line| line.strip_prefix(name)).expect("a time");
        time.parse().expect("a number")
    };
    of("used_cpu_user:") + of("used_cpu_sys:")
}

/// A fleet that connects at once takes the server at most twice as long per client as clients that
/// connect alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_connects_at_once() {
    // Each client has two connections, and a process may often have only 1,024.
    let fleet: usize = env::var("DISTLOCK_FLEET").map_or(400, |size| size.parse().expect("a size"));
    const ALONE: usize = 50;
    let run = ["--ulimit=nofile=20000:20000"];
    let server = Server::beside::<Redis>(IMAGE, &run, &["--maxclients", "10000"]).await;
    // A published port supports fewer connections.
    let url = format!(
        "{}{}:6379?allow_plaintext_credentials=true",
        IMAGE.around[0],
        server.own.ip().await
    );
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    settle(&operator, USUAL).await;
    // Skip the wait of a new server for unknown sessions.
    let _: u8 = ask(&operator, cmd("HDEL").arg(META).arg("doubted")).await;
    let builder = || {
        let builder =
            Client::builder(url.as_str()).connect_timeout(SOON * 6).request_timeout(SOON * 6);
        builder.session_ttl(Duration::from_secs(600))
    };
    let first_lock = async |name: String| -> (Client, LockGuard) {
        let client = builder().connect().await.expect("connected");
        let guard = client.mutex(&name).lock().await.expect("granted");
        (client, guard)
    };
    let mut alone = 0.0;
    for number in 0..ALONE {
        let before = worked(&operator).await;
        let (client, guard) = first_lock(format!("alone-{number}")).await;
        alone += worked(&operator).await - before;
        guard.unlock().await.expect("released");
        client.close().await.expect("closed");
    }
    let before = worked(&operator).await;
    let clients = join_all((0..fleet).map(|number| first_lock(format!("fleet-{number}")))).await;
    let together = worked(&operator).await - before;
    let ratio = together / fleet as f64 / (alone / ALONE as f64);
    println!("{together} s for {fleet}, {alone} s for {ALONE}: {ratio:.2}");
    assert!(ratio <= 2.0, "{together} s for {fleet}, {alone} s for {ALONE}: {ratio:.2}");
    join_all(clients.into_iter().map(async |(client, guard)| {
        guard.unlock().await.expect("released");
        client.close().await.expect("closed");
    }))
    .await;
}
