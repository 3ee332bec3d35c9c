//! The targets for distlock, and whether a run has met them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    args::Bench,
    backend::Backend,
    case::Variant,
    measures::{
        BYTES, CPU, EVENTS, GAP, GAP_TRIPS, HANDED, JOIN_STATEMENTS, JOINED, KEEPALIVES, Key,
        LOCK_TRIPS, LOGGED, OF_FLOOR, PAIR_CPU, PER_SECOND, REQUESTS, RSS, RSS_LOCK, Row, STRANGER,
        UNLOCK_TRIPS,
    },
    statistics::round,
    task::Subject,
    workload::Workload,
};
use Backend::{Etcd, Mysql, Postgres, Redis, ZooKeeper};
use Subject::{Peer, RedisPy, Redisson, UniqueKey};
use Variant::{Across, Busy, Plain};
use What::{
    BytesOfShortQueue, CpuOfFloor, GapOfTwo, Lateness, LatenessOfFloor, Measure, Over,
    OverBestPeer, OverFewer, OverShortQueue, WithoutWatches,
};
use Workload::{W1, W2, W3, W4, W5, W6, W8, W9};

#[derive(Clone, Copy, Debug)]
enum What {
    Measure(&'static str),
    /// The share of the floor, divided by the share that the best peer of the run reaches.
    OverBestPeer,
    /// The client's processor time per pair, divided by the floor's.
    CpuOfFloor,
    /// The 99th percentile of the gap, in milliseconds.
    Lateness,
    /// The 99th percentile of the gap, divided by the floor's.
    LatenessOfFloor,
    /// Requests per pair, without those that set a watch.
    WithoutWatches,
    /// The median of the gap, divided by that of two contenders.
    GapOfTwo,
    /// Bytes per handover, divided by those of 16 contenders.
    BytesOfShortQueue,
    /// Divided by the same figure behind 16 waiters.
    OverShortQueue(&'static str),
    /// Handovers a second, divided by those of 500 clients.
    OverFewer,
    /// A figure, divided by that of this subject.
    Over(Subject, &'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// At least this, or 0.85 of the figure of distlock's scripts alone, if that is lower.
    OrOfScripts(f64),
}
use Bound::{AtLeast, AtMost, OrOfScripts};

#[derive(Clone, Copy, Debug)]
struct Target {
    workload: Workload,
    backend: Backend,
    variant: Variant,
    n: usize,
    what: What,
    bound: Bound,
    /// The best peer's figure, as measured elsewhere; "" if there is none.
    peer: &'static str,
}

const fn on(
    workload: Workload,
    backend: Backend,
    variant: Variant,
    n: usize,
    what: What,
    bound: Bound,
    peer: &'static str,
) -> Target {
    Target { workload, backend, variant, n, what, bound, peer }
}

const RATIO: What = Measure(OF_FLOOR);

#[rustfmt::skip] // a table
const TARGETS: &[Target] = &[
    on(W1, Etcd, Plain, 1, OverBestPeer, AtLeast(0.95), ""),
    on(W1, Etcd, Plain, 1, CpuOfFloor, AtMost(1.3), "1.0"),
    on(W1, ZooKeeper, Plain, 1, OverBestPeer, AtLeast(1.0), ""),
    on(W1, ZooKeeper, Plain, 1, CpuOfFloor, AtMost(3.0), "3.2"),
    on(W2, Etcd, Plain, 64, RATIO, AtLeast(0.90), "0.80"),
    on(W2, Etcd, Plain, 64, OverBestPeer, AtLeast(1.0), ""),
    on(W2, ZooKeeper, Plain, 64, RATIO, AtLeast(0.90), "0.63"),
    on(W2, ZooKeeper, Plain, 64, OverBestPeer, AtLeast(1.0), ""),
    on(W3, Etcd, Plain, 2, RATIO, AtLeast(0.80), "0.016"),
    on(W3, Etcd, Plain, 16, RATIO, AtLeast(0.80), "0.070"),
    on(W3, Etcd, Plain, 128, RATIO, AtLeast(0.80), "0.26"),
    on(W3, ZooKeeper, Plain, 2, RATIO, AtLeast(0.70), "0.46"),
    on(W3, ZooKeeper, Plain, 16, RATIO, AtLeast(0.70), "0.35"),
    on(W3, ZooKeeper, Plain, 128, RATIO, AtLeast(0.70), "0.28"),
    on(W3, Etcd, Plain, 2, Lateness, AtMost(5.0), "100"),
    on(W3, Etcd, Plain, 16, Lateness, AtMost(5.0), "85"),
    on(W3, Etcd, Busy, 2, Lateness, AtMost(5.0), ""),
    on(W3, Etcd, Busy, 16, Lateness, AtMost(5.0), ""),
    on(W3, ZooKeeper, Plain, 2, LatenessOfFloor, AtMost(2.0), "2.9"),
    on(W3, ZooKeeper, Plain, 16, LatenessOfFloor, AtMost(2.0), "2.5"),
    on(W3, Etcd, Plain, 2, WithoutWatches, AtMost(3.1), "2.0"),
    on(W3, Etcd, Plain, 16, WithoutWatches, AtMost(3.1), "2.0"),
    on(W3, Etcd, Plain, 128, WithoutWatches, AtMost(3.1), "2.0"),
    on(W3, ZooKeeper, Plain, 2, WithoutWatches, AtMost(3.1), "4.0"),
    on(W3, ZooKeeper, Plain, 16, WithoutWatches, AtMost(3.1), "4.0"),
    on(W3, ZooKeeper, Plain, 128, WithoutWatches, AtMost(3.1), "4.0"),
    on(W3, Etcd, Across, 2, Measure(REQUESTS), AtMost(4.05), "7"),
    on(W3, ZooKeeper, Across, 2, Measure(REQUESTS), AtMost(4.05), "5"),
    on(W4, Etcd, Plain, 1000, RATIO, AtLeast(0.45), "0.13"),
    on(W4, Etcd, Plain, 5000, RATIO, AtLeast(0.45), "fails"),
    on(W4, ZooKeeper, Plain, 1000, RATIO, AtLeast(0.55), "0.15"),
    on(W4, ZooKeeper, Plain, 5000, RATIO, AtLeast(0.55), "0.06"),
    on(W4, Etcd, Plain, 5000, GapOfTwo, AtMost(1.5), "2.5"),
    on(W4, ZooKeeper, Plain, 5000, GapOfTwo, AtMost(1.5), "10"),
    on(W4, Etcd, Plain, 5000, Measure(RSS), AtMost(60.0), "148"),
    on(W4, ZooKeeper, Plain, 5000, Measure(RSS), AtMost(60.0), "340"),
    on(W4, Etcd, Plain, 5000, BytesOfShortQueue, AtMost(1.2), ""),
    on(W4, ZooKeeper, Plain, 5000, BytesOfShortQueue, AtMost(1.2), ""),
    on(W5, Etcd, Plain, 1, Measure(LOCK_TRIPS), AtMost(1.1), "1.0"),
    on(W5, ZooKeeper, Plain, 1, Measure(LOCK_TRIPS), AtMost(1.1), "2.2"),
    on(W5, Etcd, Plain, 2, Measure(GAP_TRIPS), AtMost(1.1), "1.0"),
    on(W5, Etcd, Plain, 16, Measure(GAP_TRIPS), AtMost(1.1), "1.0"),
    on(W5, Etcd, Across, 2, Measure(GAP_TRIPS), AtMost(2.1), "1.0"),
    on(W5, Etcd, Across, 16, Measure(GAP_TRIPS), AtMost(2.1), "1.0"),
    on(W5, ZooKeeper, Plain, 2, Measure(GAP_TRIPS), AtMost(1.1), "2.2"),
    on(W5, ZooKeeper, Plain, 16, Measure(GAP_TRIPS), AtMost(1.1), "2.1"),
    on(W5, ZooKeeper, Across, 2, Measure(GAP_TRIPS), AtMost(2.1), "2.2"),
    on(W5, ZooKeeper, Across, 16, Measure(GAP_TRIPS), AtMost(2.1), "2.1"),
    on(W6, Etcd, Plain, 10_000, Measure(KEEPALIVES), AtMost(1.1), ""),
    on(W6, ZooKeeper, Plain, 10_000, Measure(KEEPALIVES), AtMost(1.1), ""),
    on(W6, Etcd, Plain, 10_000, Measure(RSS_LOCK), AtMost(2048.0), ""),
    on(W6, ZooKeeper, Plain, 10_000, Measure(RSS_LOCK), AtMost(2048.0), ""),
    on(W9, Etcd, Plain, 2000, OverFewer, AtLeast(0.8), "fails"),
    on(W9, ZooKeeper, Plain, 2000, OverFewer, AtLeast(0.8), "fails"),
    on(W1, Postgres, Plain, 1, Measure(REQUESTS), AtMost(2.05), "2.0"),
    on(W1, Mysql, Plain, 1, Measure(REQUESTS), AtMost(2.05), "2.0"),
    on(W3, Postgres, Plain, 16, Measure(REQUESTS), AtMost(2.1), "2.0"),
    on(W3, Mysql, Plain, 16, Measure(REQUESTS), AtMost(2.1), "2.0"),
    on(W5, Postgres, Plain, 1, Measure(LOCK_TRIPS), AtMost(1.1), "1.0"),
    on(W5, Postgres, Plain, 1, Measure(UNLOCK_TRIPS), AtMost(1.05), "1.0"),
    on(W5, Postgres, Across, 2, Measure(GAP_TRIPS), AtMost(2.1), "1.0"),
    on(W1, Postgres, Plain, 1, Over(UniqueKey, PER_SECOND), AtLeast(0.85), ""),
    on(W1, Postgres, Plain, 1, Over(Peer, PER_SECOND), AtLeast(0.6), ""),
    on(W1, Postgres, Plain, 1, Over(UniqueKey, PAIR_CPU), AtMost(1.5), ""),
    on(W2, Postgres, Plain, 64, Over(UniqueKey, PER_SECOND), AtLeast(1.0), ""),
    on(W3, Postgres, Across, 2, Over(Peer, HANDED), AtLeast(0.25), ""),
    on(W3, Postgres, Across, 16, Over(Peer, HANDED), AtLeast(0.2), ""),
    on(W1, Mysql, Plain, 1, Over(UniqueKey, PER_SECOND), AtLeast(0.6), ""),
    on(W1, Mysql, Plain, 1, Over(Peer, PER_SECOND), AtLeast(0.3), ""),
    on(W2, Mysql, Plain, 64, Over(UniqueKey, PER_SECOND), AtLeast(0.8), ""),
    on(W5, Mysql, Plain, 1, Measure(LOCK_TRIPS), AtMost(1.1), "1.0"),
    on(W5, Mysql, Plain, 1, Measure(UNLOCK_TRIPS), AtMost(1.1), "1.0"),
    on(W1, Redis, Plain, 1, Over(RedisPy, PER_SECOND), OrOfScripts(0.75), ""),
    on(W1, Redis, Plain, 1, Over(RedisPy, PAIR_CPU), AtMost(6.0), ""),
    on(W1, Redis, Plain, 1, Over(RedisPy, CPU), AtMost(3.0), ""),
    on(W1, Redis, Plain, 1, Measure(LOGGED), AtMost(500.0), ""),
    on(W2, Redis, Plain, 64, Over(RedisPy, PER_SECOND), OrOfScripts(0.8), ""),
    on(W3, Redis, Plain, 2, Over(Redisson, HANDED), AtLeast(1.2), ""),
    on(W3, Redis, Plain, 16, Over(Redisson, HANDED), AtLeast(3.0), ""),
    on(W3, Redis, Across, 16, Over(Redisson, HANDED), AtLeast(4.2), ""),
    // A renewal every 3.3 s, and a recheck every 20 s.
    on(W8, Postgres, Plain, 1, Measure(STRANGER), AtMost(23.0), "0"),
    on(W8, Postgres, Plain, 5000, OverShortQueue(JOIN_STATEMENTS), AtMost(1.05), ""),
    on(W8, Mysql, Plain, 5000, OverShortQueue(JOIN_STATEMENTS), AtMost(1.05), ""),
    on(W8, Postgres, Plain, 5000, OverShortQueue(JOINED[0]), AtMost(1.2), ""),
    on(W8, Mysql, Plain, 5000, OverShortQueue(JOINED[0]), AtMost(1.2), ""),
];

/// The result of a target.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) target: String,
    pub(crate) wanted: String,
    pub(crate) peer: &'static str,
    pub(crate) value: Option<f64>,
    pub(crate) met: bool,
}

impl Verdict {
    pub(crate) fn line(&self) -> String {
        let value = self.value.map_or_else(|| "was not measured".to_owned(), round);
        format!("{} {value}, target {}", self.target, self.wanted)
    }
}

/// Of the targets that the run covers.
pub(crate) fn judge(bench: &Bench, rows: &[Row]) -> Vec<Verdict> {
    let rows: BTreeMap<Key, &Row> = rows.iter().map(|row| (row.key, row)).collect();
    let asked = |target: &&Target| {
        bench.only.contains(&target.workload) && bench.backends.contains(&target.backend)
    };
    let mut verdicts: Vec<_> =
        TARGETS.iter().filter(asked).map(|target| target.judge(&rows)).collect();
    for row in rows.values().filter(|row| row.key.subject == Subject::Distlock) {
        verdicts.push(Verdict {
            target: format!("{} errors", place(row.key)),
            wanted: "0".to_owned(),
            peer: "",
            value: Some(row.errors as f64),
            met: row.errors == 0,
        });
    }
    verdicts
}

impl Target {
    fn judge(&self, rows: &BTreeMap<Key, &Row>) -> Verdict {
        // Requests of a store without request counters are zero, and do not count.
        let counted = |value: &f64| !matches!(self.what, Measure(REQUESTS)) || *value > 0.0;
        let value = self.value(rows).filter(counted);
        let (sign, bound, met) = match self.bound {
            AtLeast(bound) => ("≥", bound, value.is_some_and(|value| value >= bound)),
            AtMost(bound) => ("≤", bound, value.is_some_and(|value| value <= bound)),
            OrOfScripts(bound) => {
                let bound = bound.min(self.ceiling(rows).unwrap_or(bound));
                ("≥", bound, value.is_some_and(|value| value >= bound))
            }
        };
        let ours = self.key(Subject::Distlock);
        let key = rows.keys().find(|key| self.workload == W6 && Key { n: self.n, ..**key } == ours);
        Verdict {
            target: format!("{} {}", place(*key.unwrap_or(&ours)), self.what.name()),
            wanted: format!("{sign} {}", round(bound)),
            peer: self.peer,
            value,
            met,
        }
    }

    /// 0.85 of the figure of distlock's scripts, relative to this peer.
    fn ceiling(&self, rows: &BTreeMap<Key, &Row>) -> Option<f64> {
        let Over(peer, measure) = self.what else { return None };
        let of = |subject| rows.get(&self.key(subject))?.get(measure);
        Some(0.85 * of(Subject::Scripts)? / of(peer)?)
    }

    fn key(&self, subject: Subject) -> Key {
        Key {
            workload: self.workload,
            backend: self.backend,
            variant: self.variant,
            hold_ms: 0,
            n: self.n,
            subject,
        }
    }

    fn value(&self, rows: &BTreeMap<Key, &Row>) -> Option<f64> {
        let find = |key: Key| match key.workload {
            // A quick run holds fewer locks.
            W6 => {
                rows.values().find(|row| (row.key.workload, row.key.backend) == (W6, key.backend))
            }
            _ => rows.get(&key),
        };
        let of = |subject, measure| find(self.key(subject))?.get(measure);
        let ours = |measure| of(Subject::Distlock, measure);
        let short = |n, subject| Key {
            workload: W3,
            backend: self.backend,
            variant: Plain,
            hold_ms: 0,
            n,
            subject,
        };
        // Of the measured peers.
        let best = |peer: Key, measure| {
            let peers = Subject::peers(self.backend).iter();
            let reached =
                peers.filter_map(|subject| find(Key { subject: *subject, ..peer })?.get(measure));
            reached.reduce(f64::max)
        };
        match self.what {
            Measure(measure) => ours(measure),
            OverBestPeer => Some(ours(OF_FLOOR)? / best(self.key(Subject::Peer), OF_FLOOR)?),
            CpuOfFloor => Some(ours(CPU)? / of(Subject::Floor, CPU)?),
            Lateness => ours(GAP[1]),
            LatenessOfFloor => Some(ours(GAP[1])? / of(Subject::Floor, GAP[1])?),
            // On ZooKeeper a read sets a watch, one for each event; on etcd watches are no
            // requests.
            WithoutWatches if self.backend == ZooKeeper => Some(ours(REQUESTS)? - ours(EVENTS)?),
            WithoutWatches => ours(REQUESTS),
            GapOfTwo => Some(ours(GAP[0])? / find(short(2, Subject::Distlock))?.get(GAP[0])?),
            BytesOfShortQueue => {
                Some(ours(BYTES)? / find(short(16, Subject::Distlock))?.get(BYTES)?)
            }
            OverShortQueue(measure) => {
                let short = Key { n: 16, ..self.key(Subject::Distlock) };
                Some(ours(measure)? / find(short)?.get(measure)?)
            }
            OverFewer => {
                let fewer = Key { n: 500, ..self.key(Subject::Distlock) };
                Some(ours(PER_SECOND)? / find(fewer)?.get(PER_SECOND)?)
            }
            Over(subject, measure) => Some(ours(measure)? / of(subject, measure)?),
        }
    }
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Measure(measure) => measure,
            OverBestPeer => "of floor over the best peer's of the run",
            CpuOfFloor => "CPU a pair over the floor's",
            Lateness => "gap p99 ms",
            LatenessOfFloor => "gap p99 over the floor's",
            WithoutWatches => "requests per pair without watches",
            GapOfTwo => "gap p50 over that of N=2",
            BytesOfShortQueue => "bytes to client per handoff over those of N=16",
            OverShortQueue(JOIN_STATEMENTS) => "statements per join over those behind 16",
            OverShortQueue(_) => "join p50 over that behind 16",
            OverFewer => "handoffs/s over those of 500 clients",
            Over(Subject::UniqueKey, PAIR_CPU) => "server CPU a pair over the unique key's",
            Over(Subject::UniqueKey, _) => "over the unique key's",
            Over(Subject::RedisPy, PAIR_CPU) => "server CPU a pair over that of SET NX",
            Over(Subject::RedisPy, CPU) => "client CPU a pair over that of SET NX",
            Over(Subject::RedisPy, _) => "over SET NX",
            Over(Subject::Redisson, _) => "over Redisson's",
            Over(..) => "over the server's own lock's",
        }
    }
}

fn place(key: Key) -> String {
    let variant = key.variant.what();
    let gap = if variant.is_empty() { "" } else { " " };
    format!("{:?} {} N={}{gap}{variant}", key.workload, key.backend, key.n)
}
