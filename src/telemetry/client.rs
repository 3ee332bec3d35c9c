//! Telemetry of a client, its sessions and their requests.

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
        process::Process,
    },
};

/// The labels that all reports of a client share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telemetry {
    pub(super) backend: &'static str,
    pub(super) label: Option<Label>,
}

impl Telemetry {
    pub(crate) fn new(backend: &'static str, label: Option<Label>) -> Self {
        meter::describe();
        // Metrics and logs write this name in lower case.
        let backend = if backend == "ZooKeeper" { "zookeeper" } else { backend };
        Self { backend, label: label.filter(|_| LISTENS) }
    }

    /// Reports a request to the store.
    pub(crate) fn asked(&self, operation: &'static str) -> Asked {
        Asked { backend: self.backend, operation, since: Instant::now(), answered: false }
    }

    /// Counts a key as being deleted until the returned value is dropped.
    pub(crate) fn releasing(&self) -> OnDrop<impl Fn() + use<>> {
        let step = |up, backend| meter::step(&meter::RELEASE_PENDING, up, Labels::of(backend));
        let backend = self.backend;
        step(true, backend);
        OnDrop(move || step(false, backend))
    }

    /// Reports the renewals of one session until the returned value is dropped.
    pub(crate) fn renewals(&self) -> Renewals {
        Renewals { backend: self.backend, number: SESSIONS.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn opened(&self, why: Opened) {
        self.count(&meter::OPENED, ("reason", why.as_str()));
        if let Opened::Replaced(lost) = why {
            trace::replaced(self.backend, lost);
        }
    }

    /// Reports that a recheck found a change that no watch had reported.
    ///
    /// `operation`: whether the change concerns a waiter or a holder.
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

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Asked {
    backend: &'static str,
    operation: &'static str,
    since: Instant,
    answered: bool,
}

/// The operation that renews a session. It also has metrics of its own.
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

/// The times until which the sessions in use in this process are confirmed. There may be thousands
/// of sessions, and each reports often.
struct Proved {
    /// The process of these sessions. A forked child has none of them, and never reports their end.
    process: Option<Process>,
    sessions: BTreeMap<(&'static str, u64), Duration>,
    by_time: BTreeSet<(&'static str, Duration, u64)>,
}

static PROVED: Mutex<Proved> =
    Mutex::new(Proved { process: None, sessions: BTreeMap::new(), by_time: BTreeSet::new() });
static SESSIONS: AtomicU64 = AtomicU64::new(0);

impl Proved {
    /// Records the time of one session, and returns the earliest time for its store.
    fn set(
        &mut self,
        backend: &'static str,
        number: u64,
        until: Option<Duration>,
    ) -> Option<Duration> {
        let process = Process::current();
        if self.process.replace(process) != Some(process) {
            (self.sessions, self.by_time) = Default::default();
        }
        let former = match until {
            Some(until) => self.sessions.insert((backend, number), until),
            None => self.sessions.remove(&(backend, number)),
        };
        if let Some(former) = former {
            self.by_time.remove(&(backend, former, number));
        }
        self.by_time.extend(until.map(|until| (backend, until, number)));
        self.least(backend)
    }

    /// Returns the earliest time for a store.
    fn least(&self, backend: &'static str) -> Option<Duration> {
        let first = self.by_time.range((backend, Duration::ZERO, 0)..).next();
        first.filter(|first| first.0 == backend).map(|first| first.1)
    }
}

/// The renewals of one session.
#[derive(Debug)]
pub(crate) struct Renewals {
    backend: &'static str,
    number: u64,
}

impl Renewals {
    /// Reports the session's remaining time; `None` if it is not in use.
    pub(crate) fn remaining(&self, remaining: impl FnOnce() -> Option<Duration>) {
        if !cfg!(feature = "metrics") {
            return;
        }
        let now = clock::now();
        let until = remaining().map(|remaining| now + remaining);
        let mut least = PROVED.lock().set(self.backend, self.number, until);
        loop {
            let remaining = least.map(|least| least.saturating_sub(now));
            // NaN means that no session is in use.
            let remaining = remaining.map_or(f64::NAN, |remaining| remaining.as_secs_f64());
            meter::set(&meter::REMAINING, remaining, Labels::of(self.backend));
            // The recorder is called without the lock. If another session has reported since, it
            // may have set the gauge before this one.
            let newest = PROVED.lock().least(self.backend);
            if newest == least {
                return;
            }
            least = newest;
        }
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.remaining(|| None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forked_child_does_not_show_its_parents_sessions() {
        let [sooner, later] = [5, 9].map(Duration::from_secs);
        let (sessions, by_time) = Default::default();
        let mut proved = Proved { process: None, sessions, by_time };
        assert_eq!(proved.set("etcd", 1, Some(sooner)), Some(sooner));
        assert_eq!(proved.set("etcd", 2, Some(later)), Some(sooner));
        // The process has changed.
        proved.process = None;
        assert_eq!(proved.set("etcd", 3, Some(later)), Some(later));
        assert_eq!(proved.set("etcd", 3, None), None);
    }
}
