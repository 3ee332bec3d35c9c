//! Models of guarantees that rest on reasoning. All of their histories are checked, within bounds.
//!
//! The models are written by hand from the code and do not prove it: they show that the rules are
//! sufficient, and that each is needed. Whether the code follows the rules is for the other tests.

mod check;
mod failover;
mod queue;
mod redlock;
mod rule;

use std::{path::PathBuf, process::ExitCode};

use lexopt::{Arg, Parser, ValueExt};

use check::Checked;
use rule::RuleOf;

const USAGE: &str = "\
Usage: model [queue | redlock | failover]... [--large] [--without RULE | --all | --list]
       model --replay FILE | --mutate FILE | -h

Checks all states of the given models (default: queue) with all rules of the algorithm. --without
RULE leaves a rule out and prints the shortest history that breaks a property. --all does both, for
every rule. --large checks more states, which takes much longer. --list prints the rules. --replay
checks traces that the simulation or torture has written with --trace against the queue model.
--mutate changes each trace in ways that break a rule, and checks that the model refuses them.";

/// The requested action.
#[derive(Clone, Debug)]
enum Action {
    Hold,
    Without(String),
    All,
    List,
}

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
    let (mut action, mut large, mut models) = (Action::Hold, false, Vec::new());
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("without") => action = Action::Without(parser.value()?.string()?),
            Arg::Long("all") => action = Action::All,
            Arg::Long("list") => action = Action::List,
            Arg::Long("large") => large = true,
            Arg::Long("replay") => {
                let file: PathBuf = parser.value()?.into();
                return queue::replay::all(&file).map_err(Into::into);
            }
            Arg::Long("mutate") => {
                let file: PathBuf = parser.value()?.into();
                return queue::replay::mutate(&file).map_err(Into::into);
            }
            Arg::Short('h') | Arg::Long("help") => {
                println!("{USAGE}");
                return Ok(true);
            }
            Arg::Value(model) => models.push(model.string()?),
            _ => return Err(arg.unexpected()),
        }
    }
    if models.is_empty() {
        models.push("queue".into());
    }
    let mut good = true;
    for model in models {
        good &= match &*model {
            "queue" => execute::<queue::Lock>(&action, large)?,
            "redlock" => execute::<redlock::Redlock>(&action, large)?,
            "failover" => execute::<failover::Failover>(&action, large)?,
            _ => return Err(format!("unknown model {model}; see -h").into()),
        };
    }
    Ok(good)
}

fn execute<M: Checked>(action: &Action, large: bool) -> Result<bool, String> {
    let hold = || check::all_hold::<M>(if large { M::LARGE } else { M::BOUNDS });
    match action {
        Action::Hold => Ok(hold()),
        Action::Without(name) => {
            let rule = M::Rule::ALL.iter().find(|rule| rule.name() == name);
            let rule = rule.ok_or_else(|| format!("unknown rule {name}; see --list"))?;
            Ok(check::breaks::<M>(*rule))
        }
        Action::All => {
            let good = hold();
            Ok(M::Rule::ALL.iter().fold(good, |good, rule| check::breaks::<M>(*rule) && good))
        }
        Action::List => {
            for rule in M::Rule::ALL {
                println!("{:16}  {}", rule.name(), rule.text());
            }
            Ok(true)
        }
    }
}
