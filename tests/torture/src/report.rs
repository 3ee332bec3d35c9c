//! The result of a run: the JSON object of its last line.

use std::collections::BTreeMap;

use distlock_testkit::store::Store;
use serde::Serialize;

use crate::{args::Run, event::Promise, primitive::Primitive};

/// The number of violations of a kind that are described.
const DESCRIBED: usize = 5;

/// The invariants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Invariant {
    /// I1: the fenced register accepts writes in the order of their tokens, and no acknowledged
    /// write is lost.
    FencedWrites,
    /// I2: no two guards that exclude each other are valid at once, and an invalid guard stays
    /// invalid.
    Overlap,
    /// I3: waiters are granted in time after the last fault has ended.
    Unserved,
    /// I4: no key, lease, session or watch is left after the last client.
    Orphan,
    /// I5: every call returns in time, with a typed error if any; nothing panics.
    Call,
    /// I6: tokens strictly rise, and those of concurrent guards differ.
    Token,
    /// I7: waiters that stay in the queue are granted in order of arrival.
    Order,
    /// I8: the store applies a guarded write only while the guard's key exists: none after the
    /// grant to its successor, and none that it refused.
    GuardedWrites,
    /// I9: the library reports each grant, loss and release exactly once, in its log and in its
    /// metrics.
    Telemetry,
    /// The run itself failed, so nothing can be concluded.
    Run,
}

impl Invariant {
    /// Returns `true` if a store that loses confirmed data may violate it.
    fn is_of_exclusion(self) -> bool {
        match self {
            Self::FencedWrites
            | Self::Overlap
            | Self::Token
            | Self::Order
            | Self::GuardedWrites => true,
            Self::Unserved | Self::Orphan | Self::Call | Self::Telemetry | Self::Run => false,
        }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) backend: Store,
    pub(crate) primitive: Primitive,
    pub(crate) processes: usize,
    pub(crate) seconds: u64,
    pub(crate) ttl_ms: u64,
    pub(crate) seed: u64,
    /// The store's guarantees. `None` in older histories.
    pub(crate) durability: Option<Promise>,
    pub(crate) calls: usize,
    pub(crate) grants: usize,
    /// Guards that were lost while they were held.
    pub(crate) losses: usize,
    pub(crate) faults: BTreeMap<String, usize>,
    pub(crate) faults_total: usize,
    pub(crate) overlap_violations: usize,
    /// The total time of overlaps.
    pub(crate) overlap_ms: f64,
    pub(crate) token_regressions: usize,
    pub(crate) order_violations: usize,
    pub(crate) lost_acknowledged_writes: LostWrites,
    pub(crate) fenced_writes_refused: usize,
    pub(crate) guarded_writes: usize,
    pub(crate) guarded_writes_refused: usize,
    pub(crate) guarded_write_violations: usize,
    pub(crate) orphans: usize,
    pub(crate) unserved_waiters: usize,
    pub(crate) call_violations: usize,
    pub(crate) grant_latency_after_heal_ms: Option<Spread>,
    /// How long before the next grant the holder noticed the loss.
    pub(crate) loss_notice_lead_ms: Option<Spread>,
    /// The effects of an upgrade of the servers.
    pub(crate) upgrade: Option<Upgrade>,
    /// Counts of the library's telemetry.
    pub(crate) telemetry: Option<Tally>,
    pub(crate) violations: BTreeMap<Invariant, Vec<String>>,
    pub(crate) history: Option<String>,
}

/// The effects of an upgrade of the servers on their clients.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Upgrade {
    /// How long the upgrade took.
    pub(crate) ms: f64,
    /// The grants before it, while it ran, and afterwards.
    pub(crate) grants: [usize; 3],
    /// The longest time without a grant before the upgrade, and since it began.
    pub(crate) longest_pause_ms: [f64; 2],
    /// Guards that were lost from the start of the upgrade to the end of the longest pause.
    pub(crate) losses: usize,
    /// The errors of calls within the same time, without their numbers.
    pub(crate) errors: BTreeMap<String, usize>,
    /// The store's guarantees after the upgrade.
    pub(crate) durability: Option<Promise>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LostWrites {
    pub(crate) fenced: usize,
    pub(crate) unfenced: usize,
}

/// The number of lines of log and metrics, and of reports of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    pub(crate) lines: usize,
    pub(crate) grants: usize,
    pub(crate) releases: usize,
    pub(crate) losses: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) count: usize,
    pub(crate) min: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Computes the spread of microseconds in milliseconds.
    pub(crate) fn of(mut values: Vec<i64>) -> Option<Self> {
        values.sort_unstable();
        let at = |share: f64| {
            values[((values.len() - 1) as f64 * share).round() as usize] as f64 / 1000.0
        };
        let count = values.len();
        (count > 0).then(|| Self { count, min: at(0.0), p50: at(0.5), p99: at(0.99), max: at(1.0) })
    }
}

impl Report {
    pub(crate) fn new(run: &Run) -> Self {
        Self {
            backend: run.backend,
            primitive: run.primitive,
            processes: run.processes,
            seconds: run.seconds,
            ttl_ms: run.ttl_ms,
            seed: run.seed,
            ..Self::default()
        }
    }

    /// Returns `true` if all guarantees of the store hold. A store that may lose its latest grants
    /// guarantees neither exclusion nor the order of tokens.
    pub(crate) fn is_good(&self) -> bool {
        let forgets = self.durability.as_ref().is_some_and(|promise| !promise.exclusive);
        self.violations.keys().all(|invariant| forgets && invariant.is_of_exclusion())
    }

    pub(crate) fn violated(&mut self, invariant: Invariant, what: impl Into<String>) {
        match invariant {
            Invariant::Overlap => self.overlap_violations += 1,
            Invariant::Token => self.token_regressions += 1,
            Invariant::Order => self.order_violations += 1,
            Invariant::Orphan => self.orphans += 1,
            Invariant::Unserved => self.unserved_waiters += 1,
            Invariant::Call => self.call_violations += 1,
            Invariant::GuardedWrites => self.guarded_write_violations += 1,
            Invariant::FencedWrites | Invariant::Telemetry | Invariant::Run => {}
        }
        let described = self.violations.entry(invariant).or_default();
        if described.len() < DESCRIBED {
            described.push(what.into());
        }
    }
}
