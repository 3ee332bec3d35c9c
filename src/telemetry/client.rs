//! What is told of a client, its sessions and their requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    LISTENS, Label, Opened, kind,
    meter::{self, Labels},
    trace,
};
use crate::{
    lost::LostReason,
    runtime::{
        OnDrop,
        clock::{self, Instant},
        mutex::Mutex,
    },
};

/// What all that is told of a client has in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telemetry {
    pub(super) backend: &'static str,
    pub(super) label: Option<Label>,
}

impl Telemetry {
    pub(crate) fn new(backend: &'static str, label: Option<Label>) -> Self {
        meter::describe();
        // As it is written in URLs and attributes.
        let backend = if backend == "ZooKeeper" { "zookeeper" } else { backend };
        Self { backend, label: label.filter(|_| LISTENS) }
    }

    /// A request to the store.
    pub(crate) fn asked(&self, operation: &'static str) -> Asked {
        Asked { backend: self.backend, operation, since: Instant::now(), answered: false }
    }

    /// A key is to be deleted, as long as this lives.
    pub(crate) fn releasing(&self) -> OnDrop<impl Fn() + use<>> {
        let step = |up, backend| meter::step(&meter::RELEASE_PENDING, up, Labels::of(backend));
        let backend = self.backend;
        step(true, backend);
        OnDrop(move || step(false, backend))
    }

    /// Of one session, as long as it is kept alive.
    pub(crate) fn renewals(&self) -> Renewals {
        Renewals { backend: self.backend, number: SESSIONS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn opened(&self, why: Opened) {
        self.count(&meter::OPENED, ("reason", why.as_str()));
        if let Opened::Replaced(lost) = why {
            trace::replaced(self.backend, lost);
        }
    }

    /// A look without a reason found what no watch had told: of what a waiter waits for, or of what
    /// is held.
    pub(crate) fn recheck_found(&self, operation: &'static str) {
        self.count(&meter::RECHECK, ("operation", operation));
    }

    pub(crate) fn write_rejected(&self, lost: LostReason) {
        self.count(&meter::WRITE_REJECTED, ("reason", kind::reason(lost)));
    }

    fn count(&self, metric: &'static meter::Metric, label: (&'static str, &'static str)) {
        meter::count(metric, Labels { more: &[label], ..Labels::of(self.backend) });
    }
}

/// A request that is under way.
#[derive(Debug)]
pub(crate) struct Asked {
    backend: &'static str,
    operation: &'static str,
    since: Instant,
    answered: bool,
}

/// By which a session is kept alive; told by metrics of their own, too.
const KEEP_ALIVE: &str = "keep_alive";

impl Asked {
    pub(crate) fn answered(mut self, outcome: &'static str) {
        self.record(outcome);
    }

    fn record(&mut self, outcome: &'static str) {
        self.answered = true;
        let (took, labels) = (self.since.elapsed(), Labels::of(self.backend));
        let more = &[("operation", self.operation), ("outcome", outcome)];
        meter::time(&meter::REQUEST, took, Labels { more, ..labels });
        if self.operation != KEEP_ALIVE {
            return;
        }
        let more = &[("outcome", outcome)];
        meter::time(&meter::KEEPALIVE, took, Labels { more, ..labels });
        if !matches!(outcome, "ok" | "cancelled") {
            let more = &[("reason", outcome)];
            meter::count(&meter::KEEPALIVE_FAILURES, Labels { more, ..labels });
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.answered {
            self.record("cancelled");
        }
    }
}

/// Until when the sessions of this process are proved that somebody depends on: there may be
/// thousands, and each tells often.
struct Proved {
    sessions: BTreeMap<(&'static str, u64), Duration>,
    by_time: BTreeSet<(&'static str, Duration, u64)>,
}

static PROVED: Mutex<Proved> =
    Mutex::new(Proved { sessions: BTreeMap::new(), by_time: BTreeSet::new() });
static SESSIONS: AtomicU64 = AtomicU64::new(0);

impl Proved {
    /// Notes it of a session; with the time of the one of that backend that is the next to end.
    fn set(
        &mut self,
        backend: &'static str,
        number: u64,
        until: Option<Duration>,
    ) -> Option<Duration> {
        let former = match until {
            Some(until) => self.sessions.insert((backend, number), until),
            None => self.sessions.remove(&(backend, number)),
        };
        if let Some(former) = former {
            self.by_time.remove(&(backend, former, number));
        }
        self.by_time.extend(until.map(|until| (backend, until, number)));
        let first = self.by_time.range((backend, Duration::ZERO, 0)..).next();
        first.filter(|first| first.0 == backend).map(|first| first.1)
    }
}

/// Of one session.
#[derive(Debug)]
pub(crate) struct Renewals {
    backend: &'static str,
    number: u64,
}

impl Renewals {
    /// How long it is certain to live; `None`: nobody depends on it.
    pub(crate) fn remaining(&self, remaining: impl FnOnce() -> Option<Duration>) {
        if !cfg!(feature = "metrics") {
            return;
        }
        let now = clock::now();
        let until = remaining().map(|remaining| now + remaining);
        let least = PROVED.lock().set(self.backend, self.number, until);
        let least = least.map(|least| least.saturating_sub(now));
        // Not a number: there is none.
        let least = least.map_or(f64::NAN, |least| least.as_secs_f64());
        meter::set(&meter::REMAINING, least, Labels::of(self.backend));
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.remaining(|| None);
    }
}
