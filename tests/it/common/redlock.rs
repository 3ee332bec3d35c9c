//! The harness of Redlock. The operator has a connection to each of the five nodes.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use async_trait::async_trait;
use distlock::{Client, LockGuard};
use distlock_redis_model::Front;
use distlock_testkit::{
    framing::Framing,
    proxies::Proxies,
    servers::{endpoints, redlock_url},
};
use redis::{RedisResult, aio::MultiplexedConnection, cmd};
use tokio::time::{Instant, timeout};

use super::{AsSessions, Cost, Harness, Link, SOON, Servers, Sessions, redis::calls};

pub(crate) use super::redis::ask;

/// The part of a URL before the nodes.
pub(crate) const LOGIN: &str = "redlock://app:apppw@";

/// The TTL of clients of a test's own nodes.
pub(crate) const TTL: Duration = Duration::from_secs(2);

/// The value of a lock that belongs to no client.
const FOREIGN: &str = "nobody";

/// Five servers, or models of servers in this process.
pub(crate) struct Five<const MODELS: bool> {
    url: String,
    servers: Vec<SocketAddr>,
    nodes: Vec<MultiplexedConnection>,
}

pub(crate) type Redlock = Five<false>;
pub(crate) type Model = Five<true>;

/// Returns the URL of five models, which this process has in common.
fn model_url() -> String {
    static MODELS: LazyLock<String> = LazyLock::new(|| {
        let nodes = [(); 5].map(|()| model().address.to_string());
        format!("{LOGIN}{}", nodes.join(","))
    });
    MODELS.clone()
}

/// Starts the model of a node that has run for long.
pub(crate) fn model() -> Front {
    const DAY: i64 = 24 * 3600 * 1_000_000;
    let front = Front::start().expect("a port");
    front.change(|model| {
        model.set("appendonly", "no");
        model.set_age(DAY);
    });
    front
}

/// Opens an operator's connection to one node.
pub(crate) async fn dial(node: SocketAddr) -> MultiplexedConnection {
    try_to_dial(node).await.expect("the node is up: see docker/up")
}

pub(crate) async fn try_to_dial(node: SocketAddr) -> RedisResult<MultiplexedConnection> {
    let client = redis::Client::open(format!("redis://default:root@{node}")).expect("a URL");
    let connecting = client.get_multiplexed_async_connection();
    timeout(SOON, connecting).await.expect("the node replies")
}

/// Returns the name of a key's lock on the nodes, and the prefix of its value there.
pub(crate) fn parts(key: &str) -> (String, &str) {
    let (dir, id) = key.rsplit_once('/').expect("a key");
    (format!("{{{dir}}}"), id)
}

/// Returns the locks of a namespace on one node, with their values.
pub(crate) async fn found(node: &MultiplexedConnection, namespace: &str) -> Vec<(String, String)> {
    let locks: Vec<String> = ask(node, cmd("KEYS").arg(format!("{{{namespace}/*}}"))).await;
    let mut found = Vec::new();
    for lock in locks {
        let value: Option<String> = ask(node, cmd("GET").arg(&lock)).await;
        // The lock may have expired since.
        found.extend(value.map(|value| (lock, value)));
    }
    found
}

impl<const MODELS: bool> Five<MODELS> {
    /// Overwrites the values with this prefix on all nodes.
    async fn give_away(&self, key: &str) -> usize {
        let (lock, id) = parts(key);
        let script = "local value = redis.call('GET', KEYS[1]) \
                      if not value or value:sub(1, #ARGV[1]) ~= ARGV[1] then return 0 end \
                      redis.call('SET', KEYS[1], ARGV[2], 'PX', 8000) return 1";
        let mut given = 0;
        for node in &self.nodes {
            let mut give = cmd("EVAL");
            give.arg(script).arg(1).arg(&lock).arg(id).arg(FOREIGN);
            given += ask::<usize>(node, &give).await;
        }
        given
    }
}

#[async_trait]
impl<const MODELS: bool> Harness for Five<MODELS> {
    async fn start() -> Self {
        let url = if MODELS { model_url() } else { redlock_url() };
        let (_, hosts) = url.rsplit_once('@').expect("a user");
        let servers = endpoints(hosts).await;
        let mut nodes = Vec::new();
        for server in &servers {
            nodes.push(dial(*server).await);
        }
        Self { servers, nodes, url }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn queues(&self) -> bool {
        false
    }

    /// Losses are found by renewals only.
    fn notifies(&self) -> bool {
        false
    }

    fn at_once(&self) -> f64 {
        5.0
    }

    fn uncontended(&self) -> u64 {
        10
    }

    /// The keys on any node.
    async fn keys(&self, namespace: &str) -> Vec<String> {
        let mut all = BTreeSet::new();
        for node in &self.nodes {
            for (lock, value) in found(node, namespace).await {
                let dir = lock.trim_start_matches('{').trim_end_matches('}');
                let id = value.lines().next().expect("an id");
                if id != FOREIGN {
                    all.insert(format!("{dir}/{id}"));
                }
            }
        }
        all.into_iter().collect()
    }

    /// A renewal would create a deleted key again, so another value takes its place.
    async fn delete_key(&self, key: &str) {
        assert!(self.give_away(key).await > 0, "no key {key}");
    }

    async fn data(&self, _: &str) -> Option<Vec<u8>> {
        None
    }

    async fn erase(&self, _: &str) {}

    /// Deletes locks and counters.
    async fn forget(&self, namespace: &str) {
        for node in &self.nodes {
            let all: Vec<String> = ask(node, cmd("KEYS").arg(format!("{{{namespace}/*"))).await;
            for key in all {
                let _: u64 = ask(node, cmd("DEL").arg(key)).await;
            }
        }
    }

    async fn cost(&self, _: &[i64]) -> Cost {
        let mut cost = Cost::default();
        for node in &self.nodes {
            let stats: String = ask(node, cmd("INFO").arg("commandstats")).await;
            cost.requests += calls(&stats, "evalsha");
        }
        cost
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(self.proxies().await)
    }
}

/// The nodes have no sessions.
impl<const MODELS: bool> AsSessions for Five<MODELS> {
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }
}

#[async_trait]
impl<const MODELS: bool> Servers for Five<MODELS> {
    async fn proxies(&self) -> Proxies {
        Proxies::between([LOGIN, ""], Framing::Resp, &self.servers).await
    }

    fn bearable_round_trip(&self) -> f64 {
        0.1
    }
}

/// Five nodes of one test: servers, or models.
pub(crate) struct Nodes<N> {
    pub(crate) own: Vec<N>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// No client has a longer TTL.
    pub(crate) longest: Duration,
}

impl<N> Nodes<N> {
    pub(crate) fn builder(&self) -> distlock::Builder {
        Client::builder(format!("{LOGIN}{}{}", self.hosts(), self.query())).session_ttl(TTL)
    }

    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        hosts.join(",")
    }

    fn query(&self) -> String {
        format!("?longest_ttl={}ms", self.longest.as_millis())
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.expect("connected")
    }

    /// Returns a client, and the proxies that can cut it off.
    pub(crate) async fn client_by(&self) -> (Client, Proxies) {
        self.client_as(|_| (), |builder| builder).await
    }

    /// Returns a client like `client_by`, after changing its proxies and builder.
    pub(crate) async fn client_as(
        &self,
        cut: impl FnOnce(&Proxies),
        adjust: impl FnOnce(distlock::Builder) -> distlock::Builder,
    ) -> (Client, Proxies) {
        let query = self.query();
        let proxies = Proxies::between([LOGIN, &query], Framing::Resp, &self.addresses).await;
        cut(&proxies);
        let builder = Client::builder(proxies.url()).session_ttl(TTL);
        (adjust(builder).connect().await.expect("connected"), proxies)
    }

    /// Returns the number of nodes with a lock of this name, whatever its holder.
    pub(crate) async fn having(&self, name: &str) -> usize {
        let mut having = 0;
        for address in &self.addresses {
            let node = dial(*address).await;
            let lock = format!("{{/distlock/{name}}}");
            having += ask::<usize>(&node, cmd("EXISTS").arg(lock)).await;
        }
        having
    }
}

/// Tries repeatedly, for at most `time`, to acquire a held lock, and returns the guard. A grant
/// must follow the holder's loss, with a higher token.
pub(crate) async fn contend(
    other: &Client,
    name: &str,
    held: &LockGuard,
    time: Duration,
) -> Option<LockGuard> {
    let (began, token) = (Instant::now(), held.fencing_token());
    let mut last = String::new();
    while began.elapsed() < time {
        // The nodes may be unreachable.
        let tried = other.mutex(name).try_lock().await;
        last = format!("{tried:?}");
        if let Ok(Some(guard)) = tried {
            assert!(!held.is_valid(), "two clients hold the lock, after {:?}", began.elapsed());
            assert!(guard.fencing_token() > token, "{guard:?} is not after {held:?}");
            return Some(guard);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("at last: {last}; {held:?}, {:?}", held.remaining());
    None
}
