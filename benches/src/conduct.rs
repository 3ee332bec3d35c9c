//! Runs the cases one after the other, each slice in its own processes.

use std::{collections::BTreeMap, env::current_exe, time::Duration};

use distlock_testkit::clock::now;
use etcd_client::{Client, CompactionOptions};
use tokio::time::timeout;

use crate::{
    Result,
    args::Bench,
    backend::Backend,
    behind,
    case::{Case, Kind, Variant, plan},
    counters::Counters,
    crossover,
    link::{Process, Program, Together},
    long,
    machine::Machine,
    measures::{Key, PAIR_CPU, Row, Seen, rate, row},
    recipe, report,
    slice::{Slice, Stamp, gaps},
    task::{Names, Pairs, Primitive, Role, Subject, Task, Work},
    usage::cpu_of_group,
    workload::Workload,
};

const DELAY_MS: u64 = 5;
const UNRELATED_WRITES: u32 = 700;
/// A slice that takes longer than planned by this much has failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Conductor<'a> {
    bench: &'a Bench,
    run: u32,
    slices: u32,
    /// By the number of the repeat.
    seen: BTreeMap<Key, BTreeMap<usize, Seen>>,
}

/// The servers that subjects connect to, and those with the counters.
#[derive(Clone, Debug)]
struct Place {
    connect: Vec<String>,
    servers: Vec<String>,
}

/// Returns `true` if the run passed.
pub(crate) async fn bench(bench: &Bench) -> Result<bool> {
    let mut conductor = Conductor::new(bench);
    let start = now();
    let machine = Machine::look(bench).await?;
    for backend in &bench.backends {
        conductor.warm_up(*backend).await?;
    }
    for repeat in 1..=bench.repeats {
        for case in plan(bench, repeat) {
            let (workload, variant) = (case.workload, case.variant.what());
            let minutes = (now() - start) as f64 / 60e9;
            eprintln!(
                "{minutes:4.1} min, repeat {repeat}: {workload:?} {} N={} {variant}{}",
                case.backend,
                case.n,
                held(case.hold_ms)
            );
            conductor.case(&case, repeat).await?;
        }
    }
    let of =
        |(key, repeats): (_, BTreeMap<_, _>)| row(key, &repeats.into_values().collect::<Vec<_>>());
    let rows: Vec<Row> = conductor.seen.into_iter().map(of).collect();
    report::write(bench, &machine, (now() - start) as f64 / 60e9, &rows)
}

impl<'a> Conductor<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Self {
        Self { bench, run: fastrand::u32(..), slices: 0, seen: BTreeMap::new() }
    }

    /// A Java server is slow until it has served some ten thousand requests.
    pub(crate) async fn warm_up(&mut self, backend: Backend) -> Result<()> {
        if backend.is_relational() {
            recipe::prepare(backend, self.bench.single(backend)).await?;
        }
        let pairs = Pairs {
            tasks: 64,
            names: Names::Each,
            warmup_ms: 0,
            run_ms: if self.bench.quick { 1500 } else { 5000 },
            raw_writes: 0,
            stamps: false,
            primitive: Primitive::Mutex,
        };
        let servers = self.bench.single(backend).to_vec();
        let task = Task {
            backend,
            subject: Subject::Floor,
            servers: servers.clone(),
            namespace: String::new(),
            work: Work::Pairs(pairs),
        };
        let program = current_exe()?;
        measure(self.named(task), &servers, 1, Program::Build(&program)).await.map(drop)
    }

    async fn case(&mut self, case: &Case, repeat: usize) -> Result<()> {
        let backend = case.backend;
        let servers = if case.workload == Workload::W7 {
            self.bench.cluster(backend)
        } else {
            self.bench.single(backend)
        };
        let mut place = Place { connect: servers.to_vec(), servers: servers.to_vec() };
        let mut helper = None;
        if case.workload == Workload::W5 {
            let mut proxy =
                Process::start(&Role::Proxy { servers: servers.to_vec(), delay_ms: DELAY_MS })?;
            place.connect = proxy.mark().await?.split(',').map(str::to_owned).collect();
            helper = Some(proxy);
        } else if case.variant == Variant::Busy {
            let mut load = Process::start(&Role::Load {
                servers: servers.to_vec(),
                per_second: UNRELATED_WRITES,
            })?;
            load.mark().await?;
            helper = Some(load);
        }
        self.interleave(case, repeat, &place).await;
        if let Some(helper) = helper {
            helper.finish().await?;
        }
        if backend == Backend::Etcd && case.workload != Workload::W7 {
            compact(&place.servers).await?;
        }
        Ok(())
    }

    async fn interleave(&mut self, case: &Case, repeat: usize, place: &Place) {
        let mut floor = None;
        let mut turn = repeat;
        for subject in &case.order {
            let mut place = place.clone();
            if case.workload == Workload::W7 {
                // Neighbouring slices use the same member, whichever role it has.
                turn += usize::from(*subject == Subject::Floor);
                place.connect = vec![place.connect[turn % place.connect.len()].clone()];
            }
            let key = Key {
                workload: case.workload,
                backend: case.backend,
                variant: case.variant,
                hold_ms: case.hold_ms,
                n: case.n,
                subject: *subject,
            };
            let mut seen = self.seen.entry(key).or_default().remove(&repeat).unwrap_or_default();
            match self.slice(case, *subject, &place, &mut seen).await {
                Ok(slice) => {
                    let rate = rate(&slice);
                    if *subject == Subject::Floor {
                        floor = rate;
                    } else if let (Some(rate), Some(floor), 0) = (rate, floor, case.hold_ms) {
                        seen.ratios.push(rate / floor);
                    }
                }
                Err(error) => {
                    eprintln!("  {}: {error}", subject.name(case.backend));
                    seen.failed(error);
                }
            }
            self.seen.entry(key).or_default().insert(repeat, seen);
        }
    }

    async fn slice(
        &mut self,
        case: &Case,
        subject: Subject,
        place: &Place,
        seen: &mut Seen,
    ) -> Result<Slice> {
        let task = |work| Task {
            backend: case.backend,
            subject,
            servers: place.connect.clone(),
            namespace: String::new(),
            work,
        };
        let patience_ms = long::TIME_LIMIT.as_millis() as u64;
        let queue = Work::Queue { waiters: case.n, patience_ms };
        let (slice, counted) = match &case.kind {
            Kind::Pairs(pairs, processes) => {
                let task = self.named(task(Work::Pairs(pairs.clone())));
                let mut patience = TIME_LIMIT + Duration::from_millis(pairs.run_ms);
                let ours = current_exe()?;
                let program = match subject.program() {
                    Some(name) => {
                        let container = self.bench.peers.as_deref().ok_or("no container")?;
                        // Sixteen Java processes take long to start.
                        patience += TIME_LIMIT;
                        Program::Contained { container, name }
                    }
                    None => Program::Build(&ours),
                };
                let server = self.bench.processes.get(&case.backend);
                let server = server.copied().filter(|_| case.workload != Workload::W7);
                let before = server.map(cpu_of_group).transpose()?;
                let (slice, counted) =
                    timeout(patience, measure(task, &place.servers, *processes, program)).await??;
                if let (Some(server), Some(before), 1..) = (server, before, slice.all_pairs) {
                    let spent = (cpu_of_group(server)? - before) as f64 / 1e3;
                    seen.other(PAIR_CPU, spent / slice.all_pairs as f64);
                }
                (slice, counted)
            }
            Kind::Fleet(fleet) => {
                let task = self.named(task(Work::Fleet(fleet.clone())));
                let server = self.bench.processes.get(&case.backend).copied();
                let patience = TIME_LIMIT + Duration::from_millis(fleet.warmup_ms + fleet.run_ms);
                let measured = crossover::measure(task, fleet, &place.servers, server, seen);
                timeout(patience, measured).await??
            }
            Kind::Queue => {
                let task = self.named(task(queue));
                let queue = long::queue(task, &place.servers, case.n, seen);
                timeout(TIME_LIMIT + long::TIME_LIMIT * 3, queue).await??
            }
            Kind::Behind { wait_ms, joins } => {
                let task = self.named(task(queue));
                let (wait, patience) = (Duration::from_millis(*wait_ms), long::TIME_LIMIT * 5);
                let behind = behind::measure(task, &place.servers, wait, *joins, seen);
                timeout(patience + wait, behind).await??
            }
            Kind::Held { hold_ms } => {
                let hold = Duration::from_millis(*hold_ms);
                let task = self.named(task(Work::Held { locks: case.n }));
                timeout(TIME_LIMIT * 2 + hold, long::held(task, &place.servers, hold, seen))
                    .await??
            }
        };
        seen.add(slice.clone(), counted);
        Ok(slice)
    }

    /// With a namespace that was never used.
    pub(crate) fn named(&mut self, task: Task) -> Task {
        self.slices += 1;
        Task { namespace: format!("/bench-{:08x}-{}", self.run, self.slices), ..task }
    }
}

/// The hold time, if it is part of the case.
fn held(hold_ms: u64) -> String {
    if hold_ms == 0 { String::new() } else { format!("held for {hold_ms} ms") }
}

/// Runs a slice in this number of processes.
pub(crate) async fn measure(
    task: Task,
    servers: &[String],
    count: usize,
    program: Program<'_>,
) -> Result<(Slice, Counters)> {
    let backend = task.backend;
    let mut processes = Together::start(program, &vec![Role::Subject(task); count]).await?;
    let before = Counters::read(backend, servers).await?;
    processes.begin().await?;
    let mut whole = processes.done().await?;
    let counted = Counters::read(backend, servers).await? - before;
    if count > 1 {
        let others = |[one, next]: [Stamp; 2]| one.process != next.process;
        let gaps = gaps(&mut whole.stamps)?.into_iter();
        whole.gap = gaps.filter_map(|(gap, turns)| others(turns).then_some(gap)).collect();
    }
    processes.finish().await?;
    Ok((whole, counted))
}

/// Compacts etcd's history, so that later cases find the same state as earlier ones.
pub(crate) async fn compact(servers: &[String]) -> Result<()> {
    let mut client = Client::connect(servers, None).await?;
    let revision = client.get("bench", None).await?.header().map_or(0, |header| header.revision());
    let _ = client.compact(revision, Some(CompactionOptions::new().with_physical())).await;
    Ok(())
}
