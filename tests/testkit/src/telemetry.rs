//! Listens to the signals that a library emits through the crates `metrics` and `tracing`, and
//! passes them on as plain values in the order of emission.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, Once, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
};

/// The fields of a span or an event, or the labels of a metric.
pub type Fields = BTreeMap<String, String>;

/// One signal: a change of a metric, a span or an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Signal {
    /// A counter was incremented by this amount.
    Counted(String, Fields, u64),
    /// A gauge changed by this amount.
    Changed(String, Fields, f64),
    /// A gauge was set to this value.
    Set(String, Fields, f64),
    /// A histogram recorded this value.
    Measured(String, Fields, f64),
    /// A metric was described: `counter`, `gauge` or `histogram`, its name, and its unit.
    Described(&'static str, String, String),
    /// A span was opened.
    Opened(String, Fields),
    /// A span was closed, with all fields that it ever had.
    Closed(String, Fields),
    /// An event: its level, its message, its other fields, and its spans, the outermost first.
    Logged(String, String, Fields, Vec<String>),
}

type Sink = Arc<dyn Fn(Signal) + Send + Sync>;

/// The listeners, each with its number.
static SINKS: Mutex<Vec<(u64, Sink)>> = Mutex::new(Vec::new());

fn sinks() -> MutexGuard<'static, Vec<(u64, Sink)>> {
    SINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Holds no lock while it calls a listener, which may emit signals itself.
fn emit(signal: &Signal) {
    let all: Vec<_> = sinks().iter().map(|(_, sink)| Arc::clone(sink)).collect();
    all.iter().for_each(|sink| sink(signal.clone()));
}

/// A listener, until it is dropped.
#[derive(Debug)]
#[must_use = "the listener ends when this is dropped"]
pub struct Listening(u64);

impl Listening {
    /// Keeps the listener until the process ends.
    pub fn for_life(self) {
        std::mem::forget(self);
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        sinks().retain(|(number, _)| *number != self.0);
    }
}

/// Adds a listener for every signal that distlock emits in this process. There may be several.
pub fn listen(sink: impl Fn(Signal) + Send + Sync + 'static) -> Listening {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        metrics::set_global_recorder(Ear).expect("the only recorder");
        tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Eye))
            .expect("the only subscriber");
    });
    let number = NUMBER.fetch_add(1, Relaxed);
    sinks().push((number, Arc::new(sink)));
    Listening(number)
}

/// Receives metrics.
struct Ear;

/// One metric.
struct Metric {
    name: String,
    labels: Fields,
}

impl Metric {
    fn new(key: &Key) -> Arc<Self> {
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned()));
        let (name, labels) = (key.name().to_owned(), labels.collect());
        Arc::new(Self { name, labels })
    }

    fn emit<T>(&self, signal: fn(String, Fields, T) -> Signal, value: T) {
        emit(&signal(self.name.clone(), self.labels.clone(), value));
    }
}

impl CounterFn for Metric {
    fn increment(&self, by: u64) {
        self.emit(Signal::Counted, by);
    }

    fn absolute(&self, value: u64) {
        panic!("the counter {} is set to {value} instead of incremented", self.name);
    }
}

impl GaugeFn for Metric {
    fn increment(&self, by: f64) {
        self.emit(Signal::Changed, by);
    }

    fn decrement(&self, by: f64) {
        self.emit(Signal::Changed, -by);
    }

    fn set(&self, value: f64) {
        self.emit(Signal::Set, value);
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        self.emit(Signal::Measured, value);
    }
}

impl Ear {
    fn described(&self, kind: &'static str, name: &KeyName, unit: Option<Unit>) {
        let unit = unit.map_or("", |unit| unit.as_str());
        emit(&Signal::Described(kind, name.as_str().to_owned(), unit.to_owned()));
    }
}

impl Recorder for Ear {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.described("counter", &key, unit);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.described("gauge", &key, unit);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        self.described("histogram", &key, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Metric::new(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Metric::new(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Metric::new(key))
    }
}

/// Receives spans and events.
struct Eye;

#[derive(Default)]
struct Reading(Fields);

impl Visit for Reading {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Eye {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().split("::").next() == Some("distlock")
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut reading = Reading::default();
        attributes.record(&mut reading);
        let name = attributes.metadata().name().to_owned();
        emit(&Signal::Opened(name, reading.0.clone()));
        context.span(id).expect("a span").extensions_mut().insert(reading);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).expect("a span");
        values.record(span.extensions_mut().get_mut::<Reading>().expect("its fields"));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut reading = Reading::default();
        event.record(&mut reading);
        let spans = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
        let spans = spans.map(|span| span.name().to_owned()).collect();
        let message = reading.0.remove("message").unwrap_or_default();
        let level = event.metadata().level().to_string();
        emit(&Signal::Logged(level, message, reading.0, spans));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).expect("a span");
        let fields = span.extensions_mut().remove::<Reading>().expect("its fields").0;
        emit(&Signal::Closed(span.name().to_owned(), fields));
    }
}
