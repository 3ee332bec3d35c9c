//! The harness of Redis and Valkey: an operator with a connection of its own, who may do all, and
//! reads what the server counts of each command.

use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use distlock::{FailoverBehavior, LockGuard};
use distlock_redis_model::Front;
use distlock_testkit::{
    framing::Framing,
    proxies::Proxies,
    servers::{redis_cluster_url, redis_sentinel_url, redis_url, valkey_url},
};
use redis::{Cmd, FromRedisValue, PushInfo, PushKind, aio::MultiplexedConnection, cmd};
use tokio::{sync::mpsc, time::timeout};

use super::{Cost, Harness, Link, SOON, Servers, Sessions, own::Image, single::Single};

/// What stands before the server in a URL.
pub(crate) const LOGIN: &str = "redis://app:apppw@";

pub(crate) const IMAGE: &Image = &Image { like: "redis", port: 6379, around: [LOGIN, ""] };

/// What runs an operator's command on such a server. A server that does not let clients in yet says
/// nothing.
pub(crate) const PROGRAM: [&str; 4] =
    ["sh", "-c", "redis-cli --user default --pass root --no-auth-warning \"$@\" || :", "-"];

/// User and password of docker/'s operator.
pub(crate) const OPERATOR: (&str, &str) = ("default", "root");

/// Held by tests of servers that keep nothing: all clients log to one place.
pub(crate) static FORGETTING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What scripts of the library's begin with.
const LIBRARY: [&str; 4] = [
    include_str!("../../../src/backend/redis/scripts/base.lua"),
    include_str!("../../../src/backend/redis/scripts/entries.lua"),
    include_str!("../../../src/backend/redis/scripts/sessions.lua"),
    include_str!("../../../src/backend/redis/scripts/gates.lua"),
];

/// How Redis or Valkey is set up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Redis,
    Valkey,
    /// A primary with two replicas, both of which have to have what counts, by its sentinels.
    Sentinel,
    /// The server of a cluster that has our slot.
    Cluster,
    /// Redis with a bridge to others' locks, of whom there are none.
    Bridged,
    /// No server: the model of one, in this process.
    Model,
}

const KINDS: [Kind; 6] =
    [Kind::Redis, Kind::Valkey, Kind::Sentinel, Kind::Cluster, Kind::Bridged, Kind::Model];

/// One of them, by its number.
pub(crate) struct Server<const KIND: usize> {
    url: String,
    namespace: String,
    single: Single,
    client: MultiplexedConnection,
    /// What its clients are sent, where sentinels publish what the server counts, too.
    heard: Option<Heard>,
}

/// How many messages clients were sent, and what comes.
type Heard = Mutex<(i64, mpsc::UnboundedReceiver<PushInfo>)>;

pub(crate) type Redis = Server<0>;
pub(crate) type Valkey = Server<1>;
pub(crate) type Sentinel = Server<2>;
pub(crate) type Cluster = Server<3>;
pub(crate) type Bridged = Server<4>;
pub(crate) type Model = Server<5>;

/// Where the model of a server is.
fn model_url() -> String {
    static MODEL: LazyLock<Front> = LazyLock::new(|| Front::start().expect("a port"));
    format!("{LOGIN}{}", MODEL.address)
}

/// Which server to go to, of a URL that names others.
async fn primary_of(kind: Kind, url: &str, namespace: &str) -> String {
    let (_, hosts) = url.rsplit_once('@').expect("a user");
    let first = hosts.split([',', '/', '?']).next().expect("a server");
    match kind {
        Kind::Redis | Kind::Valkey | Kind::Bridged | Kind::Model => first.to_owned(),
        Kind::Sentinel => {
            let client = redis::Client::open(format!("redis://{first}")).expect("a URL");
            let asked = client.get_multiplexed_async_connection().await;
            let sentinel = asked.expect("sentinels are up: see docker/up redis-sentinel");
            let mut asking = cmd("SENTINEL");
            asking.arg("GET-MASTER-ADDR-BY-NAME").arg("main");
            let (host, port): (String, u16) = ask(&sentinel, &asking).await;
            format!("{host}:{port}")
        }
        Kind::Cluster => {
            let mut client = dial(&format!("{LOGIN}{first}"), Some(OPERATOR)).await;
            match cmd("EXISTS").arg(meta(namespace)).query_async::<u64>(&mut client).await {
                Ok(_) => first.to_owned(),
                Err(moved) => {
                    let detail = moved.detail().expect("it is elsewhere");
                    detail.rsplit(' ').next().expect("a server").to_owned()
                }
            }
        }
    }
}

/// Hears what is sent to all clients: before the reply to whatever is asked later.
async fn listen(server: &str) -> (MultiplexedConnection, Heard) {
    let (user, password) = OPERATOR;
    let url = format!("redis://{user}:{password}@{server}?protocol=resp3");
    let (sender, heard) = mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let client = redis::Client::open(url).expect("a URL");
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let mut client = connecting.await.expect("it is up");
    client.psubscribe("{distlock:*").await.expect("it listens");
    (client, Mutex::new((0, heard)))
}

/// A connection to the server that has the keys, by a URL that may name others.
pub(crate) async fn dial_any(url: &str, namespace: &str) -> MultiplexedConnection {
    let kind = if url.starts_with("redis+") { Kind::Sentinel } else { Kind::Cluster };
    let server = primary_of(kind, url, namespace).await;
    dial(&format!("{LOGIN}{server}"), None).await
}

/// A connection of nobody's but the caller's: as the user of the URL, unless another one is named.
pub(crate) async fn dial(url: &str, user: Option<(&str, &str)>) -> MultiplexedConnection {
    let (scheme, rest) = url.split_once("://").expect("a scheme");
    let (login, server) = rest.rsplit_once('@').expect("a user");
    let login = user.map_or(login.to_owned(), |(user, password)| format!("{user}:{password}"));
    // By way of several proxies it is the same server.
    let server = server.split(',').next().expect("a server");
    let client = redis::Client::open(format!("{scheme}://{login}@{server}")).expect("a URL");
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connecting = client.get_multiplexed_async_connection_with_config(&config);
    let connected = timeout(SOON, connecting).await.expect("it answers");
    connected.expect("Redis is up: see docker/up")
}

/// What a command of the operator's tells.
pub(crate) async fn ask<T: FromRedisValue>(client: &MultiplexedConnection, command: &Cmd) -> T {
    let mut client = client.clone();
    let reply = timeout(SOON, command.query_async(&mut client)).await.expect("it answers");
    reply.unwrap_or_else(|error| panic!("{error}"))
}

/// Run by a server's own `EVAL`, it makes an empty store one that was begun there: otherwise a
/// server that was just started is taken for one that has lost everything, and grants nothing for a
/// while.
/// For tests which do not have that while.
pub(crate) const SETTLE: &str = "local info = redis.call('INFO', 'server') \
    .. redis.call('INFO', 'replication') \
    local server = string.match(info, 'run_id:(%x+)') .. '/' \
    .. string.match(info, 'master_replid:(%x+)') \
    redis.call('HSETNX', KEYS[1], 'version', '2') \
    redis.call('HSETNX', KEYS[1], 'server', server) \
    redis.call('HSETNX', KEYS[1], 'keeps', '1') \
    return 'ready'";
/// Its one key, of the usual namespace.
pub(crate) const META: &str = "{distlock:/distlock}:meta";
pub(crate) const SESSIONS: &str = "{distlock:/distlock}:sessions";
pub(crate) const QUEUE: &str = "{distlock:/distlock}:queue";
/// The namespace of a client that names none.
pub(crate) const USUAL: &str = "/distlock";

fn meta(namespace: &str) -> String {
    format!("{{distlock:{namespace}}}:meta")
}

pub(crate) async fn settle(client: &MultiplexedConnection, namespace: &str) {
    let reply: String = ask(client, cmd("EVAL").arg(SETTLE).arg(1).arg(meta(namespace))).await;
    assert_eq!(reply, "ready");
}

/// Runs some lines after the library's own, in the usual namespace.
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
    // No session, and none ends.
    call.arg("none").arg("").arg(arguments);
    ask(client, &call).await
}

fn session_of(key: &str) -> &str {
    key.rsplit('/').next().expect("a key").split('-').next().expect("a session")
}

/// How often a command was called, by `INFO commandstats`.
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
            // By way of proxies it is that server, whatever others would say.
            Kind::Sentinel => "?replicas=2".to_owned(),
            // Others' locks know no namespaces: each case has its own, all the same.
            Kind::Bridged => {
                format!("?bridge=plain&bridge_prefix=bridge:{:016x}:", fastrand::u64(..))
            }
            // Another server has the keys of version 1.
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
        // What is read is confirmed by a script of its own.
        if KINDS[KIND] == Kind::Sentinel { 2 } else { 1 }
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        match KINDS[KIND] {
            Kind::Redis | Kind::Valkey | Kind::Model => (true, FailoverBehavior::Blocks),
            Kind::Sentinel => (true, FailoverBehavior::Continues),
            // Its replicas get what is confirmed later.
            Kind::Cluster => (false, FailoverBehavior::MayLoseGrants),
            Kind::Bridged => (false, FailoverBehavior::Blocks),
        }
    }

    fn uncontended(&self) -> u64 {
        if KINDS[KIND] == Kind::Sentinel { 3 } else { 2 }
    }

    /// Of sessions that live: what the others have left is removed while clients live.
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

    /// Each namespace has data of its own, which the other one's holders cannot write.
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

    /// Each request is a script, and a keepalive alone draws a beat, but for a session's begin.
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

    /// A request that takes longer than half the TTL is given up, and its connection with it.
    fn bearable_round_trip(&self) -> f64 {
        // A keepalive is two of them, where replicas are waited for.
        if KINDS[KIND] == Kind::Sentinel { 0.35 } else { 0.7 }
    }
}
