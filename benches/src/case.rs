//! The cases to measure, in order.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    apart::Between,
    args::Bench,
    backend::{self, Backend},
    task::{Fleet, Names, Pairs, Primitive, Subject},
    workload::Workload,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Variant {
    /// In one process.
    Plain,
    /// With 700 unrelated writes a second.
    Busy,
    /// Each contender in its own process.
    Across,
    /// On servers with this delay between them.
    Apart(Between),
    /// Primitives other than the mutex.
    Write,
    Semaphore,
    Election,
}

impl Variant {
    pub(crate) fn what(self) -> Cow<'static, str> {
        let what = match self {
            Self::Apart(between) => {
                let millis = between.round_trip().as_secs_f64() * 1e3;
                return format!("{millis} ms between servers").into();
            }
            Self::Plain => "",
            Self::Busy => "with 700 writes/s",
            Self::Across => "in N processes",
            Self::Write => "write lock",
            Self::Semaphore => "semaphore of 4",
            Self::Election => "election",
        };
        what.into()
    }

    /// Returns the name of this primitive in another library.
    pub(crate) fn others(self, subject: Subject) -> Option<&'static str> {
        match (subject, self) {
            (Subject::Go, Self::Election) => Some("Go concurrency.Election"),
            (Subject::Curator, Self::Write) => Some("Curator InterProcessReadWriteLock"),
            (Subject::Curator, Self::Semaphore) => Some("Curator InterProcessSemaphoreV2"),
            (Subject::Curator, Self::Election) => Some("Curator LeaderLatch"),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) workload: Workload,
    pub(crate) backend: Backend,
    pub(crate) variant: Variant,
    /// How long each holder keeps the lock.
    pub(crate) hold_ms: u64,
    pub(crate) n: usize,
    /// The subjects in order; a floor precedes each subject that is compared with it.
    pub(crate) order: Vec<Subject>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// In this number of processes.
    Pairs(Pairs, usize),
    /// Clients that contend and hold.
    Fleet(Fleet),
    /// All wait, and then the lock passes through all of them.
    Queue,
    /// All wait for the given time; then another client joins and leaves, this number of times.
    Behind { wait_ms: u64, joins: usize },
    /// For the given time.
    Held { hold_ms: u64 },
}

/// Durations and counts.
#[derive(Clone, Copy, Debug)]
struct Extent {
    run_ms: u64,
    warmup_ms: u64,
    ours: usize,
    peers: usize,
    slow_ms: u64,
    locks: usize,
    hold_ms: u64,
    joins: usize,
    /// For peers that take long and add little information.
    slow_peers: usize,
}

const FULL: Extent = Extent {
    run_ms: 1200,
    warmup_ms: 200,
    ours: 5,
    peers: 2,
    slow_ms: 3000,
    locks: 10_000,
    hold_ms: 60_000,
    joins: 200,
    slow_peers: 1,
};
const QUICK: Extent = Extent {
    run_ms: 500,
    warmup_ms: 100,
    ours: 2,
    peers: 1,
    slow_ms: 900,
    locks: 2000,
    hold_ms: 10_000,
    joins: 50,
    slow_peers: 0,
};

/// The cases of one repeat.
pub(crate) fn plan(bench: &Bench, repeat: usize) -> Vec<Case> {
    let extent = if bench.quick { QUICK } else { FULL };
    let mut cases = Vec::new();
    for workload in Workload::ALL {
        for backend in backend::ALL {
            let asked = bench.only.contains(&workload) && bench.backends.contains(&backend);
            let nowhere = workload == Workload::W7 && bench.cluster(backend).is_empty();
            if !asked || nowhere || !workload.is_for(backend) {
                continue;
            }
            let others = others(bench, workload, backend);
            match workload {
                Workload::W4 | Workload::W6 | Workload::W8 => {
                    add_long(&mut cases, workload, backend, extent, repeat, &others)
                }
                Workload::W9 => add_crowds(&mut cases, backend, bench.quick),
                Workload::WX => add_fleets(&mut cases, backend, bench.quick),
                _ => add(&mut cases, workload, backend, extent, &others, bench.between),
            }
        }
    }
    cases
}

/// The peers that take part. Peers in other languages only support pairs.
fn others(bench: &Bench, workload: Workload, backend: Backend) -> Vec<Subject> {
    use Workload::{W1, W2, W3, W5, WP};
    let all = bench.peers.is_some() && matches!(workload, W1 | W2 | W3 | W5 | WP);
    let takes_part = |subject: &Subject| match subject.program() {
        Some(_) => all,
        // Peers in Rust have only mutexes.
        None => workload != WP,
    };
    let scripts =
        (backend == Backend::Redis && matches!(workload, W1 | W2)).then_some(Subject::Scripts);
    Subject::peers(backend).iter().copied().chain(scripts).filter(takes_part).collect()
}

fn add(
    cases: &mut Vec<Case>,
    workload: Workload,
    backend: Backend,
    extent: Extent,
    others: &[Subject],
    between: Option<Between>,
) {
    let mut add = |variant, n, order, pairs, processes| {
        let kind = Kind::Pairs(pairs, processes);
        cases.push(Case { workload, backend, variant, hold_ms: 0, n, order, kind });
    };
    let Extent { run_ms, warmup_ms, ours, peers, slow_ms, slow_peers, .. } = extent;
    let fast = Pairs {
        tasks: 1,
        names: Names::One,
        warmup_ms,
        run_ms,
        raw_writes: 0,
        stamps: false,
        primitive: Primitive::Mutex,
    };
    let slow = Pairs { run_ms: slow_ms, raw_writes: 15, ..fast.clone() };
    let tasks = |tasks, pairs: &Pairs| Pairs { tasks, ..pairs.clone() };
    let stamped = |pairs: &Pairs| Pairs { stamps: true, ..pairs.clone() };
    let all = next_to_floor(others, ours, peers);
    match workload {
        Workload::W1 => add(Variant::Plain, 1, all, fast, 1),
        Workload::W2 => {
            add(Variant::Plain, 64, all, Pairs { tasks: 64, names: Names::Each, ..fast }, 1);
        }
        Workload::W3 => {
            for n in [2, 16, 128] {
                add(Variant::Plain, n, all.clone(), tasks(n, &fast), 1);
            }
            for n in [2, 16] {
                if backend == Backend::Etcd {
                    add(Variant::Busy, n, all.clone(), tasks(n, &fast), 1);
                }
                add(Variant::Across, n, alone(others, ours, peers), stamped(&fast), n);
            }
        }
        Workload::W5 => {
            let all = match slow_peers {
                0 => alone(others, 1, 0),
                some => next_to_floor(others, 1, some),
            };
            add(Variant::Plain, 1, all.clone(), slow.clone(), 1);
            for n in [2, 16] {
                add(Variant::Plain, n, all.clone(), tasks(n, &slow), 1);
                add(Variant::Across, n, alone(others, 1, slow_peers), stamped(&slow), n);
            }
        }
        Workload::W7 => {
            let variant = between.map_or(Variant::Plain, Variant::Apart);
            let all = next_to_floor(others, ours.div_ceil(2), slow_peers);
            for n in [1, 2, 16] {
                add(variant, n, all.clone(), tasks(n, &fast), 1);
            }
        }
        Workload::WP => {
            use Primitive::{Election, Semaphore, Write};
            // Go's package has only elections besides the mutex.
            let primitives = match backend {
                Backend::Etcd => &[(Variant::Election, Election)][..],
                _ => &[
                    (Variant::Write, Write),
                    (Variant::Semaphore, Semaphore),
                    (Variant::Election, Election),
                ],
            };
            for (variant, primitive) in primitives.iter().copied() {
                for n in [1, 16] {
                    let pairs = Pairs { primitive, ..tasks(n, &fast) };
                    add(variant, n, alone(others, ours, peers), pairs, 1);
                }
            }
        }
        Workload::W4 | Workload::W6 | Workload::W8 | Workload::W9 | Workload::WX => {}
    }
}

fn add_long(
    cases: &mut Vec<Case>,
    workload: Workload,
    backend: Backend,
    extent: Extent,
    repeat: usize,
    others: &[Subject],
) {
    let mut add = |n, order, kind| {
        let variant = Variant::Plain;
        cases.push(Case { workload, backend, variant, hold_ms: 0, n, order, kind });
    };
    if workload == Workload::W4 {
        // SQL peers need a connection per waiter, more than a server allows.
        let [some, few] = if backend.is_relational() { [0, 0] } else { [1, extent.slow_peers] };
        add(1000, next_to_floor(others, extent.ours.div_ceil(2), some), Kind::Queue);
        add(5000, next_to_floor(others, extent.ours.div_ceil(2), few), Kind::Queue);
    } else if workload == Workload::W8 {
        // The result with 1 is the same on any other day.
        for n in if repeat == 1 { &[1, 16, 5000][..] } else { &[16, 5000] } {
            let kind = Kind::Behind { wait_ms: extent.hold_ms, joins: extent.joins };
            add(*n, vec![Subject::Distlock], kind);
        }
    } else if repeat == 1 {
        // It takes long, and the result is the same each time.
        add(extent.locks, vec![Subject::Distlock], Kind::Held { hold_ms: extent.hold_ms });
    }
}

/// So many clients that the cost of each one for the others is visible.
fn add_crowds(cases: &mut Vec<Case>, backend: Backend, quick: bool) {
    let run_ms = if quick { 2000 } else { 6000 };
    for n in [500, 2000] {
        let fleet = Fleet { contenders: n, hold_ms: 0, warmup_ms: 2000 + 4 * n as u64, run_ms };
        let (workload, variant) = (Workload::W9, Variant::Plain);
        let (order, kind) = (vec![Subject::Distlock], Kind::Fleet(fleet));
        cases.push(Case { workload, backend, variant, hold_ms: 0, n, order, kind });
    }
}

/// Contention and hold times: waiting clients, polling clients, and the floor.
fn add_fleets(cases: &mut Vec<Case>, backend: Backend, quick: bool) {
    use Subject::{Distlock, Floor, Often, UniqueKey};
    let contenders: &[usize] = match (quick, backend) {
        (true, Backend::Redis) => &[16, 128],
        (true, _) => &[2, 32],
        (false, Backend::Redis) => &[1, 2, 8, 16, 32, 128],
        (false, _) => &[1, 2, 8, 32, 128],
    };
    let holds: &[(u64, u64)] = if quick {
        &[(10, 600), (100, 1200)]
    } else {
        &[(1, 600), (10, 900), (100, 1600), (1000, 3200)]
    };
    for (hold_ms, run_ms) in holds.iter().copied() {
        for n in contenders.iter().copied() {
            let order = match (n, hold_ms) {
                // There are no waiters, whatever the hold time.
                (1, 10) => vec![Floor, Distlock, UniqueKey],
                (1, _) => continue,
                // Only for polling clients does it depend on the hold time.
                (_, 10) => vec![Floor, Distlock, UniqueKey, Often],
                // It takes long and adds little information.
                (8 | 32, 1000) => vec![Distlock, UniqueKey],
                _ => vec![Distlock, UniqueKey, Often],
            };
            // Loops of other libraries, where the gap is reported.
            let loops = if backend == Backend::Redis && hold_ms == 10 {
                Subject::peers(backend)
            } else {
                &[]
            };
            let order = [order.as_slice(), loops].concat();
            let fleet = Fleet { contenders: n, hold_ms, warmup_ms: 250 + 4 * n as u64, run_ms };
            let (workload, variant) = (Workload::WX, Variant::Plain);
            let kind = Kind::Fleet(fleet);
            cases.push(Case { workload, backend, variant, hold_ms, n, order, kind });
        }
    }
}

/// A floor before each subject, with the peers among distlock's slices.
fn next_to_floor(others: &[Subject], ours: usize, peers: usize) -> Vec<Subject> {
    alone(others, ours, peers).into_iter().flat_map(|subject| [Subject::Floor, subject]).collect()
}

fn alone(others: &[Subject], ours: usize, peers: usize) -> Vec<Subject> {
    let rounds = (0..ours.max(peers)).flat_map(|round| {
        let ours = (round < ours).then_some(Subject::Distlock);
        let others = if round < peers { others } else { &[] };
        ours.into_iter().chain(others.iter().copied())
    });
    rounds.collect()
}
