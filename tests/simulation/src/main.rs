//! distlock's own code on a simulated clock, scheduler and store: hundreds of histories a second,
//! each decided by its seed.
//!
//! The library's sources are modules of this program. Only `runtime/`, by which they reach the
//! machine, is another one here.

#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)] // what a program does not need
#![allow(clippy::expect_used, clippy::panic)] // a simulation that is wrong must not go on

#[path = "../../../src/backend/mod.rs"]
mod backend;
#[path = "../../../src/client/mod.rs"]
mod client;
#[path = "../../../src/error.rs"]
mod error;
#[path = "../../../src/fencing.rs"]
mod fencing;
#[path = "../../../src/lost.rs"]
mod lost;
#[path = "../../../src/primitives/mod.rs"]
mod primitives;
mod queue;
mod runtime;
#[path = "../../../src/session/mod.rs"]
mod session;
#[path = "../../../src/telemetry/mod.rs"]
mod telemetry;

mod args;
mod caller;
mod coincidence;
mod director;
mod events;
mod grants;
mod history;
mod holders;
mod menu;
mod network;
mod plan;
mod scheduler;
mod server;
mod sessions;
mod settings;
mod shrink;
mod store;
mod strikes;
mod told;
mod trace;
mod world;

use std::{
    fs,
    process::ExitCode,
    time::{Duration, Instant},
};

use args::Args;
use director::Tell;
use history::Coverage;
use plan::Plan;
use server::Contract;

fn main() -> ExitCode {
    let args = match Args::parse() {
        Ok(Some(args)) => args,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(seed) = args.seed {
        return args
            .contracts
            .iter()
            .map(|contract| replay(seed, *contract))
            .max_by_key(failed)
            .unwrap_or(ExitCode::SUCCESS);
    }
    search(&args).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn failed(code: &ExitCode) -> bool {
    *code != ExitCode::SUCCESS
}

/// Runs one history and tells all of it.
fn replay(seed: u64, contract: Contract) -> ExitCode {
    let plan = Plan::draw(seed, contract);
    let (history, time, polls) = director::run(&plan, Tell::All);
    print!("{}", history.text());
    for violation in &history.violations {
        println!("violation: {violation}");
    }
    println!("{} calls, {polls} polls, {time:?} of simulated time", history.calls);
    println!("hash {:016x}", history.hash());
    if history.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What came of many histories.
struct Search<'a> {
    args: &'a Args,
    began: Instant,
    coverage: Coverage,
    histories: u64,
    calls: u64,
    polls: u64,
    failures: u64,
    traces: Option<String>,
}

/// Runs histories until the time or the seeds are used up.
fn search(args: &Args) -> Result<ExitCode, String> {
    let mut search = Search {
        args,
        began: Instant::now(),
        coverage: Coverage::default(),
        histories: 0,
        calls: 0,
        polls: 0,
        failures: 0,
        traces: args.trace.as_ref().map(|_| String::new()),
    };
    let drawn = (args.first..)
        .take_while(|seed| seed - args.first < args.seeds)
        .flat_map(|seed| args.contracts.iter().map(move |contract| (*contract, seed)));
    let mut told = Instant::now();
    for (contract, seed) in known(args)?.into_iter().chain(drawn) {
        let over = args.minutes.is_some_and(|limit| search.began.elapsed() >= limit);
        if over || search.failures >= args.failures {
            break;
        }
        search.run(contract, seed);
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            eprintln!("{} histories, {} failed", search.histories, search.failures);
        }
    }
    if let (Some(file), Some(traces)) = (&args.trace, &search.traces) {
        fs::write(file, traces).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(search.tell())
}

/// The seeds that once failed: a contract, a seed, and a word on it in each line.
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

impl Search<'_> {
    fn run(&mut self, contract: Contract, seed: u64) {
        let plan = Plan::draw(seed, contract);
        let tell = if self.traces.is_some() { Tell::Trace } else { Tell::Nothing };
        let (history, _, polled) = director::run(&plan, tell);
        if let (Some(traces), Some(trace)) = (&mut self.traces, &history.trace) {
            traces.push_str(&trace.text(&format!("{} seed {seed}", contract.name())));
        }
        self.histories += 1;
        self.calls += history.calls;
        self.polls += polled;
        self.coverage.add(&history.coverage);
        let Some(violation) = history.violations.first() else { return };
        self.failures += 1;
        println!("{contract:?} seed {seed}: {violation}");
        if self.failures == 1 && self.args.shrinks {
            shrink::tell(&plan);
        }
        println!("replay: {PROGRAM} --seed {seed} --contract {}", contract.name());
    }

    fn tell(self) -> ExitCode {
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

const PROGRAM: &str = "cargo run -p distlock-simulation --release --";
