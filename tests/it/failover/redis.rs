//! Redis: a primary and a replica, for which clients wait or not.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, Error, FailoverBehavior};
use distlock_testkit::proxy::{Mode, Proxy};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::{
    common::{
        SOON, Waiter, connect, contended, eventually, locked,
        own::{Server, TTL},
        poll, promises, reason,
        redis::{self, IMAGE, OPERATOR, PROGRAM},
        refused, take_turn, throughout, within,
    },
    failover::{
        pair::{Pair, Replication},
        promotion::{LONGEST, check_time, granted, promotion},
    },
};

pub(crate) const LOGIN: [&str; 4] = ["--masteruser", OPERATOR.0, "--masterauth", OPERATOR.1];

/// The TTL of a holder's session that moves to the new primary.
const LONG: Duration = Duration::from_secs(6);

/// A longer TTL, so these clients send no requests of their own while it matters.
const QUIET: Duration = Duration::from_secs(120);

struct Replicated;

promotion!(Replicated);

/// Returns the output of an operator's command.
pub(crate) async fn ask(server: &Server, command: &[&str]) -> String {
    server.own.run(&[&PROGRAM[..], command].concat()).await
}

/// Returns a field of the server's `INFO`.
pub(crate) async fn info(server: &Server, field: &str) -> String {
    let info = ask(server, &["INFO"]).await;
    let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_default().trim().to_owned()
}

/// Starts a server that looks as if it had run for long.
pub(crate) async fn started(arguments: &[&str]) -> Server {
    let server = Server::beside::<redis::Redis>(IMAGE, &[], arguments).await;
    begin_long_ago(&server).await;
    server
}

async fn begin_long_ago(server: &Server) {
    ask(server, &["FLUSHALL"]).await;
    redis::settle(&redis::dial(&server.url(), Some(OPERATOR)).await, redis::USUAL).await;
}

/// Starts a replica and waits until it has all data of its primary.
pub(crate) async fn follower(primary: &Server, arguments: &[&str]) -> Server {
    let ip = primary.own.ip().await;
    let follow = [&["--replicaof", &ip, "6379"], &LOGIN[..], arguments].concat();
    let server = Server::start(IMAGE, &[], &follow).await;
    eventually(SOON * 3, "the replica follows", async || {
        info(&server, "master_link_status").await == "up"
    })
    .await;
    server
}

async fn caught_up(primary: &Server, replica: &Server) {
    let written = info(primary, "master_repl_offset").await;
    let written: u64 = written.parse().expect("a number");
    eventually(SOON, "the replica has caught up", async || {
        info(replica, "slave_repl_offset").await.parse::<u64>().is_ok_and(|has| has >= written)
    })
    .await;
}

impl Replication for Replicated {
    const STANDBY: &str = "is a replica";

    async fn primary_alone() -> Server {
        started(&[]).await
    }

    async fn asynchronous() -> Pair {
        let primary = Self::primary_alone().await;
        let replica = follower(&primary, &[]).await;
        // Its first replica gives the primary another history: `createReplicationBacklog` in
        // https://github.com/redis/redis/blob/8.0/src/replication.c.
        begin_long_ago(&primary).await;
        let pair = Pair { primary, standby: replica };
        caught_up(&pair.primary, &pair.standby).await;
        pair
    }

    async fn part(pair: &Pair) {
        caught_up(&pair.primary, &pair.standby).await;
        ask(&pair.standby, &["REPLICAOF", "192.0.2.1", "6379"]).await;
    }

    async fn promote(pair: &Pair) {
        ask(&pair.standby, &["REPLICAOF", "NO", "ONE"]).await;
    }
}

/// Returns a client that waits for this number of replicas.
async fn waiting_for(replicas: u32, servers: &[SocketAddr], ttl: Duration) -> Client {
    let servers: Vec<_> = servers.iter().map(SocketAddr::to_string).collect();
    let url = format!("{}?replicas={replicas}", IMAGE.around.join(&servers.join(",")));
    connect(&url, ttl).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_exclusive_only_with_all_replicas() {
    let pair = Replicated::asynchronous().await;
    let [without, with] =
        [pair.primary.client().await, waiting_for(1, &[pair.primary.address], TTL).await];
    let durability = without.durability().await.expect("a reply");
    assert!(
        !durability.exclusive && durability.reasons.concat().contains("a promoted replica"),
        "{durability:?}"
    );
    assert_eq!(promises(&with).await, (true, FailoverBehavior::Continues));
    let guard = with.mutex("a").lock().await.expect("granted");
    guard.put("/data/a", "b").await.expect("written");
    throughout(TTL * 2, "the lock is held", async || guard.is_valid()).await;
    guard.unlock().await.expect("released");
    // Clients do not wait for a further replica, which may be promoted.
    let third = follower(&pair.primary, &[]).await;
    eventually(SOON, "the further replica is seen", async || {
        !with.durability().await.expect("a reply").exclusive
    })
    .await;
    drop(third);
    // The server has fewer replicas.
    let two = format!("{}?replicas=3", pair.primary.url());
    let error = refused(Client::builder(two).connect_timeout(Duration::from_secs(2))).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
}

/// A primary that is cut off from its replicas continues, but its clients' locks are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_cut_off_from_its_replica_loses_its_holders() {
    let pair = Replicated::asynchronous().await;
    let [holder, other] = [
        waiting_for(1, &[pair.primary.address], TTL).await,
        waiting_for(1, &[pair.primary.address], QUIET).await,
    ];
    let guard = holder.mutex("a").lock().await.expect("granted");
    let cut = Instant::now();
    Replicated::part(&pair).await;
    let write = guard.put("/data/a", "b").await.expect_err("no replica has the write");
    assert!(matches!(write, Error::WriteUnconfirmed { .. }), "{write:?}");
    let tried = other.mutex("b").lock_timeout(TTL / 3).await;
    assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
    within(TTL, "the holder is notified", guard.lost()).await;
    println!("notified after {:?}", cut.elapsed());
    let ip = pair.primary.own.ip().await;
    ask(&pair.standby, &["REPLICAOF", &ip, "6379"]).await;
    let next =
        within(TTL * 4, "the lock is granted", other.mutex("a").lock()).await.expect("granted");
    next.unlock().await.expect("released");
}

/// The old primary continues, without a replica. The session moves to the new one, which needs a
/// replica of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_moves_to_the_new_primary_with_all_its_connections() {
    let pair = Replicated::asynchronous().await;
    let third = follower(&pair.standby, &[]).await;
    let servers = [pair.primary.address, pair.standby.address];
    let holder = waiting_for(1, &servers, LONG * 2).await;
    let guard = holder.mutex("a").lock().await.expect("granted");
    Replicated::promote(&pair).await;
    throughout(LONG * 3, "the lock is held", async || guard.is_valid()).await;
    guard.unlock().await.expect("released");
    // The new primary has received the release.
    let newcomer = waiting_for(1, &servers[1..], TTL).await;
    let next = newcomer.mutex("a").lock_timeout(LONG * 4).await.expect("a reply");
    next.expect("granted").unlock().await.expect("released");
    drop(third);
}

/// The first server of the URL is an old primary, which continues without a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_session_avoids_a_primary_without_replicas() {
    let pair = Replicated::asynchronous().await;
    let third = follower(&pair.standby, &[]).await;
    Replicated::promote(&pair).await;
    eventually(SOON, "the old primary has no replica", async || {
        info(&pair.primary, "connected_slaves").await == "0"
    })
    .await;
    let client = waiting_for(1, &[pair.primary.address, pair.standby.address], TTL).await;
    let granted = client.mutex("a").lock_timeout(LONG * 2).await.expect("a reply");
    granted.expect("granted").unlock().await.expect("released");
    drop(third);
}

/// The host of the missing replica does not reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_replicas_are_reported_although_another_host_is_silent() {
    let primary = Replicated::primary_alone().await;
    let silent = Proxy::start(primary.address, None).await;
    silent.set(Mode::Blackhole);
    let servers = format!("{},{}", primary.address, silent.address);
    let url = format!("{}?replicas=1", IMAGE.around.join(&servers));
    let error = refused(Client::builder(url)).await;
    assert!(reason(&error).contains("0 of 1 required replicas"), "{error:?}");
}

/// The replica that all clients waited for is promoted, and the old primary continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_primary_next_to_the_new_one_makes_no_second_holder() {
    let pair = Replicated::asynchronous().await;
    let holder = waiting_for(1, &[pair.primary.address], LONGEST).await;
    let guard = holder.mutex("a").lock().await.expect("granted");
    let begun = Instant::now();
    Replicated::promote(&pair).await;
    let newcomer = pair.standby.client().await;
    // The new primary knows the holder's entry, which stays until its session expires.
    let next = Waiter::of(&newcomer, "a");
    let free = granted(&newcomer, "b").await;
    check_time(begun, free);
    assert!(!guard.is_valid(), "the former holder is still valid");
    let next = next.result(LONGEST * 2).await.expect("granted");
    assert!(next.fencing_token() > guard.fencing_token());
    next.unlock().await.expect("released");
}

/// Nothing shows that the server was a replica: it flushes every write at once, and has the keys of
/// another server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_started_as_a_primary_grants_nothing_for_the_longest_ttl() {
    let primary = Replicated::primary_alone().await;
    let ip = primary.own.ip().await;
    let start = format!(
        "[ ! -e /data/again ] || exec /entrypoint; exec /entrypoint --replicaof {ip} 6379 \
         --masteruser default --masterauth root"
    );
    let mut replica = Server::start(IMAGE, &["--entrypoint=bash"], &["-c", &start]).await;
    let up = async || info(&replica, "master_link_status").await == "up";
    eventually(SOON * 3, "the replica follows", up).await;
    let holder = waiting_for(1, &[primary.address], LONGEST).await;
    let guard = holder.mutex("a").lock().await.expect("granted");
    ask(&replica, &["REPLICAOF", "192.0.2.1", "6379"]).await;
    replica.own.run(&["touch", "/data/again"]).await;
    let begun = Instant::now();
    replica.restart().await;
    let newcomer = replica.client().await;
    assert_eq!(info(&replica, "master_replid2").await.trim_matches('0'), "");
    check_time(begun, granted(&newcomer, "b").await);
    assert!(!guard.is_valid(), "the former holder is still valid");
}

/// The holder moves to the new primary, while a client of the old one removes its session there,
/// unknown to any replica. The waiter on the old primary must not be granted the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_of_an_old_primary_grants_nothing() {
    let pair = Replicated::asynchronous().await;
    // The new primary's replies count only with a replica.
    let third = follower(&pair.standby, &[]).await;
    let way = Proxy::start(pair.primary.address, None).await;
    let holder = waiting_for(1, &[way.address, pair.standby.address], LONG).await;
    let other = waiting_for(1, &[pair.primary.address], QUIET).await;
    let watcher = pair.primary.builder().session_ttl(QUIET).connect().await.expect("connected");
    let (guard, waiter) = contended(&holder, &other, "a").await;
    // The watcher observes the server's clock for long enough to judge by it.
    throughout(LONG * 5 / 4, "the lock is held", async || {
        watcher.mutex("a").queue().await.is_ok_and(|queue| queue.len() <= 2) && guard.is_valid()
    })
    .await;
    way.set(Mode::Refuse);
    let begun = Instant::now();
    sleep_until(begun + LONG / 3).await;
    Replicated::promote(&pair).await;
    let over = poll(LONG * 3 / 2, async || {
        drop(watcher.mutex("a").queue().await);
        !waiter.waits()
    })
    .await;
    let queue = watcher.mutex("a").queue().await.expect("a reply");
    println!("after {:?} the old primary has {} entries", begun.elapsed(), queue.len());
    assert_eq!(queue.len(), 1, "the holder was removed there");
    assert!(guard.is_valid(), "the new primary renews the session");
    let tried = if over { Some(waiter.result(SOON).await) } else { None };
    assert!(!matches!(tried, Some(Ok(_))), "two clients hold the lock: {tried:?}");
    guard.unlock().await.expect("released");
    drop(third);
}

/// A primary that is cut off from its replicas may have been replaced, so its data may be outdated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_cut_off_from_its_replica_returns_no_value() {
    let pair = Replicated::asynchronous().await;
    let client = waiting_for(1, &[pair.primary.address], LONG).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    guard.put("/data/a", "b").await.expect("written");
    let value = guard.get("/data/a").await.expect("a reply");
    assert_eq!(value.as_deref(), Some(&b"b"[..]));
    Replicated::part(&pair).await;
    let read = guard.get("/data/a").await;
    assert!(matches!(read, Err(Error::Unavailable { .. } | Error::Lost { .. })), "{read:?}");
}

/// Returns the number of `WAIT` commands that the server has run.
async fn waits(server: &Server) -> u64 {
    let stats = ask(server, &["INFO", "commandstats"]).await;
    let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_wait:calls="));
    let calls = calls.and_then(|calls| calls.split(',').next()).unwrap_or("0");
    calls.parse().expect("a number")
}

/// The scripts are flushed in between, so some of them are sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_wait_for_replicas_together() {
    const TASKS: u64 = 64;
    let pair = Replicated::asynchronous().await;
    let client = waiting_for(1, &[pair.primary.address], TTL).await;
    for _ in 0..2 {
        let before = waits(&pair.primary).await;
        let names = (0..TASKS).map(|number| format!("task-{number}"));
        join_all(names.map(async |name| take_turn(&client, &name).await)).await;
        let waits = waits(&pair.primary).await - before;
        assert!((1..=TASKS / 2).contains(&waits), "{waits} for {TASKS} locks");
        ask(&pair.primary, &["SCRIPT", "FLUSH"]).await;
    }
    let left = ask(&pair.primary, &["ZCARD", "{distlock:/distlock}:queue"]).await;
    assert_eq!(left.trim(), "0");
}

/// The end of one watch does not end the next one, although waits for replicas and watches of
/// entries use different connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queue_is_watched_again() {
    let pair = Replicated::asynchronous().await;
    let client = waiting_for(1, &[pair.primary.address], TTL).await;
    let other = waiting_for(1, &[pair.primary.address], TTL).await;
    let moment = Duration::from_millis(20);
    // By now the server knows the scripts: an unknown script is sent twice, and is late.
    let guard = locked(&client, "first").await;
    assert!(
        timeout(moment * 10, guard.release_requested()).await.is_err(),
        "no release is requested"
    );
    guard.unlock().await.expect("released");
    for round in 0..30 {
        let name = format!("round-{round}");
        let guard = locked(&client, &name).await;
        assert!(
            timeout(moment, guard.release_requested()).await.is_err(),
            "no release is requested"
        );
        let requested = within(SOON, "the release is requested", guard.release_requested());
        let (_, sent) = tokio::join!(requested, async {
            sleep(moment).await;
            other.mutex(&name).request_release("now").await
        });
        assert!(sent.expect("a reply"), "the lock is held");
        guard.unlock().await.expect("released");
    }
}
