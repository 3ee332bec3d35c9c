//! A Redis server and its connections: bytes are delivered in order, and faults affect whole
//! connections.

mod links;
mod mirror;
mod operator;

use std::{collections::BTreeMap, fmt, time::Duration};

use distlock_redis_model::{Model, Reply};

pub(crate) use links::Link;

use crate::{
    backend::{redis::Redis, remote::Remote},
    director::CONNECT_TIMEOUT,
    history::What,
    world::World,
};

/// The start of the simulated time, in microseconds since 1970.
const BEGIN: i64 = 1_800_000_000_000_000;

/// How long the server has been running at that time.
const RUNS: i64 = 3_600_000_000;

/// How often a server flushes confirmed writes, unless it does so at once.
const FLUSHES: Duration = Duration::from_secs(1);

pub(crate) struct RedisServer {
    model: Model,
    /// How far its clock is ahead, in microseconds.
    ahead: i64,
    /// The process is down until then.
    down: Duration,
    /// The process stalls until then.
    paused: Duration,
    links: BTreeMap<u64, Link>,
    /// The links of the model's connections.
    ends: BTreeMap<u64, u64>,
    numbers: u64,
    /// The last revision in the mirror.
    mirrored: u64,
    data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer").field("links", &self.links).finish_non_exhaustive()
    }
}

impl RedisServer {
    pub(crate) fn new(everysec: bool) -> Self {
        let mut model = Model::new(BEGIN).expect("a Lua");
        model.set_start(BEGIN - RUNS);
        model.ask(&["CONFIG", "SET", "requirepass", ""]);
        if everysec {
            model.ask(&["CONFIG", "SET", "appendfsync", "everysec"]);
        }
        Self {
            model,
            ahead: 0,
            down: Duration::ZERO,
            paused: Duration::ZERO,
            links: BTreeMap::new(),
            ends: BTreeMap::new(),
            numbers: 0,
            mirrored: 0,
            data: BTreeMap::new(),
        }
    }

    fn tick(&mut self, now: Duration) {
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        self.model.set_time(BEGIN + now + self.ahead);
    }
}

/// Returns the library's adapter for a client of this server.
pub(crate) fn backend(request_timeout: Duration) -> Redis {
    let remote = Remote {
        endpoints: vec!["redis:6379".into()],
        database: None,
        connect_timeout: CONNECT_TIMEOUT,
        request_timeout,
        credentials: None,
        tls: None,
        sasl: false,
        acl: None,
        allow_eviction: false,
        bridge: None,
        allow_plaintext: false,
        replicas: None,
        longest_ttl: Duration::ZERO,
        pooled: false,
        namespace: "/sim".into(),
        service: None,
    };
    Redis::new(remote).expect("a server without TLS")
}

/// The setting of a server that loses no confirmed write.
fn at_once() -> Reply {
    let text = |text: &str| Reply::Text(text.into());
    Reply::Map(vec![(text("appendfsync"), text("always"))])
}

impl World {
    fn redis(&mut self) -> &mut RedisServer {
        self.redis.as_mut().expect("a server of Redis")
    }

    /// Starts a Redis server.
    pub(crate) fn start_redis(&mut self, everysec: bool) {
        self.redis = Some(RedisServer::new(everysec));
        self.scheduler.after(FLUSHES, World::flush_redis);
    }

    /// Makes the server unreachable for the given time.
    fn lose_redis(&mut self, time: Duration) {
        let until = self.now() + time;
        for process in &mut self.processes {
            process.struck = process.struck.max(until);
        }
        self.cut[0] = self.cut[0].max(until);
        self.note(usize::MAX, What::Cut);
    }

    fn flush_redis(&mut self) {
        let now = self.now();
        let redis = self.redis();
        if redis.down <= now && redis.paused <= now {
            redis.model.flush();
        }
        self.scheduler.after(FLUSHES, World::flush_redis);
    }

    /// Ends the server's process; another one starts after the given time.
    pub(crate) fn crash_redis(&mut self, time: Duration) {
        self.lose_redis(time);
        let now = self.now();
        let redis = self.redis();
        redis.down = redis.down.max(now + time);
        redis.tick(now);
        let links: Vec<_> = redis.links.keys().copied().collect();
        links.into_iter().for_each(|link| self.cut_link(link));
        let setting = self.redis().model.ask(&["CONFIG", "GET", "appendfsync"]);
        self.forgets |= setting != at_once();
        self.redis().model.crash();
        self.mirror();
        // The uptime counts from the restart, not from the crash.
        let begun = i64::try_from((now + time).as_micros()).unwrap_or(i64::MAX);
        let redis = self.redis();
        redis.model.set_start(BEGIN + begun + redis.ahead);
    }

    pub(crate) fn pause_redis(&mut self, time: Duration) {
        self.lose_redis(time);
        let now = self.now();
        let redis = self.redis();
        redis.paused = redis.paused.max(now + time);
    }

    /// Changes the clock by this number of microseconds.
    pub(crate) fn set_redis_clock(&mut self, by: i64) {
        let text = format!("{} s", by / 1_000_000).into();
        self.note(usize::MAX, What::Operator("sets the clock by", text));
        self.redis().ahead += by;
    }

    pub(crate) fn set_redis_sync(&mut self) {
        self.note(usize::MAX, What::Operator("sets appendfsync", "always".into()));
        self.redis().model.ask(&["CONFIG", "SET", "appendfsync", "always"]);
    }

    pub(crate) fn heal_redis(&mut self) {
        let now = self.now();
        if let Some(redis) = &mut self.redis {
            redis.down = redis.down.min(now);
            redis.paused = redis.paused.min(now);
        }
    }
}
