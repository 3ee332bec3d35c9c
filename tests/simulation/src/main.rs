//! distlock's own code on a simulated clock, scheduler and store: hundreds of histories a second,
//! each determined by its seed.
//!
//! The library's sources are modules of this program. Only `runtime/`, their interface to the
//! machine, is replaced.

// The library's unit tests are not part of this program.
#![cfg(not(test))]
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs)] // of no use in a program
#![allow(clippy::expect_used, clippy::panic)] // a wrong simulation must stop

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
#[path = "../../../src/store_kind.rs"]
mod store_kind;
#[path = "../../../src/telemetry/mod.rs"]
mod telemetry;

mod args;
mod attempts;
mod caller;
mod claims;
mod coincidence;
mod director;
mod events;
mod grants;
mod history;
mod holders;
mod menu;
mod network;
mod plan;
#[cfg(feature = "redis")]
mod redis;
mod scheduler;
mod search;
mod server;
mod sessions;
mod settings;
mod shrink;
mod store;
mod strikes;
mod trace;
mod world;

use std::process::ExitCode;

use args::Args;
use director::Report;
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
    search::search(&args).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

fn failed(code: &ExitCode) -> bool {
    *code != ExitCode::SUCCESS
}

/// Runs one history and prints all of it.
fn replay(seed: u64, contract: Contract) -> ExitCode {
    let plan = Plan::draw(seed, contract);
    let (history, time, polls) = director::run(&plan, Report::All);
    print!("{}", history.text());
    for violation in &history.violations {
        println!("violation: {violation}");
    }
    println!("{} calls, {polls} polls, {time:?} of simulated time", history.calls);
    println!("hash {:016x}", history.hash());
    if history.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
