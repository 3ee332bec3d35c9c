//! Metrics, as OpenTelemetry names them: durations are seconds, gauges go back to zero.

use std::{sync::Arc, time::Duration};

pub(super) const ACQUIRE: &str = "distlock.acquire.duration";
pub(super) const HOLD: &str = "distlock.hold.duration";
pub(super) const WAITERS: &str = "distlock.waiters";
pub(super) const HELD: &str = "distlock.held";
pub(super) const LEADER: &str = "distlock.leader";
pub(super) const LOST: &str = "distlock.lost";
pub(super) const REMAINING: &str = "distlock.session.remaining";
pub(super) const OPENED: &str = "distlock.session.opened";
pub(super) const KEEPALIVE: &str = "distlock.keepalive.duration";
pub(super) const KEEPALIVE_FAILURES: &str = "distlock.keepalive.failures";
pub(super) const REQUEST: &str = "distlock.store.request.duration";
pub(super) const RECHECK: &str = "distlock.recheck.found";
pub(super) const RELEASE_PENDING: &str = "distlock.release.pending";
pub(super) const WRITE_REJECTED: &str = "distlock.write.rejected";

/// What a value is of.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub(super) struct Labels<'a> {
    pub(super) backend: &'static str,
    pub(super) primitive: Option<&'static str>,
    /// What the user makes of the lock's name.
    pub(super) lock: Option<&'a Arc<str>>,
    pub(super) more: &'a [(&'static str, &'static str)],
}

impl Labels<'_> {
    pub(super) fn of(backend: &'static str) -> Self {
        Self { backend, primitive: None, lock: None, more: &[] }
    }
}

#[cfg(feature = "metrics")]
mod on {
    use metrics::{
        IntoLabels, Label, SharedString, Unit, counter, describe_counter, describe_gauge,
        describe_histogram, gauge, histogram,
    };

    use super::*;

    impl IntoLabels for Labels<'_> {
        fn into_labels(self) -> Vec<Label> {
            let mut labels = Vec::with_capacity(3 + self.more.len());
            labels.push(Label::from_static_parts("backend", self.backend));
            labels.extend(self.primitive.map(|it| Label::from_static_parts("primitive", it)));
            let lock = self.lock.map(Arc::clone).map(SharedString::from);
            labels.extend(lock.map(|lock| Label::new("lock", lock)));
            labels.extend(self.more.iter().map(|(key, it)| Label::from_static_parts(key, it)));
            labels
        }
    }

    pub(crate) fn count(name: &'static str, labels: Labels<'_>) {
        counter!(name, labels).increment(1);
    }

    pub(crate) fn step(name: &'static str, up: bool, labels: Labels<'_>) {
        let gauge = gauge!(name, labels);
        if up { gauge.increment(1.0) } else { gauge.decrement(1.0) }
    }

    pub(crate) fn set(name: &'static str, value: f64, labels: Labels<'_>) {
        gauge!(name, labels).set(value);
    }

    pub(crate) fn time(name: &'static str, time: Duration, labels: Labels<'_>) {
        histogram!(name, labels).record(time.as_secs_f64());
    }

    /// For each client, as the recorder may have come after the last one. Twice is as good as once.
    pub(crate) fn describe() {
        for (name, what) in [
            (ACQUIRE, "How long a call for a lock took, by what came of it"),
            (HOLD, "How long a lock was held, by how that ended"),
            (KEEPALIVE, "How long a session's proofs of life took"),
            (REQUEST, "How long requests to the store took"),
        ] {
            describe_histogram!(name, Unit::Seconds, what);
        }
        for (name, what) in [
            (WAITERS, "Calls for a lock that have not returned"),
            (HELD, "Locks that are held"),
            (LEADER, "Elections that are led"),
            (RELEASE_PENDING, "Keys that are being deleted, not yet confirmed by the store"),
        ] {
            describe_gauge!(name, Unit::Count, what);
        }
        describe_gauge!(
            REMAINING,
            Unit::Seconds,
            "How long the session in use that was proved least recently is certain to live"
        );
        for (name, what) in [
            (LOST, "Locks that were lost while they were held"),
            (OPENED, "Sessions that were opened"),
            (KEEPALIVE_FAILURES, "Proofs of life that failed"),
            (RECHECK, "Changes that no watch had told, found by looking again"),
            (WRITE_REJECTED, "Guarded writes that were refused because the lock was lost"),
        ] {
            describe_counter!(name, Unit::Count, what);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod on {
    use super::*;

    pub(crate) fn count(_: &'static str, _: Labels<'_>) {}

    pub(crate) fn step(_: &'static str, _: bool, _: Labels<'_>) {}

    pub(crate) fn set(_: &'static str, _: f64, _: Labels<'_>) {}

    pub(crate) fn time(_: &'static str, _: Duration, _: Labels<'_>) {}

    pub(crate) fn describe() {}
}

pub(super) use on::{count, describe, set, step, time};
