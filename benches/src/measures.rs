//! The measures of slices.

use std::{
    collections::{BTreeMap, BTreeSet},
    slice::from_ref,
};

use distlock_testkit::median::median;
use serde::{Deserialize, Serialize};

use crate::{
    backend::Backend,
    case::Variant,
    counters::Counters,
    slice::Slice,
    statistics::{middle, quantile, spread},
    task::Subject,
    workload::Workload,
};

pub(crate) const PER_SECOND: &str = "per second";
pub(crate) const OF_FLOOR: &str = "of floor";
pub(crate) const OF_FLOOR_MIN: &str = "of floor, least";
pub(crate) const OF_FLOOR_MAX: &str = "of floor, most";
pub(crate) const LOCK: [&str; 2] = ["lock p50 ms", "lock p99 ms"];
pub(crate) const UNLOCK: [&str; 2] = ["unlock p50 ms", "unlock p99 ms"];
/// How often the lock passed from one contender to another.
pub(crate) const HANDED: &str = "handed over per second";
pub(crate) const LONGEST: &str = "longest wait ms";
pub(crate) const GAP: [&str; 2] = ["gap p50 ms", "gap p99 ms"];
pub(crate) const RAW: [&str; 2] = ["raw write p50 ms", "raw write p99 ms"];
pub(crate) const LOCK_TRIPS: &str = "lock round trips";
pub(crate) const UNLOCK_TRIPS: &str = "unlock round trips";
pub(crate) const GAP_TRIPS: &str = "gap round trips";
pub(crate) const REQUESTS: &str = "requests per pair";
pub(crate) const WATCH: &str = "watch messages per pair";
pub(crate) const EVENTS: &str = "events per pair";
pub(crate) const BYTES: &str = "bytes to client per pair";
/// To Redis' append-only file.
pub(crate) const LOGGED: &str = "logged bytes per pair";
pub(crate) const CPU: &str = "client cpu us per pair";
pub(crate) const RSS: &str = "rss MB";
pub(crate) const RSS_PEAK: &str = "rss peak MB";
pub(crate) const SLICES: &str = "slices";
/// Until the store has the keys of all waiters.
pub(crate) const ENQUEUE: &str = "enqueue s";
pub(crate) const BYTES_DRAINED: &str = "bytes to client per handoff while drained";
/// Of all waiters while they do nothing else, including renewals of the session.
pub(crate) const WAITING: &str = "requests a minute while all wait";
/// Of another client that waits behind a single one, including its renewals.
pub(crate) const STRANGER: &str = "requests a minute of one more client that waits";
pub(crate) const RENEWALS: &str = "renewals among them";
/// From the call of `lock()` until its row is in the store, as another connection sees it.
pub(crate) const JOINED: [&str; 2] = ["join p50 ms", "join p99 ms"];
pub(crate) const JOIN_STATEMENTS: &str = "statements per join and leave";
pub(crate) const TAKE: &str = "take all s";
pub(crate) const RELEASE: &str = "release all s";
pub(crate) const RSS_LOCK: &str = "rss B per held lock";
pub(crate) const SESSIONS: &str = "sessions";
/// In a third of the TTL, per lease or session, while locks are only held: renewals of a lease;
/// requests of a session except pings.
pub(crate) const KEEPALIVES: &str = "keepalive requests per third of the TTL";
/// All requests in that time, including pings.
pub(crate) const HOLDING: &str = "all requests per third of the TTL";

/// Of the whole fleet, including messages to watch streams.
pub(crate) const LOAD: &str = "requests a second";
pub(crate) const ASKED: &str = "requests per hand-over";
/// Of the server's processes.
pub(crate) const SERVER_CPU: &str = "server cpu us per hand-over";
/// Of all work of the server for a pair.
pub(crate) const PAIR_CPU: &str = "server cpu us per pair";

type Times = fn(&Slice) -> &Vec<u64>;

/// One subject in one case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) workload: Workload,
    pub(crate) backend: Backend,
    pub(crate) variant: Variant,
    /// How long each holder keeps the lock.
    pub(crate) hold_ms: u64,
    pub(crate) n: usize,
    pub(crate) subject: Subject,
}

/// The results of one repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) slices: Vec<(Slice, Counters)>,
    /// The ratios to the floor just before each slice.
    pub(crate) ratios: Vec<f64>,
    /// Measures that do not come from slices: the median of each is used.
    pub(crate) others: BTreeMap<&'static str, Vec<f64>>,
    pub(crate) errors: u64,
    pub(crate) error: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) key: Key,
    pub(crate) name: String,
    pub(crate) measures: BTreeMap<String, f64>,
    /// The minimum and the maximum over the single repeats, if there are several.
    #[serde(default)]
    pub(crate) spread: BTreeMap<String, [f64; 2]>,
    pub(crate) errors: u64,
    pub(crate) error: Option<String>,
}

impl Row {
    pub(crate) fn get(&self, measure: &str) -> Option<f64> {
        self.measures.get(measure).copied()
    }
}

impl Seen {
    pub(crate) fn failed(&mut self, error: impl ToString) {
        self.errors += 1;
        self.error.get_or_insert_with(|| error.to_string());
    }

    pub(crate) fn add(&mut self, slice: Slice, counted: Counters) {
        self.errors += slice.errors;
        self.error = self.error.take().or_else(|| slice.error.clone());
        self.slices.push((slice, counted));
    }

    pub(crate) fn other(&mut self, measure: &'static str, value: f64) {
        self.others.entry(measure).or_default().push(value);
    }
}

/// Combines all repeats, with their spread.
pub(crate) fn row(key: Key, repeats: &[Seen]) -> Row {
    let mut spread = BTreeMap::new();
    let many = repeats.len() > 1;
    for (name, value) in
        repeats.iter().filter(|_| many).flat_map(|seen| measures(key, from_ref(seen)))
    {
        let [least, most] = spread.entry(name).or_insert([value; 2]);
        (*least, *most) = (least.min(value), most.max(value));
    }
    let name = key.variant.others(key.subject);
    let name = name.unwrap_or_else(|| key.subject.name(key.backend)).to_owned();
    let errors = repeats.iter().map(|seen| seen.errors).sum();
    let error = repeats.iter().find_map(|seen| seen.error.clone());
    Row { key, name, measures: measures(key, repeats), spread, errors, error }
}

fn measures(key: Key, repeats: &[Seen]) -> BTreeMap<String, f64> {
    let mut measures = BTreeMap::new();
    let mut put = |name: &str, value: Option<f64>| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            measures.insert(name.to_owned(), value);
        }
    };
    let counted = || repeats.iter().flat_map(|seen| &seen.slices);
    let slices = || counted().map(|(slice, _)| slice);
    put(SLICES, Some(slices().count() as f64).filter(|count| *count > 0.0));
    put(PER_SECOND, median(slices().filter_map(rate)).filter(|_| key.workload != Workload::W6));
    let ratios: Vec<_> = repeats.iter().flat_map(|seen| seen.ratios.iter().copied()).collect();
    if let Some((middle, least, most)) = spread(&ratios) {
        put(OF_FLOOR, Some(middle));
        put(OF_FLOOR_MIN, Some(least));
        put(OF_FLOOR_MAX, Some(most));
    }
    let kinds: [(_, Times); 4] =
        [(LOCK, |s| &s.lock), (UNLOCK, |s| &s.unlock), (GAP, |s| &s.gap), (RAW, |s| &s.raw_write)];
    for (names, times) in kinds {
        // All samples together: a stall that is rare within a slice is not lost.
        let mut all: Vec<_> = slices().flat_map(times).map(|time| *time as f64 / 1e6).collect();
        put(names[0], quantile(&mut all, 0.5));
        put(names[1], quantile(&mut all, 0.99));
    }
    let contended = slices().any(|slice| !slice.gap.is_empty());
    let handed = |slice: &Slice| Some(slice.gap.len() as f64 / (slice.time as f64 / 1e9));
    put(HANDED, median(slices().filter_map(handed)).filter(|_| contended));
    put(LONGEST, slices().map(|slice| slice.longest as f64 / 1e6).reduce(f64::max));
    let trips = |times: Times| {
        median(slices().filter_map(|slice| Some(middle(times(slice))? / middle(&slice.raw_write)?)))
    };
    put(LOCK_TRIPS, trips(|slice| &slice.lock));
    put(UNLOCK_TRIPS, trips(|slice| &slice.unlock));
    put(GAP_TRIPS, trips(|slice| &slice.gap));

    // Without slices in which almost nothing was done: their quotients would describe the failure.
    let done = || counted().filter(|(slice, _)| slice.pairs > 0);
    let pairs = done().map(|(slice, _)| slice.all_pairs as f64).sum::<f64>();
    let per_pair = |counter: fn(&Counters) -> f64| {
        Some(done().map(|(_, counted)| counter(counted)).sum::<f64>() / pairs)
    };
    let load = key.variant == Variant::Busy;
    let asked = done().map(|(slice, _)| slice.asked).sum::<u64>() as f64;
    if asked > 0.0 {
        put(REQUESTS, Some(asked / pairs));
    } else {
        put(REQUESTS, per_pair(if load { |c| c.requests - c.puts } else { |c| c.requests }));
    }
    put(WATCH, per_pair(|c| c.watch_messages));
    put(EVENTS, per_pair(|c| c.events));
    // The replies to the load are included.
    put(BYTES, per_pair(|c| c.bytes).filter(|_| !load));
    put(LOGGED, per_pair(|c| c.logged).filter(|bytes| *bytes > 0.0));
    put(CPU, Some(done().map(|(slice, _)| slice.cpu as f64 / 1e3).sum::<f64>() / pairs));
    put(RSS, slices().map(|slice| slice.rss as f64 / 1024.0).reduce(f64::max));
    put(RSS_PEAK, slices().map(|slice| slice.rss_peak as f64 / 1024.0).reduce(f64::max));
    let others = || repeats.iter().flat_map(|seen| &seen.others);
    for name in others().map(|(name, _)| *name).collect::<BTreeSet<_>>() {
        let values = others().filter(|(other, _)| **other == name).flat_map(|(_, values)| values);
        put(name, median(values.copied()));
    }
    measures
}

/// Pairs a second.
pub(crate) fn rate(slice: &Slice) -> Option<f64> {
    (slice.time > 0).then(|| slice.pairs as f64 / (slice.time as f64 / 1e9))
}
