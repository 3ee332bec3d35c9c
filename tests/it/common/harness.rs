//! What a case may do to a store behind the library's back.

use std::{
    net::SocketAddr,
    ops::Sub,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use distlock::{Client, FailoverBehavior, LockGuard};
use distlock_testkit::{backend::Backend, proxies::Proxies, proxy::Mode};

use super::{Case, builder, process::Process};

/// The operator's side of a store, and its faults.
#[async_trait]
pub(crate) trait Harness: AsSessions + Send + Sync + 'static {
    /// Panics, naming `docker/up`, if the servers it needs are not there.
    async fn start() -> Self
    where
        Self: Sized;

    /// For a case that has this namespace of the store.
    async fn start_in(_namespace: &str) -> Self
    where
        Self: Sized,
    {
        Self::start().await
    }

    fn url(&self) -> String;

    /// Whether all cases share one store, which counts the requests of all of them.
    fn is_shared() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// The shortest session that the store grants and that a busy machine can keep alive.
    fn min_ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// How much later than its TTL the store may let go of a dead session's keys.
    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Whether locks are exclusive whatever becomes of servers, and what the loss of the one that
    /// decides means, as the tests' servers are set up.
    fn promises(&self) -> (bool, FailoverBehavior) {
        (true, FailoverBehavior::Continues)
    }

    /// Whether one that waits has a key. Otherwise it asks again and again, and nothing tells that
    /// it has begun to.
    fn queues(&self) -> bool {
        true
    }

    /// To how many servers a client is connected at a time.
    fn at_once(&self) -> f64 {
        1.0
    }

    /// Whether clients are told, unasked, what happens to a key. If not they look, and there is no
    /// event that could be counted, or lost.
    fn notifies(&self) -> bool {
        true
    }

    /// How many requests a session's waiters make at most in a second, by looking.
    fn looks(&self) -> u64 {
        0
    }

    /// Requests of an uncontended lock and its unlock.
    fn uncontended(&self) -> u64 {
        2
    }

    /// Requests of a `try_lock` on a held lock.
    fn busy(&self) -> u64 {
        1
    }

    /// Every key that somebody holds or awaits a lock by.
    async fn keys(&self, namespace: &str) -> Vec<String>;

    async fn delete_key(&self, key: &str);

    /// What a guarded write has put there, as of now.
    async fn data(&self, key: &str) -> Option<Vec<u8>>;

    /// Writes an empty value as a holder in another namespace can, which this guard is one of.
    async fn put_beside(&self, guard: &LockGuard, key: &str) {
        guard.put(key, "").await.expect("written");
    }

    /// Deletes such data, and what the store has made to keep them in. Absent is fine.
    async fn erase(&self, key: &str);

    /// Waits until the store has put away whatever it keeps of a namespace that nobody uses.
    async fn forget(&self, _namespace: &str) {}

    /// What the store has done so far for these sessions. Only to be compared while nothing else
    /// runs.
    async fn cost(&self, sessions: &[i64]) -> Cost;

    /// A way to the store that can be cut.
    async fn link(&self) -> Arc<dyn Link>;

    /// Takes a lock in a process that can be killed.
    async fn lock_elsewhere(&self, job: Job) -> Box<dyn Elsewhere> {
        Box::new(Process::start(&self.url(), &job))
    }
}

/// A store whose servers know which session a key belongs to.
#[async_trait]
pub(crate) trait Sessions: Harness {
    /// The session that a key belongs to.
    async fn session_of(&self, key: &str) -> i64;

    /// Returns `true` as long as the store knows the session.
    async fn session_exists(&self, session: i64) -> bool;

    /// Ends the session of this key as if its TTL had run out.
    async fn end_session_of(&self, key: &str);
}

/// For cases that stores without sessions pass, too.
pub(crate) trait AsSessions {
    fn sessions(&self) -> Option<&dyn Sessions>;
}

impl<S: Sessions> AsSessions for S {
    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

/// A store that has servers: there is a network in between.
#[async_trait]
pub(crate) trait Servers: Harness {
    /// Its servers, each behind a proxy of its own.
    async fn proxies(&self) -> Proxies;

    /// How long a round trip a held lock bears, when it takes half as long at one time and half as
    /// long again at another: in intervals between keepalives, which are a third of the TTL.
    fn bearable_round_trip(&self) -> f64;
}

/// A cluster of servers that are members of each other's.
#[async_trait]
pub(crate) trait Members: Servers + Sessions {
    /// Which store it is, and its servers.
    fn network(&self) -> (Backend, &[SocketAddr]);

    /// The servers of the cluster, by the names that docker/'s scripts know them by.
    fn servers(&self) -> Vec<(&'static str, SocketAddr)> {
        let (backend, servers) = self.network();
        backend.services().into_iter().zip(servers.iter().copied()).collect()
    }

    /// Whether this server answers, with the cluster behind it.
    async fn serves(&self, server: SocketAddr) -> bool;
}

/// What the store has done, by its own counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Reads and writes; on ZooKeeper keepalives and pings, too.
    pub(crate) requests: u64,
    /// Keepalives, where they are told apart.
    pub(crate) keepalives: u64,
    /// Watches asked for, where they are no requests.
    pub(crate) watches: u64,
    /// Watch events sent to clients.
    pub(crate) events: i64,
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            keepalives: self.keepalives - earlier.keepalives,
            watches: self.watches - earlier.watches,
            events: self.events - earlier.events,
        }
    }
}

/// A way to the store that can be cut.
#[async_trait]
pub(crate) trait Link: Send + Sync {
    fn url(&self) -> String;

    /// From now on neither the store nor this guard's client, which must have come this way, hears
    /// the other any more.
    fn cut_off(&self, guard: &LockGuard) {
        self.cut_off_key(guard.key());
    }

    fn cut_off_key(&self, key: &str);

    /// With `false` everything stops that goes this way, and goes on with `true`. In memory that is
    /// everything at all.
    fn set_reachable(&self, reachable: bool);
}

impl Link for Proxies {
    fn url(&self) -> String {
        self.url()
    }

    fn cut_off_key(&self, _: &str) {
        self.set_reachable(false);
    }

    fn set_reachable(&self, reachable: bool) {
        self.set(if reachable { &Mode::Pass } else { &Mode::Blackhole });
    }
}

/// What a process of its own is to do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
    /// How many stand in the lock's queue and let go once they are granted, if not one who keeps
    /// it.
    pub(crate) crowd: usize,
    /// How many locks it holds instead, under which it writes: once they are all granted, and as
    /// soon as it wakes.
    pub(crate) writes: usize,
    /// Whether it has nothing until it was stopped for a while, and takes the lock as it wakes.
    pub(crate) sleeps: bool,
}

impl Job {
    pub(crate) fn new<S: Harness + ?Sized>(t: &Case<S>, name: &str, ttl: Duration) -> Self {
        Self {
            namespace: t.namespace.clone(),
            name: name.to_owned(),
            ttl,
            crowd: 0,
            writes: 0,
            sleeps: false,
        }
    }

    /// What it writes to under one of its locks.
    pub(crate) fn key(&self, lock: usize) -> String {
        format!("/data{}/{}-{lock}", self.namespace, self.name)
    }

    pub(crate) async fn client(&self, url: &str) -> Client {
        let builder = builder(url).namespace(&self.namespace).session_ttl(self.ttl);
        builder.connect().await.expect("the job's client connects")
    }
}

/// A process that takes a lock and keeps it.
#[async_trait]
pub(crate) trait Elsewhere: Send {
    /// Waits until it has the lock; gives its token.
    async fn granted(&mut self) -> u64;

    /// Kills it. Gives the moment.
    async fn crash(self: Box<Self>) -> Instant;
}
