//! Workers built against different versions of the library contend for the same locks, while
//! workers of one version replace those of the other. Then the history is checked.

mod args;
mod check;
mod fleet;
mod primitive;
mod rollout;
mod store;
mod takeover;
mod worker;

use std::process::ExitCode;

use args::Command;
use distlock_testkit::Result;

fn main() -> ExitCode {
    match run() {
        Ok(good) => ExitCode::from(u8::from(!good)),
        Err(error) => {
            eprintln!("upgrade: {}", chain(&*error));
            ExitCode::from(2)
        }
    }
}

/// Returns `true` if all checks passed.
fn run() -> Result<bool> {
    let command = args::parse().map_err(|error| format!("{error}; see docker/upgrade -h"))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = match command {
        Command::Worker(task) => runtime.block_on(worker::run(&task)).map(|()| true),
        Command::Rollouts(plan) => runtime.block_on(rollout::all(plan)),
    };
    runtime.shutdown_background();
    done
}

/// Formats an error with its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
