//! What a process is started for. Travels as JSON on its command line.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backend::Backend;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Subject {
    /// The two writes that any lock needs, and no lock.
    Floor,
    /// The store's own, or its client's: etcd's Lock RPC, through etcd-client; zookeeper-client's
    /// `Client::lock`; `pg_advisory_lock`; `GET_LOCK`.
    Peer,
    /// Go's clientv3/concurrency, in a container.
    Go,
    /// Curator, in a container.
    Curator,
    /// A row, key or node that only one can make; the others try again every 50 ms.
    UniqueKey,
    /// The same every 5 ms.
    Often,
    /// ShedLock's statements; who does not get it tries again every 50 ms.
    ShedLock,
    /// redis-py's `Lock`: `SET NX PX` every 0.1 s.
    RedisPy,
    /// rslock's: the same after sleeps of 0 to 0.2 s, and what failed is given back each time. On
    /// several servers it needs more than half of them, which is Redlock as it was first told.
    Rslock,
    /// Redisson's `RLock`: who waits is told by a channel, with all others.
    Redisson,
    /// The scripts of an uncontended lock of ours, by the client crate alone.
    Scripts,
    Distlock,
}

impl Subject {
    /// Whom distlock is measured beside.
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

    /// The program in the container of docker/bench that it is, if it is none of this one's.
    pub(crate) fn program(self) -> Option<&'static str> {
        match self {
            Self::Go => Some("go-mutex"),
            Self::Curator => Some("curator-mutex"),
            _ => None,
        }
    }

    /// Who looks again and again whether the lock is free waits so long between two tries.
    pub(crate) fn pause(self) -> Option<Duration> {
        match self {
            Self::UniqueKey | Self::ShedLock => Some(Duration::from_millis(50)),
            Self::Often => Some(Duration::from_millis(5)),
            Self::RedisPy => Some(Duration::from_millis(100)),
            // On average, for one whose sleep is of any length.
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

    /// What it is called in a picture.
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
    /// One who is measured.
    Subject(Task),
    /// Clients of which each has a lock.
    Sessions(Sessions),
    /// Writes to other keys of etcd, so many a second.
    Load { servers: Vec<String>, per_second: u32 },
    /// Carries what comes to the servers and back, so late each way.
    Proxy { servers: Vec<String>, delay_ms: u64 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) backend: Backend,
    pub(crate) subject: Subject,
    /// Addresses, where it connects to.
    pub(crate) servers: Vec<String>,
    pub(crate) namespace: String,
    pub(crate) work: Work,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// A lock and an unlock, over and over.
    Pairs(Pairs),
    /// Each client for itself.
    Fleet(Fleet),
    /// So many waiters queue behind a holder and then pass the lock on.
    Queue { waiters: usize, patience_ms: u64 },
    /// So many locks of different names, held until told to release them.
    Held { locks: usize },
    /// One after the other joins the queue and leaves it again, so many times.
    Join { joins: usize },
    /// A lock and an unlock each so many milliseconds, until told that this is enough.
    Paced { every_ms: u64 },
}

/// So many clients, each with a session and a lock of its own.
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
    /// Single writes to be timed before.
    pub(crate) raw_writes: usize,
    /// Tell each turn's beginning and end.
    pub(crate) stamps: bool,
    pub(crate) primitive: Primitive,
}

/// What is taken and given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Primitive {
    Mutex,
    /// A read-write lock, to write.
    Write,
    /// One permit of four.
    Semaphore,
    /// An election, by a campaign and a resignation.
    Election,
}

impl Primitive {
    /// Whether one at a time has it.
    pub(crate) fn is_exclusive(self) -> bool {
        self != Self::Semaphore
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Names {
    /// All tasks contend for one.
    One,
    /// Each task has its own.
    Each,
}

/// Clients that contend for one name, each of them for itself, and hold it for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fleet {
    pub(crate) contenders: usize,
    pub(crate) hold_ms: u64,
    /// Until all of them wait.
    pub(crate) warmup_ms: u64,
    pub(crate) run_ms: u64,
}

/// The lock that all contend for.
pub(crate) const NAME: &str = "lock";
