//! Runs a command under a lock.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use distlock::{Client, Error};
use rustix::process::Signal;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::{
    args::{ElectArgs, HoldArgs, RunArgs, StoreArgs, Words},
    clock,
    exit::{self, Failure},
    guarded_command::GuardedCommand,
    held::{Held, Target},
    limits::Limits,
    output::Output,
    process_group::Ended,
    protocol::{Cause, Report},
    signals::{self, Signals},
    store, wait,
};

/// How long the store has to take back what a lost or unlucky client wrote.
const COURTESY: Duration = Duration::from_secs(2);

/// Why a command is killed at the deadline.
const UNCONFIRMED: &str = "the store did not confirm the lock in time";

/// A command, and what it is to be run under.
pub(crate) struct Job {
    pub(crate) target: Target,
    pub(crate) hold: HoldArgs,
    pub(crate) hold_at_least: Option<Duration>,
    pub(crate) once_per: Option<Duration>,
    pub(crate) command: Vec<OsString>,
    /// When this process was started.
    fired: SystemTime,
}

impl Job {
    pub(crate) fn run(args: RunArgs, fired: SystemTime) -> Self {
        let name = args.name.clone().unwrap_or_default();
        let target = match (args.permits, args.all.is_empty()) {
            (Some((wanted, of)), _) => Target::Permits { name, wanted, of },
            (None, false) => Target::All(args.name.into_iter().chain(args.all).collect()),
            _ if args.shared => Target::Read(name),
            _ if args.exclusive => Target::Write(name),
            _ => Target::Mutex(name),
        };
        let (hold_at_least, once_per) = (args.hold_at_least, args.once_per);
        Self { target, hold: args.hold, hold_at_least, once_per, command: args.command, fired }
    }

    pub(crate) fn elect(args: ElectArgs, fired: SystemTime) -> Self {
        let target = Target::Election { name: args.name, value: args.value };
        let (hold, command) = (args.hold, args.command);
        Self { target, hold, hold_at_least: None, once_per: None, command, fired }
    }
}

/// Does all of it; with the code to exit with.
pub(crate) async fn run(job: Job, store: &StoreArgs, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::catch()?;
    let url = store::url(store)?;
    let client = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit_code(signal)),
        client = store::connect(&url, job.hold.ttl) => client?,
    };
    let done = tokio::select! {
        biased;
        done = under_lock(&job, &client, output) => done,
        // Whatever was written by then is taken back by closing the client.
        signal = signals.ending() => Ok(Done::Ended(exit_code(signal))),
    };
    let taken = match done {
        Ok(Done::Taken(taken)) => *taken,
        Ok(Done::Ended(code)) => {
            close(&client, &mut signals).await;
            return Ok(code);
        }
        Err(failure) => {
            close(&client, &mut signals).await;
            return Err(failure);
        }
    };
    let outcome = guard(&job, &url, &client, taken, &mut signals, output).await;
    close(&client, &mut signals).await;
    outcome
}

/// How far it has come before the command.
enum Done {
    Taken(Box<Taken>),
    /// There is nothing to run.
    Ended(u8),
}

struct Taken {
    held: Held,
    limits: Limits,
    since: Instant,
}

/// Takes the lock, and looks whether the command is to be run.
async fn under_lock(job: &Job, client: &Client, output: Output) -> Result<Done, Failure> {
    let (hold, names) = (&job.hold, job.target.names());
    let limits = Limits::new(
        client.backend(),
        client.session_ttl(),
        client.deadline_reserve(),
        hold.kill_signal,
        hold.kill_after,
        hold.max_hold,
    );
    let limits = limits.map_err(Failure::usage)?;
    let start = Instant::now();
    let busy = match wait::take(client, &job.target, hold, output).await {
        Ok(Some(held)) => Ok(held),
        Ok(None) => Err(format!("{names}: held or awaited by another client")),
        Err(failure) if failure.code == exit::BUSY => Err(format!("{names}: {failure}")),
        Err(failure) => return Err(failure),
    };
    let held = match busy {
        Ok(held) => held,
        Err(text) => {
            output.note("busy", &text, json!({ "name": names }));
            return Ok(Done::Ended(hold.conflict_exit_code));
        }
    };
    output.event(
        "granted",
        json!({
            "name": names,
            "token": held.each(|guard| guard.fencing_token().to_string()),
            "key": held.each(|guard| guard.key().to_owned()),
            "owner": client.owner(),
            "waited_ms": millis(start.elapsed()),
        }),
    );
    if let (Some(period), Held::One(guard)) = (job.once_per, &held)
        && !guard.claim_period_at(period, job.fired).await?
    {
        let period = humantime::format_duration(period);
        let text = format!(
            "another run of {names} has already begun in the current period ({period}); the \
             command was skipped"
        );
        output.note("refused", &text, json!({ "name": names, "period": period.to_string() }));
        // Those behind it would wait for the end of this client otherwise.
        held.unlock().await?;
        return Ok(Done::Ended(0));
    }
    Ok(Done::Taken(Box::new(Taken { held, limits, since: Instant::now() })))
}

/// Runs the command, and lets go of the lock when nothing lives of it any more.
async fn guard(
    job: &Job,
    url: &str,
    client: &Client,
    taken: Taken,
    signals: &mut Signals,
    output: Output,
) -> Result<u8, Failure> {
    let Taken { held, limits, since } = taken;
    let environment = [
        ("DISTLOCK_NAME", job.target.names()),
        ("DISTLOCK_TOKEN", held.each(|guard| guard.fencing_token().to_string())),
        ("DISTLOCK_KEY", held.each(|guard| guard.key().to_owned())),
        ("DISTLOCK_OWNER", client.owner().to_owned()),
        (store::VARIABLE, store::without_password(url)),
    ];
    let guarded_command = GuardedCommand::start(limits, &job.command, &environment)?;
    match watch(guarded_command, &held, limits, signals, output).await {
        Outcome::NotStarted(code, text) => {
            let _ = held.unlock().await;
            Err(Failure::new(code, text))
        }
        Outcome::Done(ended) => {
            let code = ended.exit_code();
            output.event("ended", json!({ "name": job.target.names(), "code": code }));
            if let Some(rest) = job.hold_at_least.map(|time| time.saturating_sub(since.elapsed())) {
                tokio::select! {
                    () = sleep(rest) => {}
                    _ = held.lost() => {}
                    _ = signals.ending() => {}
                }
            }
            match held.unlock().await {
                Ok(()) => Ok(code),
                Err(error @ Error::Lost { .. }) => {
                    lost(job, &environment, &exit::chain(&error), output).await;
                    Ok(exit::LOST)
                }
                // It goes on in the background, and ends with the TTL.
                Err(error) => {
                    output.note("unconfirmed", &exit::chain(&error), json!({}));
                    Ok(code)
                }
            }
        }
        Outcome::Lost(reason) => {
            let reason = match job.hold.max_hold {
                // Which of the two the deadline was, the guardian does not know.
                Some(time) if reason == UNCONFIRMED && is_over(time, limits, since) => {
                    let time = humantime::format_duration(time);
                    format!("the --max-hold time ({time}) has passed")
                }
                _ => reason,
            };
            // Nothing lives any more: if it is held still, the next one need not wait for the TTL.
            let _ = timeout(COURTESY, held.unlock()).await;
            lost(job, &environment, &reason, output).await;
            Ok(exit::LOST)
        }
    }
}

/// Whether the command had to end by now, as the lock is held for no longer than this.
fn is_over(max_hold: Duration, limits: Limits, since: Instant) -> bool {
    since.elapsed() + limits.kill_after + limits.margin * 2 >= max_hold
}

/// How it went.
enum Outcome {
    Done(Ended),
    NotStarted(u8, String),
    /// The command was killed.
    Lost(String),
}

/// Tells the guardian what there is to tell, until the command and all that it started is dead.
async fn watch(
    mut guarded_command: GuardedCommand,
    held: &Held,
    limits: Limits,
    signals: &mut Signals,
    output: Output,
) -> Outcome {
    let mut tick = interval(limits.tick());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut sent, mut lost, mut asked) = (Duration::ZERO, None, false);
    loop {
        tokio::select! {
            biased;
            report = guarded_command.next() => match report {
                Some(Report::Started(pid)) => output.event("started", json!({ "pid": pid })),
                Some(Report::Failed(code, text)) => {
                    guarded_command.finish();
                    return Outcome::NotStarted(code, text);
                }
                Some(Report::Ended(ended, cause)) => {
                    guarded_command.finish();
                    return match (cause, lost) {
                        (Cause::Itself, _) => Outcome::Done(ended),
                        (_, Some(reason)) => Outcome::Lost(reason),
                        _ => Outcome::Lost(UNCONFIRMED.to_owned()),
                    };
                }
                None => {
                    guarded_command.kill_all();
                    return Outcome::Lost("the guardian was killed".to_owned());
                }
            },
            reason = held.lost(), if lost.is_none() => {
                guarded_command.kill();
                lost = Some(reason.to_string());
            }
            request = held.asked(), if !asked => {
                asked = true;
                let (owner, reason) = (request.owner(), request.reason());
                let text = format!("{owner} requests a release: {reason}");
                output.note("asked", &text, json!({ "owner": owner, "reason": reason }));
            }
            signal = signals.next() => {
                guarded_command.signal(signal);
                if signal == Signal::TSTP {
                    signals::stop();
                }
            }
            _ = tick.tick() => {
                // Taken before, so that it is never too late.
                let now = clock::now();
                let remaining = held.remaining();
                if remaining < limits.margin / 2 && sent != Duration::ZERO {
                    // The guardian should have done that.
                    guarded_command.kill_all();
                    return Outcome::Lost(lost.unwrap_or(UNCONFIRMED.to_owned()));
                }
                let deadline = now + remaining;
                let moved = deadline.abs_diff(sent) > Duration::from_millis(1);
                if moved && guarded_command.deadline(deadline) {
                    sent = deadline;
                }
            }
        }
    }
}

/// Tells that the lock was lost, and runs what is to be run then.
async fn lost(job: &Job, environment: &[(&str, String)], reason: &str, output: Output) {
    let names = job.target.names();
    let text = format!("{names} was lost: {reason}");
    output.note("lost", &text, json!({ "name": names, "reason": reason }));
    let Some(Words(words)) = &job.hold.on_lost else { return };
    let Some((program, arguments)) = words.split_first() else { return };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    command.env("DISTLOCK_LOST", reason).process_group(0);
    let ran = match tokio::process::Command::from(command).spawn() {
        Ok(mut child) => child.wait().await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = ran {
        output.note("on_lost", &format!("--on-lost {program}: {error}"), json!({}));
    }
}

/// Takes back what the client has written. A signal cuts it short.
async fn close(client: &Client, signals: &mut Signals) {
    tokio::select! {
        biased;
        _ = signals.ending() => {}
        _ = timeout(COURTESY, client.close()) => {}
    }
}

fn exit_code(signal: Signal) -> u8 {
    Ended::Signal(signal.as_raw()).exit_code()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
