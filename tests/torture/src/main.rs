//! Torture: processes contend for locks while faults strike them and the servers, and a checker
//! verifies what they saw.

// a worker that cannot continue panics, which the checker reports
#![allow(clippy::expect_used, clippy::panic)]

mod args;
mod checker;
mod cluster;
mod database;
mod event;
mod fault;
mod fleet;
mod ledger;
mod manner;
mod nemesis;
mod observer;
mod operator;
mod pauses;
mod primitive;
mod register;
mod report;
mod sampler;
mod soak;
mod strangers;
mod telemetry;
mod torture;
mod trace;
mod worker;

use std::{path::Path, process::ExitCode};

use args::Command;
use distlock_testkit::Result;
use event::{Event, Record};
use report::Report;

fn main() -> ExitCode {
    let (line, good) = match run() {
        Ok(Some(outcome)) => outcome,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("torture: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{line}");
    ExitCode::from(u8::from(!good))
}

/// Returns the last line of the output, and whether the run succeeded.
fn run() -> Result<Option<(String, bool)>> {
    let report = match args::parse().map_err(|error| format!("{error}; see torture --help"))? {
        Command::Torture(run) => torture::torture(&run)?,
        Command::Replay(folder, trace) => replay(&folder, trace.as_deref())?,
        Command::Soak(soak) => {
            let report = soak::soak(&soak)?;
            return Ok(Some((serde_json::to_string(&report)?, report.flat)));
        }
        Command::Worker(arguments) => {
            worker::run(&arguments);
            return Ok(None);
        }
        Command::Soaked(arguments) => {
            soak::work(&arguments);
            return Ok(None);
        }
        Command::Pauses(number) => return Ok(Some(pauses::pauses(number)?)),
        Command::Sleeper(arguments) => {
            pauses::sleep_and_lock(&arguments);
            return Ok(None);
        }
        Command::Help => {
            print!("{}", args::USAGE);
            for (_, name, what) in fault::Kind::ALL {
                println!("  {name:20} {what}");
            }
            return Ok(None);
        }
    };
    Ok(Some((serde_json::to_string(&report)?, report.is_good())))
}

/// Checks a history again.
fn replay(folder: &Path, trace: Option<&Path>) -> Result<Report> {
    let records = event::read(folder)?;
    let run = records.iter().find_map(|Record { event, .. }| match event {
        Event::Began { run } => Some(run.clone()),
        _ => None,
    });
    let run = run.ok_or("the folder has no run")?;
    if let Some(file) = trace {
        trace::append(file, &run, &records)?;
    }
    let mut report = checker::check(&run, &records);
    report.history = Some(folder.display().to_string());
    Ok(report)
}
