//! A model of the lock's algorithm, all of whose histories are tried, within bounds.
//!
//! Three clients with a session each, one queue, and an operator. It is written by hand after the
//! code, and is no proof of it: it shows that the rules are enough, and that none of them can be
//! left out. That the code obeys them is what the other tests are for.
//!
//! # Which step stands for what
//!
//! | step | in `src/` |
//! |---|---|
//! | `Join`, the first or repeated | `Store::enqueue`, asked by `queue/attempt.rs::join` |
//! | `JoinLate`, `ApplyLate`, `DropLate` | `Unknown`: the request comes later or never |
//! | `LoseReply` | the same, and it was applied |
//! | `ToldJoined` | `attempt.rs::enter`, then `queue/lock.rs::hold` |
//! | `Watch` | `Store::watch` in `queue/news.rs::news` |
//! | `CatchUp` | the member or server that answers gets on, and sends the watch's event |
//! | `Look` | `waiter.rs::look_at_both` and `evidence.rs::conclude`, or else `waiter.rs::look` |
//! | `Recheck` | `waiter.rs::recheck` |
//! | grant, in `Look` and `ToldJoined` | `attempt.rs::grant`, `session/deadline.rs::grant` |
//! | `Leave`, `LoseLeave` | `attempt.rs::start_release` and `release`: unlock, cancel, drop |
//! | `LookAgain` | `attempt.rs::look_again` |
//! | `Renew`, `ToldRenewed` | `session/keeper.rs::keep`, `deadline.rs::renewed` |
//! | `ToldRobbed` | `session/eviction.rs::look_after` |
//! | `GiveUp` | `deadline.rs::lapses` of one that waits, `StoreError::SessionGone` |
//! | `Tick`, `Expire` | the clock; the store ends a session, at its end or at any time after it |
//! | `Delete` | an operator |
//!
//! # What makes it small
//!
//! - A read's answer is old when it arrives. That, and a server that lags, is one thing here: the
//!   *view*, the queue as it was at some moment since the session was last told something. It is
//!   kept for waiters alone, and only up to their own key: nobody joins in front of it.
//! - A keepalive is applied when it is sent. One that is applied later leaves the store with a
//!   lease beyond the client's deadline, as one whose reply is lost does.
//! - Clocks are equal: what `Timing::certain` takes off for their difference is left out.
//! - The session of a client that wants nothing is renewed out of sight. A new session is another
//!   client's, as far as the store can tell.
//! - Sessions that end early (closed, revoked) are those of clients that know of it.
//! - Clients are alike, so their first attempts come in the order of their names.
//!
//! # What is left out
//!
//! What spares requests between waiters of one session (`Inherited`, `Withdrawn`), and the word
//! that a ZooKeeper holder leaves (`Released`); shared locks and permits; `try_lock`, which does
//! not wait; silences, which make a proof worth less; the etcd tail, which is a predecessor that
//! has not been seen, as ZooKeeper's is by number; `DOUBT`, the time for which a request may be
//! late: here one looks again until it has either come or gone.

mod check;
mod history;
mod model;
mod properties;
mod replay;
mod rules;
mod state;
mod steps;

use std::{path::PathBuf, process::ExitCode};

use lexopt::{Arg, Parser, ValueExt};

use rules::Rule;

const USAGE: &str = "\
Usage: model [--without RULE | --all | --replay FILE | --list | -h]

Visits all states of a model of the lock, with all rules of the algorithm. --without RULE leaves
one out, and prints the shortest history that breaks a property; --all does both, for every rule.
--replay follows the histories that the simulation has written with --trace. --list prints the
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

/// Whether all came out as it should.
fn run() -> Result<bool, lexopt::Error> {
    let (mut holds, mut left_out) = (true, Vec::new());
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("without") => {
                let name = parser.value()?.string()?;
                let rule = Rule::ALL.iter().find(|rule| rule.name() == name);
                left_out = vec![*rule.ok_or_else(|| format!("no rule like {name}; see --list"))?];
                holds = false;
            }
            Arg::Long("all") => (holds, left_out) = (true, Rule::ALL.to_vec()),
            Arg::Long("replay") => {
                let file: PathBuf = parser.value()?.into();
                return replay::all(&file).map_err(Into::into);
            }
            Arg::Long("list") => {
                for rule in Rule::ALL {
                    println!("{:16}  {}", rule.name(), rule.text());
                }
                return Ok(true);
            }
            Arg::Short('h') | Arg::Long("help") => {
                println!("{USAGE}");
                return Ok(true);
            }
            _ => return Err(arg.unexpected()),
        }
    }
    let mut good = !holds || check::all_hold(check::BOUNDS);
    for rule in left_out {
        good &= check::breaks(rule);
    }
    Ok(good)
}
