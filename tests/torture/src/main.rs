//! Torture: processes that contend for locks while faults strike them and the servers, and a checker of what they saw.

#![allow(clippy::expect_used, clippy::panic)] // a worker that cannot go on says so by panicking, which the checker reports

mod args;
mod checker;
mod cluster;
mod event;
mod fault;
mod fleet;
mod nemesis;
#[path = "../../common/proxy.rs"]
#[allow(dead_code)] // the conformance suite uses more of it
mod proxy;
mod register;
mod report;
mod sampler;
mod torture;
mod worker;

use std::{path::Path, process::ExitCode};

use args::Command;
use event::{Event, Record};
use report::Report;

fn main() -> ExitCode {
    let done = match args::parse() {
        Ok(Command::Worker(arguments)) => {
            worker::run(&arguments);
            return ExitCode::SUCCESS;
        }
        Ok(Command::Help) => {
            print!("{}", args::USAGE);
            for (_, name, what) in fault::Kind::ALL {
                println!("  {name:16} {what}");
            }
            return ExitCode::SUCCESS;
        }
        Ok(Command::Replay(folder)) => replay(&folder),
        Ok(Command::Torture(run)) => torture::torture(&run),
        Err(error) => {
            eprintln!("torture: {error}; see torture --help");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).expect("reports can be written as JSON"));
            ExitCode::from(u8::from(!report.violations.is_empty()))
        }
        Err(error) => {
            eprintln!("torture: {error}");
            ExitCode::from(2)
        }
    }
}

/// Checks a history once more.
fn replay(folder: &Path) -> cluster::Result<Report> {
    let records = event::read(folder)?;
    let run = records.iter().find_map(|Record { event, .. }| match event {
        Event::Began { run } => Some(run.clone()),
        _ => None,
    });
    let mut report = checker::check(&run.ok_or("there is no run in this folder")?, &records);
    report.history = Some(folder.display().to_string());
    Ok(report)
}
