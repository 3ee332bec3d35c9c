//! Redis with sentinels, which promote a replica when the primary is lost.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, Error, LockGuard};
use distlock_testkit::docker::OwnServer;

use crate::{
    common::{
        SOON, connect, contended, eventually, locked_at_last,
        own::{Server, TTL},
        reason, refused, take_turn, throughout, within,
    },
    failover::redis::{LOGIN, ask, follower, info, started},
};

const PORTS: [u16; 3] = [26379, 26380, 26381];

/// A primary, two replicas, and three sentinels.
struct Watched {
    servers: [Server; 3],
    sentinels: OwnServer,
    addresses: Vec<SocketAddr>,
}

impl Watched {
    async fn start() -> Self {
        // A returning replica is synchronized without delay.
        let quick = ["--repl-diskless-sync-delay", "0"];
        let primary = started(&[&quick[..], &LOGIN].concat()).await;
        let others = [follower(&primary, &quick).await, follower(&primary, &quick).await];
        let settings = format!(
            "sentinel monitor main {} 6379 2\nsentinel auth-user main default\n\
             sentinel auth-pass main root\nsentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 4000\n",
            primary.own.ip().await
        );
        // The container outlives its sentinels, because the command that stops the last one runs in
        // it.
        let all = "for port in 26379 26380 26381; do \
                   printf '%sport %s\n' \"$1\" $port >/data/$port.conf; \
                   redis-server /data/$port.conf --sentinel & done; exec sleep infinity";
        let publish = PORTS.map(|port| format!("--publish=127.0.0.1::{port}"));
        let [one, two, three] = publish.each_ref().map(String::as_str);
        let run = [one, two, three, "--entrypoint=bash"];
        let sentinels = OwnServer::start("redis", &run, &["-c", all, "-", &settings]).await;
        let mut addresses = Vec::new();
        for port in PORTS {
            addresses.push(sentinels.address(port).await);
        }
        let [one, two] = others;
        let watched = Self { servers: [primary, one, two], sentinels, addresses };
        eventually(SOON * 3, "the sentinels know each other", async || {
            let status = watched.sentinel(&["SENTINEL", "MASTER", "main"]).await;
            let status: Vec<_> = status.lines().collect();
            let number =
                |name| status.iter().position(|line| *line == name).map(|at| status[at + 1]);
            (number("num-slaves"), number("num-other-sentinels")) == (Some("2"), Some("2"))
        })
        .await;
        watched
    }

    async fn sentinel(&self, command: &[&str]) -> String {
        let program = "redis-cli -p 26380 \"$@\" || :";
        self.sentinels.run(&[&["sh", "-c", program, "-"], command].concat()).await
    }

    fn url(&self, options: &str) -> String {
        let sentinels: Vec<_> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!(
            "redis+sentinel://app:apppw@{}/main?allow_plaintext_credentials=true{options}",
            sentinels.join(",")
        )
    }

    async fn client(&self, options: &str) -> Client {
        connect(&self.url(options), TTL).await
    }

    /// Pauses the primary until the sentinels have promoted a replica, and returns the replica's
    /// index.
    async fn fail_over(&self) -> usize {
        self.servers[0].own.pause().await;
        let mut promoted = None;
        eventually(SOON * 3, "a replica is promoted", async || {
            for (number, server) in self.servers.iter().enumerate().skip(1) {
                if info(server, "role").await == "master" {
                    promoted = Some(number);
                }
            }
            promoted.is_some()
        })
        .await;
        promoted.expect("just promoted")
    }
}

/// Acquires the lock, and asserts that the former holder lost it before.
async fn next(client: &Client, before: &LockGuard) -> LockGuard {
    let guard = within(SOON * 6, "the lock is granted", locked_at_last(&client.mutex("a"))).await;
    assert!(!before.is_valid(), "two clients hold the lock");
    assert!(guard.fencing_token() > before.fencing_token());
    guard
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_connect_to_the_primary_that_sentinels_report() {
    let watched = Watched::start().await;
    let client = watched.client("").await;
    let durability = client.durability().await.expect("a reply");
    assert!(
        !durability.exclusive && durability.reasons.concat().contains("replicas=2"),
        "{durability:?}"
    );
    let other = watched.client("&replicas=1").await;
    assert!(!other.durability().await.expect("a reply").exclusive);
    let guard = client.mutex("a").lock().await.expect("granted");
    watched.fail_over().await;
    // The new primary knows the lock if it was replicated in time, and then the lock stays held.
    let newcomer = watched.client("").await;
    throughout(TTL * 2, "there is one holder", async || {
        let tried = newcomer.mutex("a").try_lock().await;
        !matches!(tried, Ok(Some(_))) || !guard.is_valid()
    })
    .await;
    drop(guard);
    let free = within(TTL * 3, "granted", newcomer.mutex("b").lock()).await.expect("granted");
    free.unlock().await.expect("released");
}

/// A missing replica confirms nothing. Locks are lost and none is granted, until the old primary is
/// back as a replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_all_replicas_waited_for_a_failover_makes_no_second_holder() {
    let watched = Watched::start().await;
    let [holder, other] =
        [watched.client("&replicas=2").await, watched.client("&replicas=2").await];
    assert!(holder.durability().await.expect("a reply").exclusive);
    let (guard, waiter) = contended(&holder, &other, "a").await;
    let promoted = watched.fail_over().await;
    within(TTL, "the holder is notified", guard.lost()).await;
    let connecting = Client::builder(watched.url("&replicas=2")).session_ttl(TTL);
    let connecting = connecting.connect_timeout(TTL).connect();
    let error = within(SOON * 2, "the attempt ends", connecting).await.expect_err("too few");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    waiter.result(SOON * 3).await.expect_err("the waiter's session is lost");
    watched.servers[0].own.unpause().await;
    eventually(SOON * 6, "the old primary is a replica", async || {
        info(&watched.servers[promoted], "connected_slaves").await == "2"
    })
    .await;
    next(&other, &guard).await.unlock().await.expect("released");
}

/// The client uses the sentinel that is up. If none is, the error names them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_are_down_are_passed_over_and_named() {
    let watched = Watched::start().await;
    let url = watched.url("").replace("/main", "/other");
    let error = refused(Client::builder(url)).await;
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    for port in ["26379", "26381"] {
        let down = format!("redis-cli -p {port} SHUTDOWN NOSAVE || true");
        watched.sentinels.run(&["sh", "-c", &down]).await;
    }
    let client = watched.client("").await;
    take_turn(&client, "a").await;
    watched.sentinels.run(&["sh", "-c", "redis-cli -p 26380 SHUTDOWN NOSAVE || true"]).await;
    let connecting = Client::builder(watched.url("")).connect_timeout(Duration::from_secs(2));
    let error = refused(connecting).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    let text = reason(&error);
    for address in &watched.addresses {
        assert!(text.contains(&address.to_string()), "{text}");
    }
    assert!(!format!("{error:?} {text}").contains("apppw"));
    // A client that has found the primary no longer needs the sentinels.
    take_turn(&client, "a").await;
    assert_eq!(ask(&watched.servers[0], &["PING"]).await, "PONG");
}

/// A password is not sent to a host that a sentinel names either, unless that is allowed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_not_sent_to_a_server_that_a_sentinel_names() {
    let watched = Watched::start().await;
    let url = watched.url("").replace("allow_plaintext_credentials=true", "");
    let error = refused(Client::builder(url)).await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(reason(&error).contains("allow_plaintext_credentials"), "{error:?}");
}
