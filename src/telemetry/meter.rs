//! Metrics with OpenTelemetry names. Durations are in seconds. Gauges that count return to zero.

use std::{sync::Arc, time::Duration};

pub(super) static ACQUIRE: Metric = Metric::new("distlock.acquire.duration");
pub(super) static HOLD: Metric = Metric::new("distlock.hold.duration");
pub(super) static WAITERS: Metric = Metric::new("distlock.waiters");
pub(super) static HELD: Metric = Metric::new("distlock.held");
pub(super) static LEADER: Metric = Metric::new("distlock.leader");
pub(super) static LOST: Metric = Metric::new("distlock.lost");
pub(super) static REMAINING: Metric = Metric::new("distlock.session.remaining");
pub(super) static OPENED: Metric = Metric::new("distlock.session.opened");
pub(super) static KEEPALIVE: Metric = Metric::new("distlock.keepalive.duration");
pub(super) static KEEPALIVE_FAILURES: Metric = Metric::new("distlock.keepalive.failures");
pub(super) static REQUEST: Metric = Metric::new("distlock.store.request.duration");
pub(super) static RECHECK: Metric = Metric::new("distlock.recheck.found");
pub(super) static RELEASE_PENDING: Metric = Metric::new("distlock.release.pending");
pub(super) static WRITE_REJECTED: Metric = Metric::new("distlock.write.rejected");

/// The labels of a value.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
pub(super) struct Labels<'a> {
    pub(super) backend: &'static str,
    pub(super) primitive: Option<&'static str>,
    /// The user's metric label for the lock.
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
        Key, Label, Level, Metadata, Recorder, SharedString, Unit, describe_counter,
        describe_gauge, describe_histogram, with_recorder,
    };

    use super::*;
    use crate::runtime::mutex::Mutex;

    static METADATA: Metadata<'_> = Metadata::new("distlock", Level::INFO, Some(module_path!()));

    /// The addresses of a key's static texts. A text at two addresses costs a second key. The
    /// number of attributes alone determines which attributes a metric has.
    type Id = [(usize, usize); 4];

    /// A metric with its keys.
    ///
    /// Creating a key costs more than recording its value, so each key is created once and kept.
    /// There are at most a few dozen, because keys with lock names are not kept.
    #[derive(Debug)]
    pub(crate) struct Metric {
        name: &'static str,
        keys: Mutex<Vec<(Id, &'static Key)>>,
    }

    impl Metric {
        pub(super) const fn new(name: &'static str) -> Self {
            Self { name, keys: Mutex::new(Vec::new()) }
        }

        /// Records a value.
        ///
        /// The recorder is looked up each time, because it may have changed or may be local to this
        /// thread.
        fn record(&self, labels: Labels<'_>, what: impl FnOnce(&dyn Recorder, &Key)) {
            match labels.id() {
                Some(id) => {
                    let key = self.key(id, labels);
                    with_recorder(|recorder| what(recorder, key));
                }
                None => {
                    let key = Key::from_parts(self.name, labels.make());
                    with_recorder(|recorder| what(recorder, &key));
                }
            }
        }

        fn key(&self, id: Id, labels: Labels<'_>) -> &'static Key {
            let mut keys = self.keys.lock();
            if let Some((_, key)) = keys.iter().find(|(known, _)| *known == id) {
                return key;
            }
            // Recorders do not copy static labels.
            let labels = Vec::leak(labels.make());
            let key = Box::leak(Box::new(Key::from_static_parts(self.name, labels)));
            keys.push((id, key));
            key
        }
    }

    impl Labels<'_> {
        fn id(&self) -> Option<Id> {
            let (first, second) = match self.more {
                [] => (None, None),
                [(_, first)] => (Some(*first), None),
                [(_, first), (_, second)] => (Some(*first), Some(*second)),
                _ => return None,
            };
            let texts = [Some(self.backend), self.primitive, first, second];
            let place = |text: &str| (text.as_ptr().addr(), text.len());
            self.lock.is_none().then(|| texts.map(|text| text.map_or((0, 0), place)))
        }

        fn make(self) -> Vec<Label> {
            let mut labels = Vec::with_capacity(3 + self.more.len());
            labels.push(Label::from_static_parts("backend", self.backend));
            labels.extend(self.primitive.map(|it| Label::from_static_parts("primitive", it)));
            let lock = self.lock.map(Arc::clone).map(SharedString::from);
            labels.extend(lock.map(|lock| Label::new("lock", lock)));
            labels.extend(self.more.iter().map(|(key, it)| Label::from_static_parts(key, it)));
            labels
        }
    }

    pub(crate) fn count(metric: &Metric, labels: Labels<'_>) {
        metric.record(labels, |recorder, key| {
            recorder.register_counter(key, &METADATA).increment(1);
        });
    }

    pub(crate) fn step(metric: &Metric, up: bool, labels: Labels<'_>) {
        metric.record(labels, |recorder, key| {
            let gauge = recorder.register_gauge(key, &METADATA);
            if up { gauge.increment(1.0) } else { gauge.decrement(1.0) }
        });
    }

    pub(crate) fn set(metric: &Metric, value: f64, labels: Labels<'_>) {
        metric.record(labels, |recorder, key| recorder.register_gauge(key, &METADATA).set(value));
    }

    pub(crate) fn time(metric: &Metric, time: Duration, labels: Labels<'_>) {
        metric.record(labels, |recorder, key| {
            recorder.register_histogram(key, &METADATA).record(time.as_secs_f64());
        });
    }

    /// Describes the metrics to the recorder.
    ///
    /// Each client does this, because the recorder may have been installed after the last one.
    /// Repeating it is harmless.
    pub(crate) fn describe() {
        for (metric, what) in [
            (&ACQUIRE, "Duration of calls that acquire a lock, by outcome"),
            (&HOLD, "Time from a grant to its release or loss, by outcome"),
            (&KEEPALIVE, "Duration of keepalives"),
            (&REQUEST, "Duration of requests to the store"),
        ] {
            describe_histogram!(metric.name, Unit::Seconds, what);
        }
        for (metric, what) in [
            (&WAITERS, "Acquire calls that have not returned yet"),
            (&HELD, "Locks that are held"),
            (&LEADER, "Elections that this process leads"),
            (&RELEASE_PENDING, "Keys whose deletion the store has not confirmed yet"),
        ] {
            describe_gauge!(metric.name, Unit::Count, what);
        }
        describe_gauge!(
            REMAINING.name,
            Unit::Seconds,
            "Time until the earliest deadline of any session in use"
        );
        for (metric, what) in [
            (&LOST, "Locks that were lost while they were held or being released"),
            (&OPENED, "Sessions that were opened"),
            (&KEEPALIVE_FAILURES, "Failed keepalives"),
            (&RECHECK, "Changes that a recheck found and no watch had reported"),
            (&WRITE_REJECTED, "Guarded writes that were refused because the lock was lost"),
        ] {
            describe_counter!(metric.name, Unit::Count, what);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod on {
    use super::*;

    #[derive(Debug)]
    pub(crate) struct Metric;

    impl Metric {
        pub(super) const fn new(_: &'static str) -> Self {
            Self
        }
    }

    pub(crate) fn count(_: &Metric, _: Labels<'_>) {}

    pub(crate) fn step(_: &Metric, _: bool, _: Labels<'_>) {}

    pub(crate) fn set(_: &Metric, _: f64, _: Labels<'_>) {}

    pub(crate) fn time(_: &Metric, _: Duration, _: Labels<'_>) {}

    pub(crate) fn describe() {}
}

pub(super) use on::{Metric, count, describe, set, step, time};
