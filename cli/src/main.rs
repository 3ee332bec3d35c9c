//! `distlock`: runs commands under distributed locks, and shows who holds them.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the command distlock runs only on Linux: it uses timerfd and pidfd to kill commands"
);

mod args;
mod change;
mod clock;
mod doctor;
mod exit;
mod generated;
mod guarded_command;
mod guardian;
mod held;
mod inspect;
mod limits;
mod output;
mod process_group;
mod protocol;
mod queue_changes;
mod run;
mod server;
mod signals;
mod store;
mod top;
mod wait;

use std::{
    env,
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::Parser;
use distlock::Client;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    args::{Args, Command},
    exit::Failure,
    inspect::until_signal,
    output::{Output, masked},
    run::Job,
};

fn main() -> ExitCode {
    let fired = SystemTime::now();
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if let Some((limits, command)) = guardian::read(&arguments) {
        let guarded = guardian::guard(limits, command);
        // If the guardian fails, `distlock` kills the command.
        return guarded.map_or(exit::SYSTEM.into(), |()| ExitCode::SUCCESS);
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            explain(&error, &arguments);
            return if error.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    let output = Output::new(args.store.json);
    match start(args, fired, output) {
        Ok(code) => code.into(),
        Err(failure) => {
            output.note("error", &failure.to_string(), json!({ "code": failure.code }));
            failure.code.into()
        }
    }
}

/// Reports an error in the command line. An argument that may be a misplaced URL with a password is
/// replaced by asterisks.
fn explain(error: &clap::Error, arguments: &[OsString]) {
    let plain = error.render().to_string();
    let text = masked(&plain, arguments);
    if text == plain {
        let _ = error.print();
        return;
    }
    let _ = if error.use_stderr() {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
}

fn start(args: Args, fired: SystemTime, output: Output) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(carry_out(args, fired, output))
}

async fn carry_out(args: Args, fired: SystemTime, output: Output) -> Result<u8, Failure> {
    let store = &args.store;
    match args.command {
        Command::Run(run) => return run::run(Job::run(run, fired), store, output).await,
        Command::Elect(elect) => return run::run(Job::elect(elect, fired), store, output).await,
        Command::Doctor => return doctor::examine(&store::url(store)?, output).await,
        Command::Completions { shell } => {
            return Ok(print(&generated::completions(shell))?);
        }
        Command::Man => return Ok(print(&generated::manual()?)?),
        _ => {}
    }
    let client = store::connect(&store::url(store)?, None).await?;
    let done = look(args.command, &client, output).await;
    // The result does not depend on how the session ends.
    let _ = timeout(Duration::from_secs(2), client.close()).await;
    done
}

/// Runs the subcommands that need only a client.
async fn look(command: Command, client: &Client, output: Output) -> Result<u8, Failure> {
    match command {
        Command::Leader { name } => inspect::leader(client, &name, output).await,
        Command::Observe { name } => inspect::observe(client, &name, output).await,
        Command::Ls { prefix } => inspect::list(client, &prefix, output).await,
        Command::Queue { name, kind, watch } => {
            inspect::queue(client, &name, kind, watch, output).await
        }
        Command::Ask { name, reason, wait } => {
            change::ask(client, &name, &reason, wait, output).await
        }
        Command::Evict { key, token, yes } => change::evict(client, &key, token, yes, output).await,
        // After a signal, too, the client is closed, which deletes its key.
        Command::Clear { name, wait } => {
            until_signal(change::clear(client, &name, wait, output)).await
        }
        Command::Permits { name, set } => change::permits(client, &name, set, output).await,
        Command::Top { interval } => top::show(client, interval, output).await,
        // `carry_out` has run the others.
        _ => Ok(0),
    }
}

fn print(text: &[u8]) -> io::Result<u8> {
    let mut out = io::stdout().lock();
    out.write_all(text)?;
    out.flush()?;
    Ok(0)
}
