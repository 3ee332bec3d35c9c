//! Collects the signals of this process, and counts them.

use std::{
    cell::Cell,
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, Once, PoisonError},
    time::{Duration, Instant},
};

use distlock::{Builder, Client, LockGuard};
use distlock_testkit::telemetry::{Fields, Signal, listen};
use tokio::time::sleep;

/// All signals of this process so far.
static SIGNALS: Mutex<Vec<Signal>> = Mutex::new(Vec::new());

fn signals() -> MutexGuard<'static, Vec<Signal>> {
    SIGNALS.lock().unwrap_or_else(PoisonError::into_inner)
}

type Visitor = Box<dyn Fn() + Send>;

static VISITORS: Mutex<Vec<Visitor>> = Mutex::new(Vec::new());

fn visitors() -> MutexGuard<'static, Vec<Visitor>> {
    VISITORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls the visitor until it is dropped.
pub(crate) struct Visiting;

impl Drop for Visiting {
    fn drop(&mut self) {
        visitors().clear();
    }
}

thread_local! {
    static VISITING: Cell<bool> = const { Cell::new(false) };
}

/// A signal during a visit causes no further visit.
fn visit() {
    if !VISITING.replace(true) {
        visitors().iter().for_each(|visitor| visitor());
        VISITING.set(false);
    }
}

/// The signals of one test's locks, selected by the name of its store, with which all of their
/// names begin; and of its sessions, if no other test has the same backend.
pub(crate) struct Listener {
    pub(crate) name: &'static str,
}

impl Listener {
    pub(crate) fn new(name: &'static str) -> Self {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let listening = listen(|it| {
                signals().push(it);
                visit();
            });
            listening.for_life();
        });
        Self { name }
    }

    /// Until the returned value is dropped, every signal calls the visitor at once.
    pub(crate) fn visitor(&self, visitor: impl Fn() + Send + 'static) -> Visiting {
        visitors().push(Box::new(visitor));
        Visiting
    }

    /// Returns a builder whose metrics have the locks' names.
    pub(crate) fn builder(&self) -> Builder {
        Client::builder(format!("memory://{}", self.name))
            .owner(format!("owner of {}", self.name))
            .metric_label(str::to_owned)
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.expect("connected")
    }

    pub(crate) fn lock(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    /// Returns all signals of this test's locks.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        let of = |fields: &Fields, key| fields.get(key).is_some_and(|it| it.starts_with(self.name));
        let ours = |it: &&Signal| match it {
            Signal::Counted(_, labels, _)
            | Signal::Changed(_, labels, _)
            | Signal::Set(_, labels, _)
            | Signal::Measured(_, labels, _) => of(labels, "lock"),
            Signal::Described(..) => false,
            Signal::Opened(_, fields)
            | Signal::Closed(_, fields)
            | Signal::Logged(_, _, fields, _) => of(fields, "name"),
        };
        signals().iter().filter(ours).cloned().collect()
    }

    /// Counts the signals: the number of values of histograms, the sums of counters, the last and
    /// the highest value of gauges, the closed and open spans, and the log.
    pub(crate) fn counts(&self) -> BTreeMap<String, i64> {
        let mut counts = BTreeMap::new();
        let mut add = |what: String, by: i64| *counts.entry(what).or_default() += by;
        let mut highest = BTreeMap::<String, i64>::new();
        let mut now = BTreeMap::<String, i64>::new();
        for it in self.signals() {
            match it {
                Signal::Counted(name, labels, by) => add(line(&name, &labels), by as i64),
                Signal::Measured(name, labels, value) => {
                    assert!((0.0..60.0).contains(&value), "{name} is not in seconds: {value}");
                    add(line(&name, &labels), 1);
                }
                Signal::Changed(name, labels, by) => {
                    let line = line(&name, &labels);
                    let now = now.entry(line.clone()).or_default();
                    *now += by as i64;
                    assert!(*now >= 0, "{line} is {now}");
                    let highest = highest.entry(line).or_default();
                    *highest = (*highest).max(*now);
                }
                Signal::Set(name, ..) => panic!("{name} is no metric of a lock"),
                Signal::Described(..) => {}
                Signal::Opened(name, _) => add(format!("open {name}"), 1),
                Signal::Closed(name, fields) => {
                    add(format!("open {name}"), -1);
                    let field = |key| fields.get(key).map_or("-", String::as_str);
                    let token = if fields.contains_key("token") { " token" } else { "" };
                    let place = fields.get("place").map(|it| format!(" place={it}"));
                    add(
                        format!(
                            "span {name} {} {}{token}{}",
                            field("primitive"),
                            field("outcome"),
                            place.unwrap_or_default()
                        ),
                        1,
                    );
                }
                Signal::Logged(level, message, fields, _) => {
                    let message = message.split(':').next().unwrap_or_default().to_owned();
                    let reason = fields.get("reason").map_or("", String::as_str);
                    add(format!("{level} {message} {reason}").trim().to_owned(), 1);
                }
            }
        }
        for (line, now) in now {
            add(format!("{line} now"), now);
        }
        for (line, most) in highest {
            add(format!("{line} most"), most);
        }
        counts.retain(|_, count| *count != 0);
        counts
    }

    /// Waits until exactly these signals have been emitted.
    pub(crate) async fn expect(&self, expected: &[(&str, i64)]) {
        let expected: BTreeMap<_, _> =
            expected.iter().map(|(what, count)| ((*what).to_owned(), *count)).collect();
        let began = Instant::now();
        while self.counts() != expected {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "{}:\n{:#?}\ninstead of\n{expected:#?}",
                self.name,
                self.counts()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Returns a listener, and a separate client that holds a lock.
pub(crate) async fn locked(name: &'static str) -> (Listener, Client, LockGuard) {
    locked_with(name, |builder| builder).await
}

/// Returns a listener, and a client with these settings that holds a lock.
pub(crate) async fn locked_with(
    name: &'static str,
    adjust: impl FnOnce(Builder) -> Builder,
) -> (Listener, Client, LockGuard) {
    let listener = Listener::new(name);
    let client = adjust(listener.builder()).connect().await.expect("connected");
    let guard = client.mutex(listener.lock("a")).lock().await.expect("granted");
    (listener, client, guard)
}

/// Returns all signals of all locks.
pub(crate) fn all() -> Vec<Signal> {
    signals().clone()
}

/// Returns the first matching signal.
pub(crate) fn first(is: impl Fn(&Signal) -> bool) -> Option<Signal> {
    signals().iter().find(|it| is(it)).cloned()
}

/// Formats a metric with its labels, except those of the lock and the backend.
fn line(name: &str, labels: &Fields) -> String {
    assert_eq!(labels.get("backend").map(String::as_str), Some("memory"), "{name}");
    let labels = labels.iter().filter(|(key, _)| !matches!(&***key, "lock" | "backend"));
    let name = name.strip_prefix("distlock.").expect("a name of ours");
    labels.fold(name.to_owned(), |line, (_, value)| format!("{line} {value}"))
}
