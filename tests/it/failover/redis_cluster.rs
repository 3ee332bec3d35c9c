//! Redis as a cluster: all keys of a namespace are in one slot, which one server has.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Client, Error};
use tokio::time::Instant;

use crate::{
    common::{
        Harness, SOON, connect, eventually, locked,
        own::{Server, TTL},
        poll,
        redis::{IMAGE, Redis},
        within,
    },
    failover::redis::{LOGIN, ask, info},
};

/// Two servers that may have slots, and a replica of the first.
struct Cluster {
    servers: [Server; 3],
    ips: [String; 3],
    ids: [String; 3],
    slot: String,
}

impl Cluster {
    /// Starts a cluster whose first server has all slots.
    async fn start() -> Self {
        drop(Redis::start().await);
        let mode = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        // Otherwise a server that loses its last slot would become a replica, and could not get the
        // slot back.
        let stays = ["--cluster-allow-replica-migration", "no"];
        // New empty servers suffice, because they have had no clients.
        let one = async || {
            let arguments = [&mode[..], &stays, &LOGIN].concat();
            let server = Server::start(IMAGE, &[], &arguments).await;
            eventually(SOON, "the server is up", async || ask(&server, &["PING"]).await == "PONG")
                .await;
            server
        };
        let servers = [one().await, one().await, one().await];
        let mut ips = [const { String::new() }; 3];
        let mut ids = [const { String::new() }; 3];
        for (number, server) in servers.iter().enumerate() {
            ips[number] = server.own.ip().await;
            ids[number] = ask(server, &["CLUSTER", "MYID"]).await;
        }
        let slot = ask(&servers[0], &["CLUSTER", "KEYSLOT", "{distlock:/distlock}"]).await;
        ask(&servers[0], &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await;
        for ip in &ips[1..] {
            ask(&servers[0], &["CLUSTER", "MEET", ip, "6379"]).await;
        }
        let cluster = Self { servers, ips, ids, slot };
        for server in &cluster.servers {
            eventually(SOON * 3, "the server knows the other servers", async || {
                let info = ask(server, &["CLUSTER", "INFO"]).await;
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
            .await;
        }
        let follows = &cluster.servers[2];
        eventually(SOON * 3, "the replica follows", async || {
            ask(follows, &["CLUSTER", "REPLICATE", &cluster.ids[0]]).await == "OK"
        })
        .await;
        eventually(SOON * 3, "the replica has all data", async || {
            info(follows, "master_link_status").await == "up"
        })
        .await;
        cluster
    }

    /// Returns a client that tries the servers from `first` on.
    async fn client(&self, first: usize, ttl: Duration) -> Client {
        let servers = (0..3).map(|number| format!("{}:6379", self.ips[(first + number) % 3]));
        let servers = servers.collect::<Vec<_>>().join(",");
        let url = format!("{}?allow_plaintext_credentials=true", IMAGE.around.join(&servers));
        connect(&url, ttl).await
    }

    /// Moves the slot, key by key.
    async fn migrate(&self, from: usize, to: usize) {
        let [source, target] = [from, to].map(|number| &self.servers[number]);
        // Each server must know the previous migration first.
        let set = async |server: &Server, what, of: usize| {
            let command = ["CLUSTER", "SETSLOT", &self.slot, what, &self.ids[of]];
            eventually(SOON, "the server agrees", async || ask(server, &command).await == "OK")
                .await;
        };
        set(target, "IMPORTING", from).await;
        set(source, "MIGRATING", to).await;
        // The steps run in the container, where each takes milliseconds even on a busy machine.
        let steps = "cli='redis-cli --user default --pass root --no-auth-warning'
            while key=$($cli CLUSTER GETKEYSINSLOT $1 1); [ -n \"$key\" ]; do
                reply=$($cli MIGRATE $2 6379 \"$key\" 0 5000 AUTH2 default root)
                case $reply in OK | NOKEY) ;; *) echo \"$key: $reply\"; exit ;; esac
            done";
        let steps = ["sh", "-c", steps, "-", &self.slot, &self.ips[to]];
        assert_eq!(source.own.run(&steps).await, "", "a key is not migrated");
        for server in [target, source] {
            set(server, "NODE", to).await;
        }
    }
}

/// Clients that name different servers all use the server with the keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_clients_use_the_server_that_has_the_slot() {
    let cluster = Cluster::start().await;
    let mut clients = Vec::new();
    for first in 0..3 {
        clients.push(cluster.client(first, TTL).await);
    }
    let waiters: Vec<_> = clients
        .iter()
        .map(|client| {
            let mutex = client.mutex("a");
            tokio::spawn(async move {
                let guard = mutex.lock().await?;
                let token = guard.fencing_token();
                guard.unlock().await.map(|()| token)
            })
        })
        .collect();
    let mut tokens = Vec::new();
    for waiter in waiters {
        let token = within(SOON, "the lock is granted", waiter).await.expect("no panic");
        tokens.push(token.expect("granted"));
    }
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 3);
    let durability = clients[0].durability().await.expect("a reply");
    assert!(!durability.exclusive, "the server has a replica: {durability:?}");
    let numbered =
        format!("{}/1?allow_plaintext_credentials=true", IMAGE.around.join(&cluster.ips[0]));
    let error = within(SOON, "the client is refused", Client::connect(numbered)).await;
    assert!(matches!(error, Err(Error::Denied { .. })), "{error:?}");
}

/// The slot moves to another server while many clients want one lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_loses_no_waiter_and_grants_no_second_holder() {
    // No session is renewed while the slot moves, which may take seconds on a busy machine. Because
    // there is a replica, nothing is granted for one TTL afterwards.
    const LONG: Duration = Duration::from_secs(30);
    let cluster = Cluster::start().await;
    let (held, last) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (stop, grants) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let keeper = cluster.client(0, LONG).await;
    let kept = keeper.mutex("kept").lock().await.expect("granted");
    let mut tasks = Vec::new();
    for number in 0..6 {
        let client = cluster.client(number % 3, LONG).await;
        let [held, stop] = [&held, &stop].map(Arc::clone);
        let [last, grants] = [&last, &grants].map(Arc::clone);
        tasks.push(tokio::spawn(async move {
            while !stop.load(SeqCst) {
                // Nothing is granted while the keys move.
                let Ok(guard) = client.mutex("a").lock().await else { continue };
                assert!(!held.swap(true, SeqCst), "two clients hold the lock");
                let token = guard.fencing_token().as_u64();
                assert!(last.swap(token, SeqCst) < token, "{token} is not higher");
                grants.fetch_add(1, SeqCst);
                tokio::task::yield_now().await;
                assert!(guard.is_valid(), "the lock was lost");
                held.store(false, SeqCst);
                drop(guard.unlock().await);
            }
        }));
    }
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        let before = grants.load(SeqCst);
        eventually(LONG * 4, "there are grants", async || grants.load(SeqCst) > before + 10).await;
        let begun = Instant::now();
        cluster.migrate(from, to).await;
        println!("the slot moved in {:?}", begun.elapsed());
    }
    let before = grants.load(SeqCst);
    eventually(LONG * 4, "there are grants", async || grants.load(SeqCst) > before + 10).await;
    stop.store(true, SeqCst);
    for task in tasks {
        within(LONG * 2, "the task ends", task).await.expect("no panic");
    }
    assert!(kept.is_valid());
    kept.unlock().await.expect("released");
    println!("{} grants", grants.load(SeqCst));
}

/// The server with the slot is killed, and its replica takes over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_over_grants_nothing_for_the_longest_ttl() {
    let cluster = Cluster::start().await;
    let [holder, other] = [cluster.client(1, TTL).await, cluster.client(2, TTL).await];
    let guard = locked(&holder, "a").await;
    let killed = Instant::now();
    cluster.servers[0].own.kill().await;
    ask(&cluster.servers[2], &["CLUSTER", "FAILOVER", "TAKEOVER"]).await;
    let taken = Instant::now();
    let free = poll(TTL * 4, async || {
        let tried = other.mutex("b").try_lock().await;
        let granted = matches!(tried, Ok(Some(_)));
        assert!(!granted || killed.elapsed() > TTL, "after {:?}", killed.elapsed());
        granted
    })
    .await;
    println!("free {:?} after it took over", taken.elapsed());
    assert!(free);
    let token = guard.fencing_token();
    drop(guard);
    let next =
        within(TTL * 3, "the lock is granted", other.mutex("a").lock()).await.expect("granted");
    assert!(next.fencing_token() > token);
    next.unlock().await.expect("released");
}
