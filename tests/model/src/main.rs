//! Models of what the library promises by reasoning, all of whose histories are tried, within
//! bounds.
//!
//! They are written by hand after the code, and are no proof of it: they show that the rules are
//! enough, and that none of them can be left out. That the code obeys them is what the other tests
//! are for.

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
       model --replay FILE | -h

Visits all states of these models, or of the queue's, with all rules of the algorithm. --without
RULE leaves one out, and prints the shortest history that breaks a property; --all does both, for
every rule. --large visits more states, where that takes much longer. --list prints the rules.
--replay follows the histories that the simulation has written with --trace, in the queue's model.";

/// What is asked for.
#[derive(Clone, Debug)]
enum Wish {
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

/// Whether all came out as it should.
fn run() -> Result<bool, lexopt::Error> {
    let (mut wish, mut large, mut models) = (Wish::Hold, false, Vec::new());
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("without") => wish = Wish::Without(parser.value()?.string()?),
            Arg::Long("all") => wish = Wish::All,
            Arg::Long("list") => wish = Wish::List,
            Arg::Long("large") => large = true,
            Arg::Long("replay") => {
                let file: PathBuf = parser.value()?.into();
                return queue::replay::all(&file).map_err(Into::into);
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
            "queue" => fulfil::<queue::Lock>(&wish, large)?,
            "redlock" => fulfil::<redlock::Redlock>(&wish, large)?,
            "failover" => fulfil::<failover::Failover>(&wish, large)?,
            _ => return Err(format!("no model of {model}; see -h").into()),
        };
    }
    Ok(good)
}

fn fulfil<M: Checked>(wish: &Wish, large: bool) -> Result<bool, String> {
    let hold = || check::all_hold::<M>(if large { M::LARGE } else { M::BOUNDS });
    match wish {
        Wish::Hold => Ok(hold()),
        Wish::Without(name) => {
            let rule = M::Rule::ALL.iter().find(|rule| rule.name() == name);
            let rule = rule.ok_or_else(|| format!("no rule like {name}; see --list"))?;
            Ok(check::breaks::<M>(*rule))
        }
        Wish::All => {
            let good = hold();
            Ok(M::Rule::ALL.iter().fold(good, |good, rule| check::breaks::<M>(*rule) && good))
        }
        Wish::List => {
            for rule in M::Rule::ALL {
                println!("{:16}  {}", rule.name(), rule.text());
            }
            Ok(true)
        }
    }
}
