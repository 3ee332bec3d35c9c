//! Redis as a cluster: all of the library's keys are of one slot, which one server has.

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

/// Two that have slots, or may have, and one that follows the first.
struct Cluster {
    servers: [Server; 3],
    ips: [String; 3],
    ids: [String; 3],
    slot: String,
}

impl Cluster {
    /// The first one has all slots.
    async fn start() -> Self {
        drop(Redis::start().await);
        let mode = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
        // One that gives its last slot away would follow who has it, and not be given it back.
        let stays = ["--cluster-allow-replica-migration", "no"];
        // They may be young and empty: nobody was there before.
        let one = async || {
            let arguments = [&mode[..], &stays, &LOGIN].concat();
            let server = Server::start(IMAGE, &[], &arguments).await;
            eventually(SOON, "it is up", async || ask(&server, &["PING"]).await == "PONG").await;
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
            eventually(SOON * 3, "it knows the others", async || {
                let info = ask(server, &["CLUSTER", "INFO"]).await;
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
            .await;
        }
        let follows = &cluster.servers[2];
        eventually(SOON * 3, "it follows", async || {
            ask(follows, &["CLUSTER", "REPLICATE", &cluster.ids[0]]).await == "OK"
        })
        .await;
        eventually(SOON * 3, "it has all", async || {
            info(follows, "master_link_status").await == "up"
        })
        .await;
        cluster
    }

    /// By way of this one first.
    async fn client(&self, first: usize, ttl: Duration) -> Client {
        let servers = (0..3).map(|number| format!("{}:6379", self.ips[(first + number) % 3]));
        let servers = servers.collect::<Vec<_>>().join(",");
        let url = format!("{}?allow_plaintext_credentials=true", IMAGE.around.join(&servers));
        connect(&url, ttl).await
    }

    /// The keys go one by one.
    async fn migrate(&self, from: usize, to: usize) {
        let [source, target] = [from, to].map(|number| &self.servers[number]);
        // Each has to have heard of the last time.
        let set = async |server: &Server, what, of: usize| {
            let command = ["CLUSTER", "SETSLOT", &self.slot, what, &self.ids[of]];
            eventually(SOON, "it agrees", async || ask(server, &command).await == "OK").await;
        };
        set(target, "IMPORTING", from).await;
        set(source, "MIGRATING", to).await;
        // In the container, where each step takes milliseconds however busy the machine is.
        let steps = "cli='redis-cli --user default --pass root --no-auth-warning'
            while key=$($cli CLUSTER GETKEYSINSLOT $1 1); [ -n \"$key\" ]; do
                reply=$($cli MIGRATE $2 6379 \"$key\" 0 5000 AUTH2 default root)
                case $reply in OK | NOKEY) ;; *) echo \"$key: $reply\"; exit ;; esac
            done";
        let steps = ["sh", "-c", steps, "-", &self.slot, &self.ips[to]];
        assert_eq!(source.own.run(&steps).await, "", "a key does not go");
        for server in [target, source] {
            set(server, "NODE", to).await;
        }
    }
}

/// Whichever of them is named, all meet at the one that has the keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_meet_at_the_server_that_has_the_slot() {
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
        let token = within(SOON, "its turn", waiter).await.expect("no panic");
        tokens.push(token.expect("granted"));
    }
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 3);
    let durability = clients[0].durability().await.expect("an answer");
    assert!(!durability.exclusive, "it has a replica: {durability:?}");
    let numbered =
        format!("{}/1?allow_plaintext_credentials=true", IMAGE.around.join(&cluster.ips[0]));
    let error = within(SOON, "it is refused", Client::connect(numbered)).await;
    assert!(matches!(error, Err(Error::Denied { .. })), "{error:?}");
}

/// The slot goes to another server while many want one lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_moves_loses_no_waiter_and_grants_no_second_holder() {
    // While the slot is under way, which may take a busy machine seconds, no session is renewed. As
    // there is a replica, nothing new is granted for so long afterwards.
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
                // While the keys are under way nothing is granted.
                let Ok(guard) = client.mutex("a").lock().await else { continue };
                assert!(!held.swap(true, SeqCst), "two hold it");
                let token = guard.fencing_token().as_u64();
                assert!(last.swap(token, SeqCst) < token, "{token} is not higher");
                grants.fetch_add(1, SeqCst);
                tokio::task::yield_now().await;
                assert!(guard.is_valid(), "it was lost");
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
        within(LONG * 2, "it comes to an end", task).await.expect("no panic");
    }
    assert!(kept.is_valid());
    kept.unlock().await.expect("released");
    println!("{} grants", grants.load(SeqCst));
}

/// The server with the slot is killed, and the one that follows it takes over.
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
    let next = within(TTL * 3, "its turn", other.mutex("a").lock()).await.expect("granted");
    assert!(next.fencing_token() > token);
    next.unlock().await.expect("released");
}
