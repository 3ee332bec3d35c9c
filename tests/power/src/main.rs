//! distlock when its servers lose power: clients contend for locks, the servers are killed, and
//! their disk forgets what was not flushed.

mod checker;
mod client;
mod disk;
mod events;
mod host;
mod local;
mod lost;
mod machine;
mod mount;
mod results;
mod server;
mod setup;
mod trial;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, time::Duration};

use distlock_testkit::Result;
use lexopt::{Arg, Parser, ValueExt};

use crate::{
    host::Host,
    machine::Machine,
    setup::{SETUPS, Setup, Store},
    trial::Trial,
};

const USAGE: &str = "\
Usage: distlock-power run STORE CONFIGURATION [--trials N] [--cuts N] [--ttl S]
                           [--port P]
       distlock-power demo STORE CONFIGURATION [--port P]
       distlock-power table

Runs clients on a server whose data are on a FUSE file system in memory. Power cuts kill the server,
and the file system forgets what was not flushed. Needs root, /dev/fuse, and the servers that
`tests/up --local --trixie STORE` unpacks.

run     N trials (20), each with N power cuts (10). Appends each finished trial to a file in
        target/power, and skips the trials that the file already contains. S is the clients' TTL
        in seconds (2; always 2 on SQLite). Two holders are seen only if it is longer than a
        restart of the server.
demo    Prints whether the server still has a lock's holder after a power cut just after the grant.
        Five times.
table   Prints the results of all runs.

The server uses up to four ports from P (24000) on. Stores and configurations:
";

/// How often `demo` cuts the power.
const DEMOS: u32 = 5;

#[derive(Debug)]
enum Command {
    Run { ttl: Duration, trials: u64, cuts: u32 },
    Demo,
}

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    match run(arguments.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("distlock-power: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<OsString>) -> Result<()> {
    let (mut words, mut ttl) = (Vec::new(), client::TTL);
    let (mut trials, mut cuts, mut port) = (20, 10, 24000);
    let mut parser = Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(word) => words.push(word.string()?),
            Arg::Long("trials") => trials = parser.value()?.parse()?,
            Arg::Long("cuts") => cuts = parser.value()?.parse()?,
            Arg::Long("ttl") => ttl = Duration::from_secs(parser.value()?.parse()?),
            Arg::Long("port") => port = parser.value()?.parse()?,
            Arg::Short('h') | Arg::Long("help") => words.push("help".to_owned()),
            _ => return Err(argument.unexpected().into()),
        }
    }
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (setup, command) = match words[..] {
        ["run", store, name] => (Setup::find(store, name)?, Command::Run { ttl, trials, cuts }),
        ["demo", store, name] => (Setup::find(store, name)?, Command::Demo),
        ["table"] => return table(),
        ["worker", url, number, seed] => return block_on(local::work(url, number, seed)),
        ["hold", url] => return block_on(lost::hold(url)),
        ["look", url] => return block_on(lost::look(url)),
        _ => {
            print!("{USAGE}");
            for Setup { name: (store, configuration), .. } in SETUPS {
                println!("  {store} {configuration}");
            }
            return Ok(());
        }
    };
    block_on(perform(setup, &command, port))
}

fn block_on(work: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Runtime::new()?.block_on(work)
}

async fn perform(setup: &'static Setup, command: &Command, port: u16) -> Result<()> {
    let folder = machine::folder(setup);
    std::fs::create_dir_all(&folder)?;
    match *command {
        Command::Demo if setup.store == Store::Sqlite => {
            let mut host = Host::install(&folder)?;
            for _ in 0..DEMOS {
                shown(setup, lost::file_keeps_a_grant(&mut host).await?);
            }
            Ok(())
        }
        Command::Demo => {
            let mut machine = Machine::install(setup, &folder, port).await?;
            for _ in 0..DEMOS {
                shown(setup, lost::keeps_a_grant(&mut machine).await?);
            }
            machine.end().await
        }
        Command::Run { trials, cuts, .. } if setup.store == Store::Sqlite => {
            let mut host = Host::install(&folder)?;
            for seed in missing(setup, trials)? {
                finished(setup, &local::run(&mut host, seed, cuts).await?)?;
            }
            Ok(())
        }
        Command::Run { ttl, trials, cuts } => {
            let mut machine = Machine::install(setup, &folder, port).await?;
            for seed in missing(setup, trials)? {
                finished(setup, &trial::run(&mut machine, ttl, seed, cuts).await?)?;
            }
            machine.end().await
        }
    }
}

fn shown(setup: &Setup, kept: bool) {
    let (store, configuration) = setup.name;
    println!("{store} {configuration}: {}", if kept { "kept" } else { "lost" });
}

/// The file of a configuration's finished trials.
fn path(setup: &Setup) -> PathBuf {
    machine::folder(setup).with_extension("trials")
}

/// Returns the seeds of the trials that are not finished.
fn missing(setup: &Setup, trials: u64) -> Result<Vec<u64>> {
    let done = results::read(&path(setup))?;
    let is_missing = |seed: &u64| done.iter().all(|trial| trial.seed != *seed);
    Ok((0..trials).filter(is_missing).collect())
}

fn finished(setup: &Setup, trial: &Trial) -> Result<()> {
    results::append(&path(setup), trial)?;
    println!("{}", results::row(setup.name, &results::read(&path(setup))?));
    Ok(())
}

/// Prints the results of all configurations with finished trials.
fn table() -> Result<()> {
    println!("{}", results::HEAD);
    for setup in SETUPS {
        let trials = results::read(&path(setup))?;
        if !trials.is_empty() {
            println!("{}", results::row(setup.name, &trials));
        }
    }
    Ok(())
}
