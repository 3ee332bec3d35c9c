//! The whole world: clock, store, processes and history.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use crate::{
    backend::Event,
    history::{History, What},
    holders::Holders,
    scheduler::Scheduler,
    server::{Contract, Server},
    settings::Setting,
};

/// A simulated process with one client.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) dead: bool,
    /// It does not run until then.
    pub(crate) stopped: Duration,
    /// No message passes between it and the servers until then.
    pub(crate) blocked: Duration,
    /// It gets no session until then.
    pub(crate) refused: Duration,
    /// It may not delete keys until then.
    pub(crate) denied: Duration,
    /// How long it stalls after its next request for a session.
    pub(crate) stalls: Option<Duration>,
    /// When a fault last kept it from receiving messages.
    pub(crate) struck: Duration,
    /// When it last queried its own keys without a reply.
    pub(crate) unanswered: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) dice: fastrand::Rng,
    pub(crate) processes: Vec<Process>,
    pub(crate) server: Server,
    #[cfg(feature = "redis")]
    pub(crate) redis: Option<crate::redis::RedisServer>,
    pub(crate) history: History,
    pub(crate) holders: Holders,
    /// No fault occurs from now on.
    pub(crate) calm: bool,
    pub(crate) ttl: Duration,
    pub(crate) recheck: Duration,
    pub(crate) request_timeout: Duration,
    /// The frequency of faults per 1,000 calls.
    pub(crate) faults: u32,
    /// A server has lost confirmed writes: only exclusion and rising tokens are still guaranteed.
    pub(crate) forgets: bool,
    /// No fault occurs in the whole history.
    pub(crate) undisturbed: bool,
    /// Since when a key that had a predecessor is first.
    pub(crate) firsts: BTreeMap<(Arc<str>, u64), Duration>,
    /// Until when each of several servers is cut off from the others.
    pub(crate) cut: [Duration; 3],
    /// By semaphore.
    pub(crate) settings: BTreeMap<usize, Setting>,
    /// How many requests to leave have an unknown outcome.
    pub(crate) doubtful: u64,
    /// When the last delayed request arrives.
    pub(crate) latest: Duration,
    /// Events that are not delivered.
    pub(crate) lost_events: Vec<oneshot::Sender<Event>>,
    /// Processes to be killed.
    pub(crate) doomed: Vec<usize>,
    /// Unfinished callers, and their processes.
    pub(crate) busy: BTreeMap<usize, usize>,
    /// What each caller is doing, for the report of a hang.
    pub(crate) doing: BTreeMap<usize, String>,
}

impl World {
    pub(crate) fn new(seed: u64, contract: Contract, processes: usize, verbose: bool) -> Self {
        Self {
            dice: fastrand::Rng::with_seed(seed),
            processes: (0..processes).map(|_| Process::default()).collect(),
            server: Server::new(contract),
            history: History::new(verbose),
            ttl: Duration::from_secs(2),
            recheck: Duration::from_secs(2),
            request_timeout: Duration::from_millis(500),
            faults: 30,
            ..Self::default()
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.scheduler.now()
    }

    pub(crate) fn note(&mut self, who: usize, what: What) {
        let now = self.now();
        self.history.note(now, who, what);
    }

    /// How long a poll takes.
    pub(crate) fn passes(&mut self) -> Duration {
        match self.dice.u32(..1000) {
            0 if !self.calm => Duration::from_micros(self.dice.u64(..20_000)),
            _ => Duration::from_micros(self.dice.u64(1..20)),
        }
    }

    /// How late a timer fires.
    pub(crate) fn lateness(&mut self) -> Duration {
        let longest = match self.dice.u32(..100) {
            0 if !self.calm => 100_000,
            1..10 if !self.calm => 10_000,
            _ => 1000,
        };
        Duration::from_micros(self.dice.u64(..longest))
    }

    /// How long a message is on its way.
    pub(crate) fn latency(&mut self) -> Duration {
        let longest = match self.dice.u32(..100) {
            0 if !self.calm => 120_000,
            1..10 if !self.calm => 20_000,
            _ => 1000,
        };
        Duration::from_micros(100 + self.dice.u64(..longest))
    }

    pub(crate) fn chance(&mut self, of_a_thousand: u32) -> bool {
        !self.calm && self.dice.u32(..1000) < of_a_thousand
    }

    /// Removes the watches and lost events, to be dropped where nothing is borrowed.
    pub(crate) fn take_watchers(&mut self) -> impl Sized + use<> {
        (std::mem::take(&mut self.server.watches), std::mem::take(&mut self.lost_events))
    }

    /// Stops all faults.
    pub(crate) fn heal(&mut self) {
        self.calm = true;
        let now = self.now();
        for process in &mut self.processes {
            process.stopped = process.stopped.min(now);
            process.blocked = process.blocked.min(now);
            process.refused = process.refused.min(now);
            process.denied = process.denied.min(now);
        }
        self.cut = [now; 3];
        #[cfg(feature = "redis")]
        self.heal_redis();
        self.scheduler.look_after_all();
        self.note(usize::MAX, What::Healed);
    }
}
