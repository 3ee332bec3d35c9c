//! The role of a process, passed as JSON on its command line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;

/// The subjects of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Subject {
    /// The two writes that any lock needs, without a lock.
    Floor,
    /// The store's own lock or its client's: etcd's Lock RPC, through etcd-client;
    /// zookeeper-client's `Client::lock`; `pg_advisory_lock`; `GET_LOCK`.
    Peer,
    /// Go's clientv3/concurrency, in a container.
    Go,
    /// Curator, in a container.
    Curator,
    /// A row, key or node that only one client can create; the others retry every 50 ms.
    UniqueKey,
    /// The same as `UniqueKey`, every 5 ms.
    Often,
    /// ShedLock's statements; waiters retry every 50 ms.
    ShedLock,
    /// redis-py's `Lock`: `SET NX PX` every 0.1 s.
    RedisPy,
    /// rslock's loop: the same after sleeps of 0 to 0.2 s; each failed attempt is undone. On
    /// several servers it needs more than half of them, which is the original Redlock.
    Rslock,
    /// Redisson's `RLock`: waiters are all notified through a channel.
    Redisson,
    /// The scripts of an uncontended distlock lock, sent by the client crate alone.
    Scripts,
    Distlock,
}

impl Subject {
    /// Returns the peers that distlock is compared with.
    pub(crate) fn peers(backend: Backend) -> &'static [Self] {
        match backend {
            Backend::Etcd => &[Self::Peer, Self::Go],
            Backend::ZooKeeper => &[Self::Peer, Self::Curator],
            Backend::Postgres | Backend::Mysql => &[Self::Peer, Self::UniqueKey, Self::ShedLock],
            Backend::Redis => &[Self::RedisPy, Self::Rslock, Self::Redisson],
            Backend::Redlock => &[Self::Rslock],
            _ => &[],
        }
    }

    /// Returns its program in the container of docker/bench, if it is not part of this one.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self {
            Self::Go => Some("go-mutex"),
            Self::Curator => Some("curator-mutex"),
            _ => None,
        }
    }

    /// Returns how long a polling client waits between two attempts.
    pub(crate) fn pause(self) -> Option<Duration> {
        match self {
            Self::UniqueKey | Self::ShedLock => Some(Duration::from_millis(50)),
            Self::Often => Some(Duration::from_millis(5)),
            Self::RedisPy => Some(Duration::from_millis(100)),
            // On average, because its sleep varies.
            Self::Rslock => Some(Duration::from_millis(67)),
            Self::Floor
            | Self::Peer
            | Self::Go
            | Self::Curator
            | Self::Redisson
            | Self::Scripts
            | Self::Distlock => None,
        }
    }

    pub(crate) fn name(self, backend: Backend) -> &'static str {
        match (self, backend) {
            (Self::Floor, _) => "floor",
            (Self::Peer, Backend::Etcd) => "etcd Lock RPC",
            (Self::Peer, Backend::ZooKeeper) => "zookeeper-client lock",
            (Self::Peer, Backend::Postgres) => "pg_advisory_lock",
            (Self::Peer, Backend::Mysql) => "GET_LOCK",
            (Self::Peer, _) => "none",
            (Self::Go, _) => "Go concurrency.Mutex",
            (Self::Curator, _) => "Curator InterProcessMutex",
            (Self::UniqueKey, Backend::Etcd) => "put if absent, 50 ms",
            (Self::Often, Backend::Etcd) => "put if absent, 5 ms",
            (Self::UniqueKey, Backend::ZooKeeper) => "create, 50 ms",
            (Self::Often, Backend::ZooKeeper) => "create, 5 ms",
            (Self::UniqueKey, Backend::Redis) => "SET NX, 50 ms",
            (Self::Often, Backend::Redis) => "SET NX, 5 ms",
            (Self::UniqueKey, _) => "unique key, 50 ms",
            (Self::Often, _) => "unique key, 5 ms",
            (Self::ShedLock, _) => "ShedLock, 50 ms",
            (Self::RedisPy, _) => "redis-py's loop",
            (Self::Rslock, _) => "rslock's loop",
            (Self::Redisson, _) => "Redisson's channel",
            (Self::Scripts, _) => "our scripts alone",
            (Self::Distlock, _) => "distlock",
        }
    }

    /// Returns the name in a plot.
    pub(crate) fn label(self, backend: Backend) -> &'static str {
        match (self, backend) {
            (Self::Peer, Backend::Etcd) => "Lock RPC",
            (Self::Peer, Backend::ZooKeeper) => "zookeeper-client",
            (Self::Go, _) => "Go's Mutex",
            (Self::Curator, _) => "Curator",
            (Self::UniqueKey, _) => "every 50 ms",
            (Self::Often, _) => "every 5 ms",
            (Self::ShedLock, _) => "ShedLock",
            (Self::RedisPy, _) => "redis-py",
            (Self::Rslock, _) => "rslock",
            (Self::Redisson, _) => "Redisson",
            _ => self.name(backend),
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// A measured subject.
    Subject(Task),
    /// Clients with a lock each.
    Sessions(Sessions),
    /// Writes to other keys of etcd, at this rate.
    Load { servers: Vec<String>, per_second: u32 },
    /// Forwards to the servers and back, with this delay each way.
    Proxy { servers: Vec<String>, delay_ms: u64 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) backend: Backend,
    pub(crate) subject: Subject,
    /// The addresses that it connects to.
    pub(crate) servers: Vec<String>,
    pub(crate) namespace: String,
    pub(crate) work: Work,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Repeated locks and unlocks.
    Pairs(Pairs),
    /// Each client independently.
    Fleet(Fleet),
    /// A number of waiters queue behind a holder and are granted the lock in turn.
    Queue { waiters: usize, patience_ms: u64 },
    /// A number of locks with different names, held until the process is ordered to release them.
    Held { locks: usize },
    /// Clients join the queue and leave it one after the other, this number of times.
    Join { joins: usize },
    /// A lock and an unlock at this interval, until the process is ordered to stop.
    Paced { every_ms: u64 },
}

/// A number of clients, each with its own session and lock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Sessions {
    pub(crate) backend: Backend,
    pub(crate) servers: Vec<String>,
    pub(crate) namespace: String,
    /// The number of the first one, for the name of its lock.
    pub(crate) from: usize,
    pub(crate) count: usize,
}

/// Tasks that lock and unlock in a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pairs {
    pub(crate) tasks: usize,
    pub(crate) names: Names,
    pub(crate) warmup_ms: u64,
    pub(crate) run_ms: u64,
    /// Single writes to be timed first.
    pub(crate) raw_writes: usize,
    /// Report the beginning and the end of each turn.
    pub(crate) stamps: bool,
    pub(crate) primitive: Primitive,
}

/// The acquired primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Primitive {
    Mutex,
    /// A read-write lock, acquired to write.
    Write,
    /// One permit of four.
    Semaphore,
    /// An election, by a campaign and a resignation.
    Election,
}

impl Primitive {
    /// Returns `true` if there is one holder at a time.
    pub(crate) fn is_exclusive(self) -> bool {
        self != Self::Semaphore
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Names {
    /// All tasks contend for one name.
    One,
    /// Each task has its own name.
    Each,
}

/// Clients that contend for one name independently, and hold it for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fleet {
    pub(crate) contenders: usize,
    pub(crate) hold_ms: u64,
    /// Until all of them wait.
    pub(crate) warmup_ms: u64,
    pub(crate) run_ms: u64,
}

/// The name that all clients contend for.
pub(crate) const NAME: &str = "lock";
