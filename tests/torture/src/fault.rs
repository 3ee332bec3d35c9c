//! The kinds of faults.

use std::{fmt, time::Duration};

use distlock_testkit::store::Store;

/// A server's role in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Follower,
}

/// A fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Frozen, and resumed later.
    Pause,
    /// Killed and restarted.
    Kill,
    /// Stopped cleanly and restarted.
    Stop,
    /// Killed, and restarted without its data.
    Wipe,
    /// Killed, and restarted without its latest writes.
    Rewind,
    /// Cut off from the other servers, and not from its clients.
    Cut,
    /// The primary is cut off from its replicas only.
    Part,
    /// Three of ten packets to it are lost.
    Loss,
    /// Its links are slow.
    Slow,
    /// Its disk hangs: writes to its log wait.
    Hang,
}

/// A trouble of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is read-only.
    ReadOnly,
    /// An operator locks rows of distlock's tables for long.
    LockWait,
    /// Operators lock such rows in any order.
    Deadlocks,
    /// Its disk is full.
    DiskFull,
    /// Its clock is set by an hour, and back.
    Clock,
    /// The server closes connections.
    Sever,
    /// The standby is promoted, and the old primary keeps running for a while.
    Promotion,
    /// Operators write to rows that clients write to, through all servers.
    Conflicts,
    /// It replies to no client, or to no writer.
    ClientPause,
    /// It runs a long script.
    Busy,
    /// It repeatedly flushes all scripts.
    ScriptFlush,
    /// Its memory is full.
    MemoryFull,
    /// It closes connections whose output buffer exceeds a small limit.
    Buffers,
    /// It becomes a replica, and a primary again.
    Demotion,
    /// All clients' connections end at the same time.
    Reconnects,
    /// A backup is made.
    Backup,
    /// It flushes once a second for a while.
    Fsync,
    /// A client with very many locks crashes.
    DeadEntries,
    /// The slot of the locks moves to another server.
    Migration,
    /// The primary is down until another one is elected.
    Failover,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    // Faults of the network between a worker and the servers.
    Blackhole,
    ToServer,
    ToClient,
    Swallow,
    Drop,
    Delay,
    LateRequests,
    Refuse,
    Flap,
    // Faults of a worker.
    Sigstop,
    SigstopIdle,
    SigstopBeforeLock,
    Sigkill,
    Block,
    // Faults of the servers.
    Server(Deed, Role),
    PauseQuorum,
    /// One server is killed and another one is cut off at the same time.
    KillCut,
    /// All servers.
    Servers(Deed),
    Database(Trouble),
    // Faults of the queues.
    Operator,
    Strangers,
}

use Deed::{Cut, Hang, Kill, Loss, Part, Pause, Rewind, Slow, Stop, Wipe};
use Kind::{Database, Server, Servers};
use Role::{Follower, Leader};
use Trouble::{
    Backup, Buffers, Busy, ClientPause, Clock, Conflicts, DeadEntries, Deadlocks, Demotion,
    DiskFull, Failover, Fsync, LockWait, MemoryFull, Migration, Promotion, ReadOnly, Reconnects,
    ScriptFlush, Sever,
};

impl Kind {
    pub(crate) const ALL: [(Self, &'static str, &'static str); 57] = [
        (Self::Blackhole, "blackhole", "nothing passes between a worker and the servers"),
        (Self::ToServer, "to-server", "a worker's data does not reach the servers"),
        (Self::ToClient, "to-client", "the servers' data does not reach a worker"),
        (Self::Swallow, "swallow", "a reply is lost, and its connection closes"),
        (Self::Drop, "drop", "one packet with a lock's key, possibly an event, is lost"),
        (Self::Delay, "delay", "packets are delayed"),
        (Self::LateRequests, "late-requests", "requests reach the servers a minute late"),
        (Self::Refuse, "refuse", "connections are closed, and new ones refused"),
        (Self::Flap, "flap", "a link goes up and down"),
        (Self::Sigstop, "sigstop", "a worker is stopped, and resumes later"),
        (Self::SigstopIdle, "sigstop-idle", "a worker without locks is stopped for about a TTL"),
        (
            Self::SigstopBeforeLock,
            "sigstop-before-lock",
            "a worker is stopped before it acquires a lock",
        ),
        (Self::Sigkill, "sigkill", "a worker is killed"),
        (Self::Block, "block", "a worker's own runtime is blocked"),
        (Server(Pause, Leader), "pause-leader", "the leader or primary is frozen"),
        (Server(Pause, Follower), "pause-follower", "a follower, standby or equal is frozen"),
        (Server(Kill, Leader), "kill-leader", "the leader or primary is killed"),
        (Server(Kill, Follower), "kill-follower", "a follower, standby or equal is killed"),
        (Server(Stop, Leader), "stop-leader", "the leader or primary is shut down"),
        (Server(Stop, Follower), "stop-follower", "a follower, standby or equal is shut down"),
        (Server(Cut, Leader), "cut-leader", "the leader or primary is cut off from the others"),
        (Server(Cut, Follower), "cut-follower", "a follower or equal is cut off from the others"),
        (Server(Part, Leader), "part-leader", "the primary is cut off from its replicas only"),
        (Server(Wipe, Follower), "wipe-follower", "an equal is killed, and restarts empty"),
        (Server(Hang, Leader), "hang-leader", "the leader's disk hangs"),
        (Server(Hang, Follower), "hang-follower", "a follower's disk hangs"),
        (Self::PauseQuorum, "pause-quorum", "two of three servers are frozen"),
        (Self::KillCut, "kill-cut", "a server is killed while another one is cut off"),
        (Servers(Loss), "loss", "three of ten packets to the servers are lost"),
        (Servers(Slow), "slow", "the servers' links carry 200 kbit/s"),
        (Servers(Pause), "pause-server", "all servers of a database are frozen"),
        (Servers(Kill), "kill-server", "all servers of a database are killed"),
        (Servers(Stop), "stop-server", "all servers of a database are shut down"),
        (Servers(Wipe), "wipe-server", "the server is killed, and loses its data"),
        (Servers(Rewind), "rewind-server", "the server is killed, and loses its last second"),
        (Database(ReadOnly), "read-only", "the database is read-only"),
        (Database(LockWait), "lock-wait", "an operator locks rows for about a TTL"),
        (Database(Deadlocks), "deadlocks", "operators lock rows in any order"),
        (Database(DiskFull), "disk-full", "the database's disk is full"),
        (Database(Clock), "clock", "the server's clock is set by an hour, and back"),
        (Database(Sever), "sever", "the server closes connections, which also LISTEN"),
        (Database(Promotion), "promotion", "a standby is promoted while its primary runs"),
        (Database(Conflicts), "conflicts", "operators write to the rows of queues"),
        (Database(ClientPause), "client-pause", "the server replies to no client, or to no writer"),
        (Database(Busy), "busy", "the server runs a long script"),
        (Database(ScriptFlush), "script-flush", "the server flushes all scripts"),
        (Database(MemoryFull), "memory-full", "the server's memory is full"),
        (Database(Buffers), "output-limit", "the server closes clients with full output buffers"),
        (Database(Demotion), "demotion", "the server becomes a replica, and a primary again"),
        (Database(Reconnects), "reconnects", "all connections end at the same time"),
        (Database(Backup), "backup", "a backup of the server is made"),
        (Database(Fsync), "fsync", "the server flushes once a second for a while"),
        (Database(DeadEntries), "dead-entries", "a client with 10,000 locks crashes"),
        (Database(Migration), "migration", "the slot of the locks moves to another server"),
        (Database(Failover), "failover", "the primary is down until another one is elected"),
        (Self::Operator, "operator", "an operator writes, deletes and adds keys of queues"),
        (Self::Strangers, "strangers", "waiters of other libraries are in the queues"),
    ];

    /// Returns `true` for faults of the servers.
    pub(crate) fn is_of_servers(self) -> bool {
        matches!(self, Server(..) | Self::PauseQuorum | Self::KillCut | Servers(_) | Database(_))
    }

    /// Returns `true` if the fault can happen on this store.
    pub(crate) fn applies(self, store: Store) -> bool {
        let (clustered, remote) = (store.clustered().is_some(), store.is_remote());
        let (redis, redlock) = (store.is_redis(), store == Store::Redlock);
        match self {
            Self::Blackhole
            | Self::ToServer
            | Self::ToClient
            | Self::Swallow
            | Self::Drop
            | Self::Delay
            | Self::LateRequests
            | Self::Refuse
            | Self::Flap => remote && !store.elects(),
            Self::Sigstop
            | Self::SigstopIdle
            | Self::SigstopBeforeLock
            | Self::Sigkill
            | Self::Block => true,
            // Deleting a lock on a majority of the nodes gives it to another client.
            Self::Operator => !redlock,
            Server(Pause | Kill | Stop, Follower) if redlock || store == Store::Galera => true,
            Server(Pause | Kill | Stop, _) => clustered || store.is_pair(),
            Server(Wipe, _) => redlock,
            Servers(Wipe) => store == Store::RedisWiped,
            Servers(Rewind) => store == Store::RedisEverysec,
            Server(Rewind, _) => false,
            Server(Hang, _) => clustered,
            // In a pair it makes no difference which server is cut off.
            Server(Part, _) | Database(Failover) => store.elects(),
            Server(_, Leader) => clustered || store.is_pair(),
            Server(_, Follower) | Self::PauseQuorum => clustered || store == Store::Galera,
            Self::KillCut => store == Store::Galera,
            Servers(Cut | Part | Loss | Slow | Hang) | Self::Strangers => clustered,
            Database(Promotion) => store.is_pair(),
            Database(Migration) => store == Store::RedisCluster,
            Database(Buffers) => redis,
            Database(Reconnects | Backup | Fsync | DeadEntries)
                if !redis || store.is_pair() || store.elects() =>
            {
                false
            }
            // A crash would lose more than the run's guarantees allow.
            Database(Fsync) if store == Store::RedisEverysec => false,
            Database(Conflicts) => store == Store::Galera,
            Database(LockWait) => store.is_relational(),
            Database(Deadlocks) => store.is_relational() && remote,
            Database(DiskFull) => !clustered && !redlock,
            Database(ClientPause | Busy | ScriptFlush | MemoryFull) => redis || redlock,
            Database(Clock | Sever) if redlock => true,
            // Afterwards tokens may be far ahead of the clock, from which an empty server derives
            // its first token.
            Database(Clock | Demotion | DeadEntries) if store == Store::RedisWiped => false,
            Database(Demotion) => redis && !store.is_pair(),
            // After it, an operator has to choose the first server to start.
            Servers(Stop) if store == Store::Galera => false,
            Servers(Pause | Kill | Stop) | Database(_) => remote && !clustered && !redlock,
        }
    }

    /// Returns all faults that can happen on this store.
    pub(crate) fn all(store: Store) -> Vec<Self> {
        let every = Self::ALL.into_iter().map(|(kind, ..)| kind);
        every.filter(|kind| kind.applies(store)).collect()
    }

    /// Returns `true` for faults of the queues.
    pub(crate) fn is_of_queues(self) -> bool {
        matches!(self, Self::Operator | Self::Strangers)
    }

    /// Returns how long the fault lasts: around the TTL, so that some sessions survive it and
    /// others do not.
    pub(crate) fn duration(self, ttl: Duration) -> Duration {
        match self {
            Self::Swallow | Self::Drop => ttl.mul_f64(0.5),
            // Shorter than the TTL, since the session has to outlive its late requests.
            Self::LateRequests => ttl.mul_f64(0.1 + fastrand::f64() * 0.5),
            // Which of these are too long depends on the server's ticks.
            Self::SigstopIdle | Self::SigstopBeforeLock => ttl.mul_f64(0.9 + fastrand::f64() * 0.6),
            Self::Delay | Self::Flap => ttl.mul_f64(1.0 + fastrand::f64() * 1.5),
            _ => ttl.mul_f64(0.2 + fastrand::f64() * 2.2),
        }
    }

    /// Parses a comma-separated list: whole names, the part before a hyphen for several, `all` or
    /// `none`. A leading hyphen excludes kinds. Of several, those that apply to the store are
    /// returned.
    pub(crate) fn parse(list: &str, store: Store) -> Result<Vec<Self>, String> {
        let mut kinds = Vec::new();
        for word in
            list.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "none")
        {
            let (without, word) = word.strip_prefix('-').map_or((false, word), |word| (true, word));
            let meant = |name: &str| {
                word == "all" || name == word || name.split_once('-').is_some_and(|it| it.0 == word)
            };
            let named = Self::ALL.iter().filter(|(_, name, _)| meant(name));
            let named: Vec<_> = named.map(|(kind, ..)| *kind).collect();
            if named.is_empty() {
                let names = Self::ALL.map(|(_, name, _)| name).join(", ");
                return Err(format!("no fault is named {word:?}; there are {names}, all and none"));
            }
            if without {
                kinds.retain(|kind| !named.contains(kind));
                continue;
            }
            let apply = named.into_iter().filter(|kind| kind.applies(store));
            let before = kinds.len();
            kinds.extend(apply);
            if kinds.len() == before {
                let names = Self::all(store).iter().map(ToString::to_string).collect::<Vec<_>>();
                let names = names.join(", ");
                return Err(format!("{word} does not apply to {store}, to which {names} do"));
            }
        }
        Ok(kinds)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            Self::ALL.iter().find(|(kind, ..)| kind == self).map_or("?", |(_, name, _)| name);
        f.write_str(name)
    }
}

#[cfg(test)]
mod tests;
