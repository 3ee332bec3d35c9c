//! An inductive proof that two clients never hold a lock at once, for any number of clients, keys
//! and faults.
//!
//! `queue/` contains the transition system, its properties and their invariant. They are written by
//! hand from the code and do not prove it.

mod bits;
mod expand;
mod expression;
mod history;
mod induction;
mod report;
mod search;
mod solver;
mod system;

use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};

use report::Shown;
use system::{DRIFT, EXACT, System};

const USAGE: &str = "\
Usage: proof [--without RULE | --all | --shortest RULE | --reach | --list | -h]

Proves the properties of the lock on a store with queues, for exact clocks and for clocks that
drift. Also checks that certain situations are possible, and that without each rule a history breaks
a property. Needs the program z3. --without RULE leaves a rule out, and prints what is not proved
without it, and the history. --all does so for every rule. --shortest RULE searches for the shortest
history instead, which may take long. --reach prints a history to each situation. --list prints the
rules.";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns `true` if all results are as expected.
fn run() -> Result<bool, lexopt::Error> {
    let mut parser = Parser::from_env();
    let first = parser.next()?;
    let good = match first {
        None => {
            let system = System::new(EXACT, None)?;
            let mut good = report::reach(&system, Shown::Length)?;
            for (rule, _) in &system.rules {
                good &= report::breaks(rule, Shown::Length)?;
            }
            good &= report::prove(&system, EXACT)?;
            report::prove(&System::new(DRIFT, None)?, DRIFT)? && good
        }
        Some(Arg::Long("without")) => report::without(&parser.value()?.string()?)?,
        Some(Arg::Long("shortest")) => report::shortest(&parser.value()?.string()?)?,
        Some(Arg::Long("all")) => {
            let mut good = true;
            for (rule, _) in &System::new(EXACT, None)?.rules {
                good &= report::without(rule)?;
            }
            good
        }
        Some(Arg::Long("reach")) => report::reach(&System::new(EXACT, None)?, Shown::Whole)?,
        Some(Arg::Long("list")) => {
            for (rule, text) in &System::new(EXACT, None)?.rules {
                println!("{rule:16}  {text}");
            }
            true
        }
        Some(Arg::Short('h') | Arg::Long("help")) => {
            println!("{USAGE}");
            true
        }
        Some(arg) => return Err(arg.unexpected()),
    };
    match parser.next()? {
        Some(arg) => Err(arg.unexpected()),
        None => Ok(good),
    }
}
