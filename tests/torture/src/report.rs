//! What a run came to: the JSON object of its last line.

use std::collections::BTreeMap;

use distlock_testkit::store::Store;
use serde::Serialize;

use crate::{args::Run, event::Promise, primitive::Primitive};

/// So many violations of a kind are told in words.
const TOLD: usize = 5;

/// What must always hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Invariant {
    /// I1: the fenced register takes writes in the order of their tokens, and none that it
    /// acknowledged is lost.
    FencedWrites,
    /// I2: no two guards of a lock are valid at once that may not be, and an invalid one stays so.
    Overlap,
    /// I3: those that wait when the last fault has healed are granted in time.
    Unserved,
    /// I4: no key, lease, session or watch remains after the last client.
    Orphan,
    /// I5: every call returns in time, with a typed error if any; nothing panics.
    Call,
    /// I6: tokens strictly rise, and those of guards that are valid at once differ.
    Token,
    /// I7: first come, first served, among those that stayed.
    Order,
    /// I8: the store takes a guarded write only while the guard's key is there: none after its
    /// successor was granted, none that it refused.
    GuardedWrites,
    /// I9: the library tells each grant, loss and release once, in its log and in its metrics.
    Telemetry,
    /// The run itself has failed, so that nothing can be said.
    Run,
}

impl Invariant {
    /// Whether a store breaks it that forgets what it has confirmed.
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
    /// By its own word; none in a history that is older than this.
    pub(crate) durability: Option<Promise>,
    pub(crate) calls: usize,
    pub(crate) grants: usize,
    /// Guards that were lost while they were held.
    pub(crate) losses: usize,
    pub(crate) faults: BTreeMap<String, usize>,
    pub(crate) faults_total: usize,
    pub(crate) overlap_violations: usize,
    /// For how long some lock had holders that may not be there together.
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
    /// How long before the next grant the holder knew that it had lost the lock.
    pub(crate) loss_notice_lead_ms: Option<Spread>,
    /// What the library has told of itself.
    pub(crate) told: Option<Tally>,
    pub(crate) violations: BTreeMap<Invariant, Vec<String>>,
    pub(crate) history: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct LostWrites {
    pub(crate) fenced: usize,
    pub(crate) unfenced: usize,
}

/// How many lines of log and metrics there were, and how many of them told what.
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
    /// Of microseconds, in milliseconds.
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

    /// Whether all is well that the store promises. One that may forget what it has granted last
    /// keeps neither its locks apart nor its tokens in order.
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
        let told = self.violations.entry(invariant).or_default();
        if told.len() < TOLD {
            told.push(what.into());
        }
    }
}
