//! Galera: three MariaDB servers that agree on each commit, all of them writable.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, FailoverBehavior};

use crate::{
    common::{
        Harness, SOON, close, connect, contended, eventually,
        mysql::{DATABASE, IMAGE, Mysql},
        own::{Server, TTL},
        promises, queue_of, release_both, throughout, within,
    },
    failover::mysql::ask,
};

const LONG: Duration = Duration::from_secs(15);

struct Cluster {
    servers: Vec<Server>,
}

impl Cluster {
    async fn start() -> Self {
        Self::with_last(&[]).await
    }

    /// `last` are the options for running the last server.
    async fn with_last(last: &[&str]) -> Self {
        // The shared server of this image is up.
        drop(Mysql::start().await);
        let mut servers: Vec<Server> = Vec::new();
        for number in 0..3 {
            let others = match servers.first() {
                Some(first) => first.own.ip().await,
                None => String::new(),
            };
            let address = format!("--wsrep-cluster-address=gcomm://{others}");
            let mut arguments = vec![
                "--wsrep-on=ON",
                "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
                "--wsrep-sst-method=rsync",
                "--binlog-format=ROW",
                "--innodb-autoinc-lock-mode=2",
                &address,
            ];
            if servers.is_empty() {
                arguments.push("--wsrep-new-cluster");
            }
            let run = [&[DATABASE][..], if number == 2 { last } else { &[] }].concat();
            let server = Server::start(IMAGE, &run, &arguments).await;
            server.serves().await;
            servers.push(server);
        }
        let size = "SHOW STATUS LIKE 'wsrep_cluster_size'";
        eventually(SOON * 5, "the cluster has three servers", async || {
            ask(&servers[0], size).await.ends_with('3')
        })
        .await;
        Self { servers }
    }

    /// Returns a client that uses this server first, and the others if it is lost.
    async fn client(&self, first: usize) -> Client {
        self.client_of(first, TTL).await
    }

    async fn client_of(&self, first: usize, ttl: Duration) -> Client {
        let others = [(first + 1) % 3, (first + 2) % 3].map(|number| &self.servers[number]);
        connect(&self.servers[first].url_with(&others), ttl).await
    }
}

/// Each client uses another server. Of two conflicting commits, one is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_three_servers_take_turns() {
    let cluster = Cluster::start().await;
    let (held, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for number in 0..9 {
        let client = cluster.client(number % 3).await;
        let (held, last) = (Arc::clone(&held), Arc::clone(&last));
        tasks.push(tokio::spawn(async move {
            for _ in 0..10 {
                let guard = within(SOON * 6, "the lock is granted", client.mutex("a").lock()).await;
                let guard = guard.expect("granted");
                assert!(!held.swap(true, SeqCst), "two clients hold the lock");
                let token = guard.fencing_token().as_u64();
                assert!(last.swap(token, SeqCst) < token, "{token} is not higher");
                guard.put("/data/a", "b").await.expect("written");
                held.store(false, SeqCst);
                guard.unlock().await.expect("released");
            }
            client.close().await.expect("closed");
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let conflicts = "SHOW STATUS LIKE 'wsrep_local_%_f%s'";
    for server in &cluster.servers {
        println!("{}", ask(server, conflicts).await.replace('\n', ", "));
    }
}

/// The remaining servers take about 5 s to agree on the loss (`evs.suspect_timeout`). They confirm
/// nothing until then, so shorter sessions expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_lost_costs_no_lock() {
    let cluster = Cluster::start().await;
    let (holder, other) = (cluster.client_of(0, LONG).await, cluster.client_of(1, LONG).await);
    // Galera gives no guarantee: see `durability.rs`.
    assert_eq!(promises(&holder).await, (false, FailoverBehavior::MayLoseGrants));
    let durability = holder.durability().await.expect("a reply");
    assert!(durability.reasons.iter().any(|why| why.contains("Galera")), "{durability:?}");
    let (guard, waiter) = contended(&holder, &other, "a").await;
    queue_of(&other, "a", 2).await;
    cluster.servers[0].own.kill().await;
    waiter.waits_behind(&guard, LONG).await;
    release_both(guard, waiter).await;
    close([holder, other]).await;
}

/// Two of three servers are lost, and the remaining one must not decide alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_grants_nothing() {
    let cluster = Cluster::start().await;
    let client = cluster.client(2).await;
    for server in &cluster.servers[..2] {
        server.own.kill().await;
    }
    let tried = client.mutex("a").lock_timeout(TTL * 3).await;
    assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
}

/// By this server's clock, all sessions of the others have long expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_another_clock_removes_no_session() {
    let cluster = Cluster::with_last(&[
        "--env=LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "--env=FAKETIME=+1h",
        "--env=FAKETIME_DONT_FAKE_MONOTONIC=1",
    ])
    .await;
    let (holder, other) = (cluster.client(0).await, cluster.client(2).await);
    let (guard, waiter) = contended(&holder, &other, "a").await;
    throughout(TTL * 4, "the lock is held", async || {
        // Each request looks for expired sessions.
        let tried = other.mutex("a").try_lock().await;
        !matches!(tried, Ok(Some(_))) && guard.is_valid() && waiter.waits()
    })
    .await;
    release_both(guard, waiter).await;
    close([holder, other]).await;
}
