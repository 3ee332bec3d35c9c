//! Compares the library in this program with the one in another build, in alternating slices on the
//! same servers.

use std::{env::current_exe, path::Path, time::Duration};

use distlock_testkit::median::median;
use tokio::time::timeout;

use crate::{
    Result,
    args::Bench,
    backend::Backend,
    case::{Case, Kind, Variant, plan},
    conduct::{Conductor, compact, measure},
    counters::Counters,
    link::Program,
    measures::rate,
    slice::Slice,
    statistics::round,
    statistics::spread,
    task::{Pairs, Subject, Task, Work},
    workload::Workload,
};

/// A slice that takes longer than planned by this much has failed.
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// How much more of a client's processor time or of requests a pair may cost than before.
const TOLERANCE: f64 = 1.05;

const HEAD: &str = "\
| line | pairs/s, old | new | new/old (least–most) \
| CPU µs/pair, old | new | new/old (least–most) \
| requests/pair, old | new | watch messages/pair, old | new |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

/// One build's slices of one line.
#[derive(Debug, Default)]
struct Build {
    rates: Vec<f64>,
    /// Microseconds per pair.
    cpu: Vec<f64>,
    pairs: f64,
    counted: Counters,
}

impl Build {
    fn add(&mut self, slice: &Slice, counted: Counters) -> Result<()> {
        if let Some(error) = &slice.error {
            return Err(error.as_str().into());
        }
        let pairs = slice.all_pairs as f64;
        self.rates.push(rate(slice).filter(|rate| *rate > 0.0).ok_or("not a single pair")?);
        self.cpu.push(slice.cpu as f64 / 1e3 / pairs);
        self.pairs += pairs;
        self.counted = self.counted + counted;
        Ok(())
    }

    fn requests(&self) -> f64 {
        self.counted.requests / self.pairs
    }

    fn watch_messages(&self) -> f64 {
        self.counted.watch_messages / self.pairs
    }
}

/// Prints a table; returns `true` if it passed: with `--check` only if the new library costs no
/// more.
pub(crate) async fn compare(bench: &Bench, old: &Path) -> Result<bool> {
    let new = current_exe()?;
    let mut conductor = Conductor::new(bench);
    for backend in &bench.backends {
        conductor.warm_up(*backend).await?;
    }
    println!("{HEAD}");
    let (mut compared, mut costs) = (0, Vec::new());
    for case in plan(bench, 1) {
        let Some((pairs, processes)) = chosen(&case, bench.quick) else { continue };
        compared += 1;
        let name =
            format!("{:?} {} N={} {}", case.workload, case.backend, case.n, case.variant.what());
        let servers = bench.single(case.backend);
        let mut builds = [Build::default(), Build::default()];
        for slice in 0..bench.slices.next_multiple_of(2) {
            // Old, new, new, old: steady drift affects both equally.
            let turn = usize::from(matches!(slice % 4, 1 | 2));
            let task = Task {
                backend: case.backend,
                subject: Subject::Distlock,
                servers: servers.to_vec(),
                namespace: String::new(),
                work: Work::Pairs(pairs.clone()),
            };
            let program = Program::Build(if turn == 0 { old } else { &new });
            let slice = measure(conductor.named(task), servers, processes, program);
            let (slice, counted) = timeout(TIME_LIMIT, slice).await??;
            builds[turn]
                .add(&slice, counted)
                .map_err(|error| format!("{}: {error}", name.trim()))?;
        }
        costs.extend(tell(name.trim(), &builds));
        if case.backend == Backend::Etcd {
            compact(servers).await?;
        }
    }
    if compared == 0 || bench.slices == 0 {
        return Err("nothing was compared: choose some of W1 to W3, and at least one slice".into());
    }
    costs.iter().for_each(|cost| eprintln!("{cost}"));
    Ok(costs.is_empty() || !bench.check)
}

/// W1 to W3, without unrelated load, in short slices.
fn chosen(case: &Case, quick: bool) -> Option<(Pairs, usize)> {
    let Kind::Pairs(pairs, processes) = &case.kind else { return None };
    let wanted = matches!(case.workload, Workload::W1 | Workload::W2 | Workload::W3)
        && case.variant != Variant::Busy;
    let (warmup_ms, run_ms) = if quick { (100, 400) } else { (150, 800) };
    wanted.then(|| (Pairs { warmup_ms, run_ms, ..pairs.clone() }, *processes))
}

/// Prints a line, and returns what costs too much.
fn tell(name: &str, [old, new]: &[Build; 2]) -> Vec<String> {
    let ratios = |of: fn(&Build) -> &Vec<f64>| -> Vec<f64> {
        of(new).iter().zip(of(old)).map(|(new, old)| new / old).collect()
    };
    let range = |ratios: &[f64]| {
        let (middle, least, most) = spread(ratios).unwrap_or_default();
        format!("{middle:.3} ({least:.2}–{most:.2})")
    };
    let middle = |values: &Vec<f64>| round(median(values.iter().copied()).unwrap_or_default());
    let (rates, cpu) = (ratios(|build| &build.rates), ratios(|build| &build.cpu));
    println!(
        "| {name} | {} | {} | {} | {} | {} | {} | {:.3} | {:.3} | {:.3} | {:.3} |",
        middle(&old.rates),
        middle(&new.rates),
        range(&rates),
        middle(&old.cpu),
        middle(&new.cpu),
        range(&cpu),
        old.requests(),
        new.requests(),
        old.watch_messages(),
        new.watch_messages(),
    );
    let requests = |build: &Build| build.requests() + build.watch_messages();
    let costs = [("client CPU", median(cpu)), ("requests", Some(requests(new) / requests(old)))];
    let more = costs.into_iter().filter_map(|(what, ratio)| {
        let ratio = ratio.filter(|ratio| *ratio > TOLERANCE)?;
        Some(format!(
            "{name}: {what} per pair are {ratio:.3} times those before, more than {TOLERANCE}"
        ))
    });
    more.collect()
}
