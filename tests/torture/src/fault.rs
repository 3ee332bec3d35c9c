//! The kinds of faults.

use std::{fmt, time::Duration};

use distlock_testkit::store::Store;

/// A part of the servers by what it is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leader,
    Follower,
}

/// What is done to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Frozen, and goes on later as if nothing had been.
    Pause,
    /// Killed and started again.
    Kill,
    /// Stopped in good order and started again.
    Stop,
    /// Killed, and started again with nothing.
    Wipe,
    /// Killed, and started again without what it wrote last.
    Rewind,
    /// Cut off from the other servers, not from its clients.
    Cut,
    /// The primary cut off from its replicas alone.
    Part,
    /// Three in ten packets that come to it are lost.
    Loss,
    /// Its links are slow.
    Slow,
    /// What it writes to its log waits, and it serves what it has.
    Hang,
}

/// What happens to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It cannot be written to.
    ReadOnly,
    /// Rows of distlock's tables are locked by somebody who takes his time.
    LockWait,
    /// Others lock such rows in orders of their own.
    Deadlocks,
    /// There is no room for anything new.
    DiskFull,
    /// Its clock is set by an hour, and back.
    Clock,
    /// Connections are ended by the server.
    Sever,
    /// The standby is to be written to, and the old primary goes on for a while.
    Promotion,
    /// Others write to rows that those who lock write to, by way of all servers.
    Conflicts,
    /// It answers nobody, or none who would write.
    ClientPause,
    /// It runs a script that takes long.
    Busy,
    /// It forgets all scripts, again and again.
    ScriptFlush,
    /// It takes nothing new into its memory.
    MemoryFull,
    /// It ends those whom it has more to tell than it keeps for one.
    Buffers,
    /// It is made a replica, and a primary again.
    Demotion,
    /// All connections of those who lock end at the same moment.
    Reconnects,
    /// Somebody makes a backup of it.
    Backup,
    /// It is set to another way of writing to its disk, and back.
    Fsync,
    /// A client with very many locks dies.
    DeadEntries,
    /// What the locks are in goes to another server.
    Migration,
    /// It is away until the others have elected another one.
    Failover,
}

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    // Of one worker's ways to the servers.
    Blackhole,
    ToServer,
    ToClient,
    Swallow,
    Drop,
    Delay,
    LateRequests,
    Refuse,
    Flap,
    // Of one worker.
    Sigstop,
    SigstopIdle,
    SigstopBeforeLock,
    Sigkill,
    Block,
    // Of the servers.
    Server(Deed, Role),
    PauseQuorum,
    /// One is cut off from the other servers, and another one is killed at the same time.
    KillCut,
    /// All of them.
    Servers(Deed),
    Database(Trouble),
    // Of the queues.
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
        (Self::ToServer, "to-server", "the servers do not hear a worker"),
        (Self::ToClient, "to-client", "a worker does not hear the servers"),
        (Self::Swallow, "swallow", "a reply is lost and its connection with it"),
        (Self::Drop, "drop", "one packet with a lock's key in it is lost, an event perhaps"),
        (Self::Delay, "delay", "packets take long"),
        (Self::LateRequests, "late-requests", "requests reach the servers a minute late"),
        (Self::Refuse, "refuse", "connections are cut and new ones refused"),
        (Self::Flap, "flap", "a link goes up and down"),
        (Self::Sigstop, "sigstop", "a worker is stopped and goes on later"),
        (Self::SigstopIdle, "sigstop-idle", "a worker that has nothing is stopped for about a TTL"),
        (Self::SigstopBeforeLock, "sigstop-before-lock", "the same just before it asks for a lock"),
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
        (Server(Part, Leader), "part-leader", "the primary is cut off from its replicas alone"),
        (Server(Wipe, Follower), "wipe-follower", "an equal is killed, and starts empty"),
        (Server(Hang, Leader), "hang-leader", "the leader's disk hangs"),
        (Server(Hang, Follower), "hang-follower", "a follower's disk hangs"),
        (Self::PauseQuorum, "pause-quorum", "two of three servers are frozen"),
        (Self::KillCut, "kill-cut", "a server is killed as another one is cut off"),
        (Servers(Loss), "loss", "three in ten packets to the servers are lost"),
        (Servers(Slow), "slow", "the servers' links carry 200 kbit/s"),
        (Servers(Pause), "pause-server", "all servers of a database are frozen"),
        (Servers(Kill), "kill-server", "all servers of a database are killed"),
        (Servers(Stop), "stop-server", "all servers of a database are shut down"),
        (Servers(Wipe), "wipe-server", "the server is killed, and its data is gone"),
        (Servers(Rewind), "rewind-server", "the server is killed, and loses its last second"),
        (Database(ReadOnly), "read-only", "the database can only be read"),
        (Database(LockWait), "lock-wait", "an operator locks rows for about a TTL"),
        (Database(Deadlocks), "deadlocks", "operators lock rows in any order"),
        (Database(DiskFull), "disk-full", "the database's disk is full"),
        (Database(Clock), "clock", "the server's clock is set by an hour, and back"),
        (Database(Sever), "sever", "the server ends connections, which LISTEN too"),
        (Database(Promotion), "promotion", "a standby or replica is promoted beside its primary"),
        (Database(Conflicts), "conflicts", "operators write to the rows of queues"),
        (Database(ClientPause), "client-pause", "the server answers no client, or no writer"),
        (Database(Busy), "busy", "the server runs a script that takes long"),
        (Database(ScriptFlush), "script-flush", "the server forgets all scripts"),
        (Database(MemoryFull), "memory-full", "the server's memory is full"),
        (Database(Buffers), "output-limit", "the server ends clients whom it has too much to tell"),
        (Database(Demotion), "demotion", "the server is made a replica, and a primary again"),
        (Database(Reconnects), "reconnects", "all connections end at the same moment"),
        (Database(Backup), "backup", "somebody makes a backup of the server"),
        (Database(Fsync), "fsync", "the server is set to flush once a second, and back"),
        (Database(DeadEntries), "dead-entries", "a client with 10,000 locks dies"),
        (Database(Migration), "migration", "the slot of the locks moves to another server"),
        (Database(Failover), "failover", "the primary is away until another one is elected"),
        (Self::Operator, "operator", "an operator writes, deletes and adds keys of queues"),
        (Self::Strangers, "strangers", "waiters of other libraries' kinds stand in the queues"),
    ];

    /// Whether it strikes the servers, not a worker.
    pub(crate) fn is_of_servers(self) -> bool {
        matches!(self, Server(..) | Self::PauseQuorum | Self::KillCut | Servers(_) | Database(_))
    }

    /// Whether it can happen to those who lock by this store.
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
            // Who deletes a lock on a majority of the nodes gives it away.
            Self::Operator => !redlock,
            Server(Pause | Kill | Stop, Follower) if redlock || store == Store::Galera => true,
            Server(Pause | Kill | Stop, _) => clustered || store.is_pair(),
            Server(Wipe, _) => redlock,
            Servers(Wipe) => store == Store::RedisWiped,
            Servers(Rewind) => store == Store::RedisEverysec,
            Server(Rewind, _) => false,
            Server(Hang, _) => clustered,
            // A pair is parted, whichever of the two is cut off.
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
            // What it then loses in a crash is not what the run was promised.
            Database(Fsync) if store == Store::RedisEverysec => false,
            Database(Conflicts) => store == Store::Galera,
            Database(LockWait) => store.is_relational(),
            Database(Deadlocks) => store.is_relational() && remote,
            Database(DiskFull) => !clustered && !redlock,
            Database(ClientPause | Busy | ScriptFlush | MemoryFull) => redis || redlock,
            Database(Clock | Sever) if redlock => true,
            // After either, tokens may be far ahead of the clock, by which those of an empty server
            // begin.
            Database(Clock | Demotion | DeadEntries) if store == Store::RedisWiped => false,
            Database(Demotion) => redis && !store.is_pair(),
            // Which one such a cluster begins with again, an operator has to say.
            Servers(Stop) if store == Store::Galera => false,
            Servers(Pause | Kill | Stop) | Database(_) => remote && !clustered && !redlock,
        }
    }

    /// All that can happen to this store's.
    pub(crate) fn all(store: Store) -> Vec<Self> {
        let every = Self::ALL.into_iter().map(|(kind, ..)| kind);
        every.filter(|kind| kind.applies(store)).collect()
    }

    /// Whether it strikes the queues.
    pub(crate) fn is_of_queues(self) -> bool {
        matches!(self, Self::Operator | Self::Strangers)
    }

    /// How long it lasts: around the TTL, so that sessions now and then survive and now and then do
    /// not.
    pub(crate) fn duration(self, ttl: Duration) -> Duration {
        match self {
            Self::Swallow | Self::Drop => ttl.mul_f64(0.5),
            // Shorter than a session: it has to outlive its late requests.
            Self::LateRequests => ttl.mul_f64(0.1 + fastrand::f64() * 0.5),
            // It depends on the server's ticks which of these are too long.
            Self::SigstopIdle | Self::SigstopBeforeLock => ttl.mul_f64(0.9 + fastrand::f64() * 0.6),
            Self::Delay | Self::Flap => ttl.mul_f64(1.0 + fastrand::f64() * 1.5),
            _ => ttl.mul_f64(0.2 + fastrand::f64() * 2.2),
        }
    }

    /// Those of a list with commas in between: whole names, what stands before the hyphen for
    /// several, `all` or `none`; with a hyphen in front, without those. Of several, those that
    /// apply to the store.
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
