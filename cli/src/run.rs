//! Runs a command under a lock.

use std::{
    ffi::OsString,
    process::Command,
    time::{Duration, Instant, SystemTime},
};

use distlock::{Client, Error};
use futures_util::stream::StreamExt;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::{
    args::{ElectArgs, HoldArgs, RunArgs, StoreArgs, Words},
    clock,
    exit::{self, Failure},
    guarded_command::GuardedCommand,
    held::{Held, Target},
    limits::{self, Limits},
    output::Output,
    process_group::{self, Ended},
    protocol::{Cause, Report},
    signals::{self, Signals},
    store, wait,
};

/// How long the client may take to close, or to release a lock that it has lost.
const COURTESY: Duration = Duration::from_secs(2);

/// The reason for a kill at the deadline.
const UNCONFIRMED: &str = "the store did not confirm the lock in time";

/// A command and the lock under which it runs.
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

    /// Returns the code of `--conflict-exit-code` if the failure means that the lock is, or may be,
    /// busy.
    fn conflict(&self, failure: Failure, output: Output) -> Result<u8, Failure> {
        if failure.code != exit::BUSY {
            return Err(failure);
        }
        let names = self.target.names();
        output.note("busy", &format!("{names}: {failure}"), json!({ "name": names }));
        Ok(self.hold.conflict_exit_code)
    }
}

/// Connects, acquires the lock, runs the command and closes. Returns the exit code.
pub(crate) async fn run(job: Job, store: &StoreArgs, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::catch()?;
    limits::check(job.hold_at_least, job.hold.max_hold).map_err(Failure::usage)?;
    let url = store::url(store)?;
    let client = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit_code(signal)),
        client = store::connect(&url, job.hold.ttl) => client,
    };
    let client = match client {
        Ok(client) => client,
        Err(failure) => return job.conflict(failure, output),
    };
    let done = tokio::select! {
        biased;
        done = under_lock(&job, &client, output) => done,
        // Closing the client deletes the keys that it has written by then.
        signal = signals.ending() => Ok(Done::Ended(exit_code(signal))),
    };
    let taken = match done {
        Ok(Done::Taken(taken)) => *taken,
        Ok(Done::Ended(code)) => {
            close(&client).await;
            return Ok(code);
        }
        Err(failure) => {
            close(&client).await;
            return Err(failure);
        }
    };
    let outcome = guard(&job, &url, &client, taken, &mut signals, output).await;
    close(&client).await;
    outcome
}

/// The result of the attempt to lock, before the command starts.
enum Done {
    Taken(Box<Taken>),
    /// There is no command to run.
    Ended(u8),
}

struct Taken {
    held: Held,
    limits: Limits,
    since: Instant,
}

/// Acquires the lock, and checks whether the command has to run in this period.
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
    let held = match wait::take(client, &job.target, hold, output).await {
        Ok(Some(held)) => held,
        Ok(None) => {
            let busy = Failure::new(exit::BUSY, "held or awaited by another client");
            return job.conflict(busy, output).map(Done::Ended);
        }
        Err(failure) => return job.conflict(failure, output).map(Done::Ended),
    };
    output.event(
        "granted",
        json!({
            "name": held.names(),
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
        output.brief_note("refused", &text, json!({ "name": names, "period": period.to_string() }));
        // Otherwise the waiters behind it would wait until this client is closed.
        if let Err(error) = held.unlock().await {
            output.brief_note("unconfirmed", &exit::chain(&error), json!({ "name": names }));
        }
        return Ok(Done::Ended(0));
    }
    Ok(Done::Taken(Box::new(Taken { held, limits, since: Instant::now() })))
}

/// Runs the command, and releases the lock when all processes of the command have ended.
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
        ("DISTLOCK_NAME", held.names()),
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
                    lost(job, &environment, &exit::chain(&error), signals, output).await;
                    Ok(exit::LOST)
                }
                // The session repeats the release until the client closes. After that, the session
                // expires.
                Err(error) => {
                    output.brief_note("unconfirmed", &exit::chain(&error), json!({}));
                    Ok(code)
                }
            }
        }
        Outcome::Lost(reason) => {
            let reason = match job.hold.max_hold {
                // The guardian does not know which of the two limits the deadline was.
                Some(time) if reason == UNCONFIRMED && is_over(time, limits, since) => {
                    let time = humantime::format_duration(time);
                    format!("the command did not end within --max-hold ({time})")
                }
                _ => reason,
            };
            // The command is dead. If the lock is still held, the next waiter need not wait for the
            // TTL.
            let _ = timeout(COURTESY, held.unlock()).await;
            lost(job, &environment, &reason, signals, output).await;
            Ok(exit::LOST)
        }
    }
}

/// Whether `--max-hold` required the command to have ended by now.
fn is_over(max_hold: Duration, limits: Limits, since: Instant) -> bool {
    since.elapsed() + limits.kill_after + limits.margin * 2 >= max_hold
}

/// How the run of the command ended.
enum Outcome {
    Done(Ended),
    NotStarted(u8, String),
    /// The command was killed.
    Lost(String),
}

/// Sends deadlines and signals to the guardian, until the command and all processes that it started
/// are dead.
async fn watch(
    mut guarded_command: GuardedCommand,
    held: &Held,
    limits: Limits,
    signals: &mut Signals,
    output: Output,
) -> Outcome {
    let mut tick = interval(limits.tick());
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut sent, mut lost) = (Duration::ZERO, None);
    // Outside of the loop, because each new future reads the requests again.
    let mut requests = held.requests();
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
                    return Outcome::Lost("the guardian ended unexpectedly".to_owned());
                }
            },
            reason = held.lost(), if lost.is_none() => {
                guarded_command.kill();
                lost = Some(reason.to_string());
            }
            Some((name, request)) = requests.next() => {
                let (owner, reason) = (request.owner(), request.reason());
                let text = format!("{owner} requests the release of {name}: {reason}");
                let details = json!({ "name": name, "owner": owner, "reason": reason });
                output.brief_note("asked", &text, details);
            }
            signal = signals.next() => {
                guarded_command.signal(signal);
                if signal == Signal::TSTP {
                    signals::stop();
                }
            }
            _ = tick.tick() => {
                guarded_command.wake();
                // Read first, so that the computed deadline is never too late.
                let now = clock::now();
                let remaining = held.remaining();
                if remaining < limits.margin / 2 && sent != Duration::ZERO {
                    // The guardian should have killed the command before.
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

/// Reports that the lock was lost, and runs the command of `--on-lost`.
async fn lost(
    job: &Job,
    environment: &[(&str, String)],
    reason: &str,
    signals: &mut Signals,
    output: Output,
) {
    let names = job.target.names();
    let text = format!("{names} was lost: {reason}");
    let details = json!({ "name": names, "reason": reason });
    let Some(Words(words)) = &job.hold.on_lost else {
        return output.note("lost", &text, details);
    };
    // The program runs even if nothing reads the message.
    output.brief_note("lost", &text, details);
    let Some((program, arguments)) = words.split_first() else { return };
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
    command.env("DISTLOCK_LOST", reason);
    if let Err(error) = process_group::run(command, signals).await {
        output.note("on_lost", &format!("--on-lost {program}: {error}"), json!({}));
    }
}

/// Closes the client, which deletes its keys. No signal ends the wait: a shell and the kernel both
/// send SIGHUP when a terminal is closed.
async fn close(client: &Client) {
    let _ = timeout(COURTESY, client.close()).await;
}

fn exit_code(signal: Signal) -> u8 {
    Ended::Signal(signal.as_raw()).exit_code()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
