//! Many histories, run by several threads and reported in the order of their seeds.

use std::{
    collections::BTreeMap,
    fs, iter,
    panic::catch_unwind,
    process::ExitCode,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use crate::{
    args::Args,
    director::{self, Report},
    history::Coverage,
    plan::Plan,
    scheduler,
    server::Contract,
    shrink,
};

const PROGRAM: &str = "cargo run -p distlock-simulation --release --";

/// The result of one history.
struct Outcome {
    calls: u64,
    polls: u64,
    coverage: Coverage,
    violation: Option<String>,
    trace: Option<String>,
}

/// The results of many histories.
struct Search<'a> {
    args: &'a Args,
    began: Instant,
    coverage: Coverage,
    histories: u64,
    calls: u64,
    polls: u64,
    failures: u64,
    traces: String,
}

/// Runs histories until the time or the seeds are exhausted.
pub(crate) fn search(args: &Args) -> Result<ExitCode, String> {
    let began = Instant::now();
    let drawn = (args.first..)
        .take_while(|seed| seed - args.first < args.seeds)
        .flat_map(|seed| args.contracts.iter().map(move |contract| (*contract, seed)));
    let in_time = |_: &_| args.minutes.is_none_or(|limit| began.elapsed() < limit);
    let all = known(args)?.into_iter().chain(drawn).take_while(in_time).enumerate();
    let (all, report) = (Mutex::new(all), args.report());
    let mut search = Search::new(args, began);
    thread::scope(|scope| {
        let (send, outcomes) = mpsc::channel();
        for _ in 0..args.threads {
            let (all, send) = (&all, send.clone());
            scope.spawn(move || {
                let next = || all.lock().unwrap_or_else(PoisonError::into_inner).next();
                for (number, (contract, seed)) in iter::from_fn(next) {
                    // The receiver is closed after enough failures.
                    if send.send((number, contract, seed, outcome(contract, seed, report))).is_err()
                    {
                        break;
                    }
                }
            });
        }
        drop(send);
        // Results that arrived before those of earlier seeds.
        let mut early = BTreeMap::new();
        let mut last_report = Instant::now();
        for (number, contract, seed, outcome) in outcomes {
            early.insert(number, (contract, seed, outcome));
            while let Some((contract, seed, outcome)) =
                usize::try_from(search.histories).ok().and_then(|next| early.remove(&next))
            {
                search.take(contract, seed, outcome);
                if search.failures >= args.failures {
                    return;
                }
            }
            if last_report.elapsed() > Duration::from_secs(60) {
                last_report = Instant::now();
                eprintln!("{} histories, {} failed", search.histories, search.failures);
            }
        }
    });
    if let Some(file) = &args.trace {
        fs::write(file, &search.traces).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(search.finish())
}

/// Returns the seeds that failed before: each line has a contract, a seed and a comment.
fn known(args: &Args) -> Result<Vec<(Contract, u64)>, String> {
    let Some(file) = &args.known else { return Ok(Vec::new()) };
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let seed = |line: &str| {
        let mut words = line.split_whitespace();
        Some((Contract::named(words.next()?)?, words.next()?.parse().ok()?))
    };
    lines
        .map(|line| seed(line).ok_or_else(|| format!("not a contract and a seed: {line}")))
        .collect()
}

/// Runs one history. Returns `None` if it panicked, which has been reported.
fn outcome(contract: Contract, seed: u64, report: Report) -> Option<Outcome> {
    let run = || director::run(&Plan::draw(seed, contract), report);
    let Ok((history, _, polls)) = catch_unwind(run) else {
        scheduler::abandon();
        return None;
    };
    let of = format!("{} seed {seed}", contract.name());
    Some(Outcome {
        calls: history.calls,
        polls,
        trace: history.trace.map(|trace| trace.text(&of)),
        coverage: history.coverage,
        violation: history.violations.into_iter().next(),
    })
}

impl Args {
    fn report(&self) -> Report {
        if self.trace.is_some() { Report::Trace } else { Report::Nothing }
    }
}

impl<'a> Search<'a> {
    fn new(args: &'a Args, began: Instant) -> Self {
        Self {
            args,
            began,
            coverage: Coverage::default(),
            histories: 0,
            calls: 0,
            polls: 0,
            failures: 0,
            traces: String::new(),
        }
    }

    fn take(&mut self, contract: Contract, seed: u64, outcome: Option<Outcome>) {
        self.histories += 1;
        let violation = match &outcome {
            Some(outcome) => {
                self.calls += outcome.calls;
                self.polls += outcome.polls;
                self.coverage.add(&outcome.coverage);
                self.traces.push_str(outcome.trace.as_deref().unwrap_or_default());
                outcome.violation.as_deref()
            }
            None => Some("panicked"),
        };
        let Some(violation) = violation else { return };
        self.failures += 1;
        println!("{contract:?} seed {seed}: {violation}");
        if self.failures == 1 && self.args.shrinks && outcome.is_some() {
            shrink::report(&Plan::draw(seed, contract));
        }
        println!("replay: {PROGRAM} --seed {seed} --contract {}", contract.name());
    }

    fn finish(self) -> ExitCode {
        let seconds = self.began.elapsed().as_secs_f64();
        if self.args.coverage {
            print!("{}", self.coverage.text());
        }
        let missing = if self.args.complete {
            self.coverage.missing(&self.args.contracts)
        } else {
            Vec::new()
        };
        for missing in &missing {
            println!("never happened: {missing}");
        }
        let each = |count: u64| count as f64 / self.histories as f64;
        println!(
            "{} histories from seed {} in {seconds:.1} s: {:.0} a second, {:.0} calls and {:.0} \
             polls each; {} failed",
            self.histories,
            self.args.first,
            self.histories as f64 / seconds,
            each(self.calls),
            each(self.polls),
            self.failures,
        );
        if self.failures == 0 && missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
