//! What a case may do to a store without the library.

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

/// A store, as an operator sees it and with its faults.
#[async_trait]
pub(crate) trait Harness: AsSessions + Send + Sync + 'static {
    /// Connects to the store. Panics with a hint at `docker/up` if its servers are not running.
    async fn start() -> Self
    where
        Self: Sized;

    /// Connects for a case that uses this namespace.
    async fn start_in(_namespace: &str) -> Self
    where
        Self: Sized,
    {
        Self::start().await
    }

    fn url(&self) -> String;

    /// Returns `true` if all cases share one store, whose counters cover the requests of all cases.
    fn is_shared() -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Returns the shortest TTL that the store grants and that a busy machine can keep alive.
    fn min_ttl(&self) -> Duration {
        Duration::from_secs(2)
    }

    /// Returns how long after the TTL the store may take to remove a crashed client's keys.
    fn grace(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// Returns whether locks stay exclusive despite server failures, and what the loss of the
    /// primary means, as the tests' servers are configured.
    fn promises(&self) -> (bool, FailoverBehavior) {
        (true, FailoverBehavior::Continues)
    }

    /// Returns `true` if a waiter has a key. Otherwise waiters poll, and nothing shows that a
    /// waiter has started.
    fn queues(&self) -> bool {
        true
    }

    /// Returns to how many servers a client is connected at a time.
    fn at_once(&self) -> f64 {
        1.0
    }

    /// Returns `true` if the store notifies clients of changes. Otherwise clients poll, and there
    /// is no event to count or lose.
    fn notifies(&self) -> bool {
        true
    }

    /// Returns how many requests per second a session's waiters send at most by polling.
    fn looks(&self) -> u64 {
        0
    }

    /// Returns the number of requests of an uncontended lock and its unlock.
    fn uncontended(&self) -> u64 {
        2
    }

    /// Returns the number of requests of a `try_lock` on a held lock.
    fn busy(&self) -> u64 {
        1
    }

    /// Returns the keys of all holders and waiters.
    async fn keys(&self, namespace: &str) -> Vec<String>;

    async fn delete_key(&self, key: &str);

    /// Returns the current value of a guarded write's key.
    async fn data(&self, key: &str) -> Option<Vec<u8>>;

    /// Writes an empty value as a holder in another namespace can. `guard` belongs to one.
    async fn put_beside(&self, guard: &LockGuard, key: &str) {
        guard.put(key, "").await.expect("written");
    }

    /// Deletes the data of a guarded write, and what the store has created to hold it. The data may
    /// be absent.
    async fn erase(&self, key: &str);

    /// Waits until the store has removed what it keeps of an unused namespace.
    async fn forget(&self, _namespace: &str) {}

    /// Returns what the store has done so far for these sessions. Differences are meaningful only
    /// while nothing else runs.
    async fn cost(&self, sessions: &[i64]) -> Cost;

    /// A way to the store that can be cut.
    async fn link(&self) -> Arc<dyn Link>;

    /// Acquires a lock in a process that can be killed.
    async fn lock_elsewhere(&self, job: Job) -> Box<dyn Elsewhere> {
        Box::new(Process::start(&self.url(), &job))
    }
}

/// A store whose servers know which session a key belongs to.
#[async_trait]
pub(crate) trait Sessions: Harness {
    /// Returns the session that a key belongs to.
    async fn session_of(&self, key: &str) -> i64;

    /// Returns `true` as long as the store knows the session.
    async fn session_exists(&self, session: i64) -> bool;

    /// Ends the session of this key as if its TTL had expired.
    async fn end_session_of(&self, key: &str);
}

/// A store that may have sessions, for cases that also run without them.
pub(crate) trait AsSessions {
    fn sessions(&self) -> Option<&dyn Sessions>;
}

impl<S: Sessions> AsSessions for S {
    fn sessions(&self) -> Option<&dyn Sessions> {
        Some(self)
    }
}

/// A store that is reached over a network.
#[async_trait]
pub(crate) trait Servers: Harness {
    /// Starts a proxy for each of the servers.
    async fn proxies(&self) -> Proxies;

    /// Returns how long a round trip may be without loss of a held lock, in keepalive intervals of
    /// a third of the TTL. Actual round trips vary between half of it and one and a half times it.
    fn bearable_round_trip(&self) -> f64;
}

/// A store of several servers that form a cluster.
#[async_trait]
pub(crate) trait Members: Servers + Sessions {
    /// Returns which store it is, and its servers.
    fn network(&self) -> (Backend, &[SocketAddr]);

    /// Returns the servers of the cluster by their names in docker/'s scripts.
    fn servers(&self) -> Vec<(&'static str, SocketAddr)> {
        let (backend, servers) = self.network();
        backend.services().into_iter().zip(servers.iter().copied()).collect()
    }

    /// Returns `true` if this server replies and is part of the quorum.
    async fn serves(&self, server: SocketAddr) -> bool;
}

/// What the store has done, by its own counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Reads and writes; on ZooKeeper keepalives and pings, too.
    pub(crate) requests: u64,
    /// Keepalives, where the store counts them separately.
    pub(crate) keepalives: u64,
    /// Watches created, where the store does not count them as requests.
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

    /// Cuts the connection between the store and this guard's client, which must use this link.
    fn cut_off(&self, guard: &LockGuard) {
        self.cut_off_key(guard.key());
    }

    fn cut_off_key(&self, key: &str);

    /// With `false`, all traffic of this link stops. With `true`, it resumes. In memory that
    /// affects the whole space.
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

/// The job of a separate process.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ttl: Duration,
    /// How many tasks wait for the lock and release it when granted. With 0, one task acquires the
    /// lock and keeps it.
    pub(crate) crowd: usize,
    /// How many locks the process holds and writes under: once when all are granted, and again when
    /// it wakes. With 0, it does not write.
    pub(crate) writes: usize,
    /// `true` for a process that holds no lock until it has been stopped for a while, and acquires
    /// it on waking.
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

    /// Returns the key that the process writes under one of its locks.
    pub(crate) fn key(&self, lock: usize) -> String {
        format!("/data{}/{}-{lock}", self.namespace, self.name)
    }

    pub(crate) async fn client(&self, url: &str) -> Client {
        let builder = builder(url).namespace(&self.namespace).session_ttl(self.ttl);
        builder.connect().await.expect("the job's client connects")
    }
}

/// A process that acquires a lock and keeps it.
#[async_trait]
pub(crate) trait Elsewhere: Send {
    /// Waits until the process has the lock, and returns its token.
    async fn granted(&mut self) -> u64;

    /// Kills the process, and returns when.
    async fn crash(self: Box<Self>) -> Instant;
}
