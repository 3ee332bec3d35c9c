//! The reports of holds, sessions and requests, which several threads make.

use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use metrics::{
    Counter, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};
use shuttle::thread;

use super::join;
use crate::{
    lost::LostReason,
    runtime::random,
    sync::interrupt,
    telemetry::{Accounts, Call, Ended, Primitive, Slot, Telemetry},
};

/// What was reported.
#[derive(Default)]
struct Reports {
    /// The number of locks that are held, and the last value of a gauge.
    held: AtomicI64,
    last: Mutex<Option<f64>>,
    /// The number of holds that have ended.
    holds: AtomicUsize,
    /// The addresses of the keys.
    keys: Mutex<BTreeSet<usize>>,
}

#[derive(Clone, Default)]
struct Reported(Arc<Reports>);

impl GaugeFn for Reports {
    fn increment(&self, value: f64) {
        self.held.fetch_add(value as i64, SeqCst);
    }

    fn decrement(&self, value: f64) {
        self.held.fetch_sub(value as i64, SeqCst);
    }

    fn set(&self, value: f64) {
        interrupt();
        *self.last.lock().expect("no thread panics") = Some(value);
    }
}

impl HistogramFn for Reports {
    fn record(&self, _: f64) {
        self.holds.fetch_add(1, SeqCst);
    }
}

impl Recorder for Reported {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.0.keys.lock().expect("no thread panics").insert(std::ptr::from_ref(key).addr());
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match key.name() {
            "distlock.held" | "distlock.session.remaining" => Gauge::from_arc(Arc::clone(&self.0)),
            _ => Gauge::noop(),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match key.name() {
            "distlock.hold.duration" => Histogram::from_arc(Arc::clone(&self.0)),
            _ => Histogram::noop(),
        }
    }
}

/// All threads of the scheduler run on one thread of the machine, which has this recorder.
static REPORTED: LazyLock<Reported> = LazyLock::new(Reported::default);

/// Runs the exploration of a scenario with the recorder.
pub fn recorded(explore: impl FnOnce()) {
    with_local_recorder(&*REPORTED, explore);
}

/// Forgets the reports of the last execution.
fn reports() -> &'static Reports {
    let reports = &*REPORTED.0;
    reports.held.store(0, SeqCst);
    reports.holds.store(0, SeqCst);
    *reports.last.lock().expect("no thread panics") = None;
    reports.keys.lock().expect("no thread panics").clear();
    reports
}

/// A hold ends once, although its guard, the end of its session and an eviction are reported at
/// once.
pub fn hold_is_reported_once() {
    let reports = reports();
    let (accounts, slot) = (Accounts::default(), Arc::new(Slot::default()));
    let call = Call::new(Telemetry::default(), Primitive::Mutex, "a", false);
    let account = call.granted(1, &accounts, &slot);
    let threads = [
        thread::spawn(move || accounts.lose(LostReason::SessionExpired)),
        thread::spawn(move || slot.lose(LostReason::Evicted)),
    ];
    account.ended(Ended::Released);
    threads.into_iter().for_each(join);
    assert_eq!((reports.held.load(SeqCst), reports.holds.load(SeqCst)), (0, 1));
}

/// Threads that report the same metric use the same key.
pub fn metric_has_one_key() {
    let reports = reports();
    // A name that no other execution has used.
    let backend: &str = Box::leak(random::id().to_string().into());
    // One address: a text at two addresses costs a second key.
    let operation = "waiter";
    let report = move || Telemetry::new(backend, None).recheck_found(operation);
    let threads = [(); 2].map(|()| thread::spawn(report));
    report();
    threads.into_iter().for_each(join);
    assert_eq!(reports.keys.lock().expect("no thread panics").len(), 1);
}

/// The gauge shows the shortest time of the sessions in use, whichever reports last.
pub fn shortest_remaining_time_is_shown() {
    let reports = reports();
    let renewals = [5, 3].map(|seconds| {
        thread::spawn(move || {
            let renewals = Telemetry::default().renewals();
            renewals.remaining(|| Some(Duration::from_secs(seconds)));
            renewals
        })
    });
    let renewals = renewals.map(join);
    let shown = *reports.last.lock().expect("no thread panics");
    assert_eq!(shown, Some(3.0));
    drop(renewals);
}
