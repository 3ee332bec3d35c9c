//! The harness of Redis and Valkey. The operator has all permissions and reads the server's command
//! counters.

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use distlock::{Builder, Client, FailoverBehavior, LockGuard};
use distlock_redis_model::Front;
use distlock_testkit::{
    framing::Framing,
    proxies::Proxies,
    proxy::Proxy,
    servers::{redis_cluster_url, redis_sentinel_url, redis_url, valkey_url},
};
use redis::{Cmd, FromRedisValue, PushInfo, PushKind, aio::MultiplexedConnection, cmd};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
    time::timeout,
};

use super::{
    Cost, Harness, Link, SOON, Servers, Sessions, connect, connected,
    own::{Image, TTL},
    single::Single,
};

/// The part of a URL before the server.
pub(crate) const LOGIN: &str = "redis://app:apppw@";

pub(crate) const IMAGE: &Image = &Image { like: "redis", port: 6379, around: [LOGIN, ""] };

/// The command that runs an operator's command in the server's container. It prints nothing while
/// the server does not accept clients.
pub(crate) const PROGRAM: [&str; 4] =
    ["sh", "-c", "redis-cli --user default --pass root --no-auth-warning \"$@\" || :", "-"];

/// User and password of docker/'s operator.
pub(crate) const OPERATOR: (&str, &str) = ("default", "root");

/// Held by tests of servers that keep nothing, as all clients log to one place.
pub(crate) static FORGETTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The parts of the library's scripts.
const LIBRARY: [&str; 4] = [
    include_str!("../../../src/backend/redis/scripts/base.lua"),
    include_str!("../../../src/backend/redis/scripts/entries.lua"),
    include_str!("../../../src/backend/redis/scripts/sessions.lua"),
    include_str!("../../../src/backend/redis/scripts/gates.lua"),
];

/// The deployments of Redis and Valkey.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Redis,
    Valkey,
    /// A primary with two replicas, reached through its sentinels. Both replicas must confirm
    /// writes.
    Sentinel,
    /// The cluster's server for the slot of the namespace.
    Cluster,
    /// Redis with a bridge to other libraries' locks, of which there are none.
    Bridged,
    /// The model of a server, in this process.
    Model,
}

const KINDS: [Kind; 6] =
    [Kind::Redis, Kind::Valkey, Kind::Sentinel, Kind::Cluster, Kind::Bridged, Kind::Model];

/// The harness of one deployment, by its index.
pub(crate) struct Server<const KIND: usize> {
    url: String,
    namespace: String,
    single: Single,
    client: MultiplexedConnection,
    /// The messages sent to clients. With sentinels, the server's counters include messages of the
    /// sentinels, so the operator counts these instead.
    heard: Option<Heard>,
}

/// The number of messages received so far, and the channel of further ones.
type Heard = Mutex<(i64, mpsc::UnboundedReceiver<PushInfo>)>;

pub(crate) type Redis = Server<0>;
pub(crate) type Valkey = Server<1>;
pub(crate) type Sentinel = Server<2>;
pub(crate) type Cluster = Server<3>;
pub(crate) type Bridged = Server<4>;
pub(crate) type Model = Server<5>;

/// Returns the URL of the model of a server.
fn model_url() -> String {
    static MODEL: LazyLock<Front> = LazyLock::new(|| Front::start().expect("a port"));
    format!("{LOGIN}{}", MODEL.address)
}

/// Returns the server that stores the namespace, for a URL that may name others.
async fn primary_of(kind: Kind, url: &str, namespace: &str) -> String {
    let (_, hosts) = url.rsplit_once('@').expect("a user");
    let first = hosts.split([',', '/', '?']).next().expect("a server");
    match kind {
        Kind::Redis | Kind::Valkey | Kind::Bridged | Kind::Model => first.to_owned(),
        Kind::Sentinel => {
            let client = redis::Client::open(format!("redis://{first}")).expect("a URL");
            let connecting = client.get_multiplexed_async_connection().await;
            let sentinel = connecting.expect("sentinels are up: see docker/up redis-sentinel");
            let mut query = cmd("SENTINEL");
            query.arg("GET-MASTER-ADDR-BY-NAME").arg("main");
            let (host, port): (String, u16) = ask(&sentinel, &query).await;
            format!("{host}:{port}")
        }
        Kind::Cluster => {
            let mut client = dial(&format!("{LOGIN}{first}"), Some(OPERATOR)).await;
            match cmd("EXISTS").arg(meta(namespace)).query_async::<u64>(&mut client).await {
                Ok(_) => first.to_owned(),
                Err(moved) => {
                    let detail = moved.detail().expect("a MOVED error");
                    detail.rsplit(' ').next().expect("a server").to_owned()
                }
            }
        }
    }
}

/// Subscribes to all messages to clients. They arrive before the reply to any later request.
async fn listen(server: &str) -> (MultiplexedConnection, Heard) {
    let (user, password) = OPERATOR;
    let url = format!("redis://{user}:{password}@{server}?protocol=resp3");
    let (sender, heard) = mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let client = redis::Client::open(url).expect("a URL");
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let mut client = connecting.await.expect("the server is up");
    client.psubscribe("{distlock:*").await.expect("subscribed");
    (client, Mutex::new((0, heard)))
}

/// Opens a connection to the server that stores the namespace, by a URL that may name others.
pub(crate) async fn dial_any(url: &str, namespace: &str) -> MultiplexedConnection {
    let kind = if url.starts_with("redis+") { Kind::Sentinel } else { Kind::Cluster };
    let server = primary_of(kind, url, namespace).await;
    dial(&format!("{LOGIN}{server}"), None).await
}

/// Opens a connection for the caller alone, as the user of the URL unless `user` is given.
pub(crate) async fn dial(url: &str, user: Option<(&str, &str)>) -> MultiplexedConnection {
    let (scheme, rest) = url.split_once("://").expect("a scheme");
    let (login, server) = rest.rsplit_once('@').expect("a user");
    let login = user.map_or(login.to_owned(), |(user, password)| format!("{user}:{password}"));
    // Several proxies lead to the same server.
    let server = server.split(',').next().expect("a server");
    let client = redis::Client::open(format!("{scheme}://{login}@{server}")).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let connected = timeout(SOON, connecting).await.expect("the server replies");
    connected.expect("Redis is up: see docker/up")
}

/// Starts a server that does not know the command `HELLO`, like Redis 5 and some proxies. It runs
/// until the test ends.
pub(crate) async fn without_hello() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                // A client greets the server with three commands.
                let errors = "-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n";
                let errors = errors.repeat(3);
                let mut read = [0; 1024];
                while let Ok(1..) = client.read(&mut read).await {
                    if client.write_all(errors.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Runs an operator's command, and returns its reply.
pub(crate) async fn ask<T: FromRedisValue>(client: &MultiplexedConnection, command: &Cmd) -> T {
    let mut client = client.clone();
    let reply = timeout(SOON, command.query_async(&mut client)).await.expect("the server replies");
    reply.unwrap_or_else(|error| panic!("{error}"))
}

/// A script for the server's `EVAL` that marks an empty store as initialized on this server.
/// Without it, a server that was just started counts as one that has lost its data, and grants
/// nothing for a while. Tests that cannot wait use it.
pub(crate) const SETTLE: &str = "local info = redis.call('INFO', 'server') \
    .. redis.call('INFO', 'replication') \
    local server = string.match(info, 'run_id:(%x+)') .. '/' \
    .. string.match(info, 'master_replid:(%x+)') \
    redis.call('HSETNX', KEYS[1], 'version', '2') \
    redis.call('HSETNX', KEYS[1], 'server', server) \
    redis.call('HSETNX', KEYS[1], 'keeps', '1') \
    return 'ready'";
/// The only key of that script, in the default namespace.
pub(crate) const META: &str = "{distlock:/distlock}:meta";
pub(crate) const SESSIONS: &str = "{distlock:/distlock}:sessions";
pub(crate) const QUEUE: &str = "{distlock:/distlock}:queue";
/// The default namespace.
pub(crate) const USUAL: &str = "/distlock";

fn meta(namespace: &str) -> String {
    format!("{{distlock:{namespace}}}:meta")
}

pub(crate) async fn settle(client: &MultiplexedConnection, namespace: &str) {
    let reply: String = ask(client, cmd("EVAL").arg(SETTLE).arg(1).arg(meta(namespace))).await;
    assert_eq!(reply, "ready");
}

/// Runs Lua code after the library's own, in the default namespace.
pub(crate) async fn run<T: FromRedisValue>(
    client: &MultiplexedConnection,
    lines: &str,
    arguments: &[&str],
) -> T {
    run_in(client, USUAL, lines, arguments).await
}

pub(crate) async fn run_in<T: FromRedisValue>(
    client: &MultiplexedConnection,
    namespace: &str,
    lines: &str,
    arguments: &[&str],
) -> T {
    let names = ["meta", "queue", "sessions", "data"];
    let mut call = cmd("EVAL");
    call.arg(format!("{}\n{lines}", LIBRARY.join("\n"))).arg(names.len());
    for name in names {
        call.arg(format!("{{distlock:{namespace}}}:{name}"));
    }
    // No session, and no request to end one.
    call.arg("none").arg("").arg(arguments);
    ask(client, &call).await
}

/// The place of a test's own server, and its clients.
pub(crate) struct Reached {
    pub(crate) address: SocketAddr,
}

impl Reached {
    pub(crate) fn url(&self) -> String {
        IMAGE.around.join(&self.address.to_string())
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(self.url()).session_ttl(TTL)
    }

    pub(crate) async fn client(&self) -> Client {
        connected(self.builder()).await
    }

    /// Returns a client and the proxy that can cut it off.
    pub(crate) async fn by_proxy(&self, ttl: Duration) -> (Client, Proxy) {
        let proxy = Proxy::start(self.address, Some(Framing::Resp)).await;
        let url = self.url().replace(&self.address.to_string(), &proxy.address.to_string());
        (connect(&url, ttl).await, proxy)
    }

    pub(crate) async fn operator(&self) -> MultiplexedConnection {
        dial(&self.url(), Some(OPERATOR)).await
    }

    /// Returns the reply to an operator's command.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        ask(&self.operator().await, command).await
    }
}

fn session_of(key: &str) -> &str {
    key.rsplit('/').next().expect("a key").split('-').next().expect("a session")
}

/// Returns how often a command was called, by `INFO commandstats`.
pub(crate) fn calls(stats: &str, command: &str) -> u64 {
    let line = format!("cmdstat_{command}:calls=");
    let counted = stats.lines().find_map(|counted| counted.strip_prefix(&line));
    counted.map_or(0, |counted| {
        counted.split(',').next().expect("a number").parse().expect("a number")
    })
}

impl<const KIND: usize> Server<KIND> {
    async fn run<T: FromRedisValue>(&self, lines: &str, arguments: &[&str]) -> T {
        run_in(&self.client, &self.namespace, lines, arguments).await
    }
}

#[async_trait]
impl<const KIND: usize> Harness for Server<KIND> {
    async fn start() -> Self {
        Self::start_in(USUAL).await
    }

    async fn start_in(namespace: &str) -> Self {
        let kind = KINDS[KIND];
        let url = match kind {
            Kind::Redis | Kind::Bridged => redis_url(),
            Kind::Valkey => valkey_url(),
            Kind::Sentinel => redis_sentinel_url(),
            Kind::Cluster => redis_cluster_url(),
            Kind::Model => model_url(),
        };
        let server = primary_of(kind, &url, namespace).await;
        let query = match kind {
            // Through proxies clients reach that server, whatever other sentinels would report.
            Kind::Sentinel => "?replicas=2".to_owned(),
            // Other libraries' locks have no namespaces, so each case has its own prefix.
            Kind::Bridged => {
                format!("?bridge=plain&bridge_prefix=bridge:{:016x}:", fastrand::u64(..))
            }
            // Another server of the cluster stores the keys of version 1.
            Kind::Cluster => "?allow_plaintext_credentials=true".to_owned(),
            Kind::Redis | Kind::Valkey | Kind::Model => String::new(),
        };
        let url = if kind == Kind::Bridged { format!("{url}{query}") } else { url };
        let single = Single::new(&server, [LOGIN, &query]).await;
        let (client, heard) = match kind {
            Kind::Sentinel => {
                let (client, heard) = listen(&server).await;
                (client, Some(heard))
            }
            _ => (dial(&format!("{LOGIN}{server}"), Some(OPERATOR)).await, None),
        };
        settle(&client, namespace).await;
        Self { url, namespace: namespace.to_owned(), single, client, heard }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn busy(&self) -> u64 {
        // A separate script confirms what was read.
        if KINDS[KIND] == Kind::Sentinel { 2 } else { 1 }
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        match KINDS[KIND] {
            Kind::Redis | Kind::Valkey | Kind::Model => (true, FailoverBehavior::Blocks),
            Kind::Sentinel => (true, FailoverBehavior::Continues),
            // The replicas receive confirmed writes later.
            Kind::Cluster => (false, FailoverBehavior::MayLoseGrants),
            Kind::Bridged => (false, FailoverBehavior::Blocks),
        }
    }

    fn uncontended(&self) -> u64 {
        if KINDS[KIND] == Kind::Sentinel { 3 } else { 2 }
    }

    /// Only of live sessions. Expired ones are removed by clients that are running.
    async fn keys(&self, namespace: &str) -> Vec<String> {
        let lines = "local found = {}
            for _, member in ipairs(starting(QUEUE, ARGV[3] .. '/')) do
                local entry = read_entry(member)
                if entry and expiry_of(entry.session) > now then
                    found[#found + 1] = { entry.number, key_of(entry) }
                end
            end
            table.sort(found, function(one, other) return one[1] < other[1] end)
            return found";
        let found: Vec<(String, String)> = self.run(lines, &[namespace]).await;
        found.into_iter().map(|(_, key)| key).collect()
    }

    async fn delete_key(&self, key: &str) {
        let (dir, name) = key.rsplit_once('/').expect("a key");
        let ticket = &name[session_of(key).len() + 1..];
        let ticket = ticket.split('.').next().expect("a ticket");
        let lines = "local entry = own(ARGV[4], ARGV[3], ARGV[5])
            if key_of(entry) ~= ARGV[6] then return 0 end
            remove(entry)
            return 1";
        let arguments = [dir, session_of(key), ticket, key];
        let deleted: u64 = self.run(lines, &arguments).await;
        assert_eq!(deleted, 1, "no key {key}");
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        let data = format!("{{distlock:{}}}:data", self.namespace);
        ask(&self.client, cmd("HGET").arg(data).arg(key)).await
    }

    /// Each namespace has its own data, which holders in other namespaces cannot write.
    async fn put_beside(&self, _: &LockGuard, key: &str) {
        let lines = "local note, dir = note_of(ARGV[3])
            redis.call('HSET', DATA, ARGV[3], '')
            redis.call('ZADD', QUEUE, 0, note)
            notify_queue(dir)
            return 1";
        let _: u64 = self.run(lines, &[key]).await;
    }

    async fn erase(&self, key: &str) {
        let lines = "redis.call('HDEL', DATA, ARGV[3])
            redis.call('ZREM', QUEUE, (note_of(ARGV[3])))
            return 1";
        let _: u64 = self.run(lines, &[key]).await;
    }

    /// Each request is a script. Only keepalives and the start of a session increment a beat.
    async fn cost(&self, _: &[i64]) -> Cost {
        let stats: String = ask(&self.client, cmd("INFO").arg("commandstats")).await;
        let keepalives = calls(&stats, "hincrby");
        let events = match &self.heard {
            None => calls(&stats, "publish").cast_signed(),
            Some(heard) => {
                let (count, heard) = &mut *heard.lock().expect("no panic");
                while let Ok(push) = heard.try_recv() {
                    *count += i64::from(push.kind == PushKind::PMessage);
                }
                *count
            }
        };
        Cost { requests: calls(&stats, "evalsha") - keepalives, keepalives, watches: 0, events }
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(self.proxies().await)
    }
}

#[async_trait]
impl<const KIND: usize> Sessions for Server<KIND> {
    async fn session_of(&self, key: &str) -> i64 {
        i64::from_str_radix(session_of(key), 16).expect("a session")
    }

    async fn session_exists(&self, session: i64) -> bool {
        let lines = "return expiry_of(ARGV[3]) > now and 1 or 0";
        self.run::<u64>(lines, &[&format!("{session:x}")]).await == 1
    }

    async fn end_session_of(&self, key: &str) {
        let lines = "end_session(ARGV[3], life_of(ARGV[3])) clear(ARGV[3], 1000000) return 1";
        let _: u64 = self.run(lines, &[session_of(key)]).await;
    }
}

#[async_trait]
impl<const KIND: usize> Servers for Server<KIND> {
    async fn proxies(&self) -> Proxies {
        self.single.proxies(Framing::Resp).await
    }

    /// A request that takes longer than half the TTL is abandoned together with its connection.
    fn bearable_round_trip(&self) -> f64 {
        // With replicas to wait for, a keepalive takes two round trips.
        if KINDS[KIND] == Kind::Sentinel { 0.35 } else { 0.7 }
    }
}
