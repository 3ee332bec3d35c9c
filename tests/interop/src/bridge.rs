//! distlock with a bridge, and others who take the same keys on Redis for their locks. These have
//! no queue: what has to hold is that no two have the lock at once.

use std::{
    fmt,
    time::{Duration, Instant},
};

use distlock_testkit::Result;

use crate::{
    check,
    fleet::{
        Kind::{self, Distlock, DistlockPlain, DistlockRedisson, RedisPy, Redisson, Rslock},
        Stage,
    },
    scenarios::{GRACE, LONG, NAME, NONE_RAN, SHORT, WATCHED},
    store::Store,
};

/// What others take for the lock.
const KEY: &str = "bridge:a job/7";

const GRANTS: usize = 1_000;
/// How long each of those is held, in milliseconds.
const HOLD_MS: u32 = 5;
/// How long each worker lets go in between: others stand in no queue, so that one who comes back at
/// once has it again, and the others never.
const PAUSE_MS: u32 = 20;

#[derive(Clone, Copy, Debug)]
enum Scenario {
    /// Turns of both, two processes each.
    Turns(Kind, Kind),
    /// The same without a bridge: the checker has to find that they hold at once.
    Apart(Kind, Kind),
    HolderKilled {
        dead: Kind,
        next: Kind,
    },
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turns(one, other) => write!(f, "turns, {} + {}", one.name(), other.name()),
            Self::Apart(one, other) => {
                write!(f, "no bridge, {} + {} overlap", one.name(), other.name())
            }
            Self::HolderKilled { dead, next } => {
                write!(f, "holder killed, {} before {}", dead.name(), next.name())
            }
        }
    }
}

impl Scenario {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (ours, theirs) in
            [(DistlockPlain, RedisPy), (DistlockPlain, Rslock), (DistlockRedisson, Redisson)]
        {
            all.extend([
                Self::Turns(ours, theirs),
                Self::HolderKilled { dead: ours, next: theirs },
                Self::HolderKilled { dead: theirs, next: ours },
                Self::Apart(Distlock, theirs),
            ]);
        }
        all
    }

    async fn run(self, stage: &mut Stage<'_>) -> Result<String> {
        match self {
            Self::Turns(one, other) => {
                let told = turns(stage, one, other).await?;
                none(&violations(stage)).map(|()| told)
            }
            Self::Apart(one, other) => {
                turns(stage, one, other).await?;
                match violations(stage).len() {
                    0 => Err("nobody held beside another one: this checks nothing".into()),
                    found => Ok(format!("{found} of {GRANTS} grants overlap, as they must")),
                }
            }
            Self::HolderKilled { dead, next } => {
                let told = holder_killed(stage, dead, next).await?;
                none(&violations(stage)).map(|()| told)
            }
        }
    }
}

/// Runs all scenarios whose line has `only` in it. 0: all passed; 1: not all did.
pub(crate) async fn run_all(store: &Store, container: &str, url: &str, only: &str) -> Result<u8> {
    let mut status = NONE_RAN;
    for (number, scenario) in Scenario::all().into_iter().enumerate() {
        let name = format!("redis: {scenario}");
        if !name.contains(only) {
            continue;
        }
        let namespace = format!("/interop-{}-{number}", std::process::id());
        let mut stage = Stage::new(store, container, url, namespace, NAME);
        let began = Instant::now();
        let outcome = scenario.run(&mut stage).await;
        let mut left = store.clear(&stage.namespace).await?;
        if store.free(KEY).await? {
            left.push(KEY.to_owned());
        }
        let outcome = outcome.and_then(|told| none(&left).map(|()| told));
        let seconds = began.elapsed().as_secs_f32();
        match outcome {
            Ok(told) => {
                status = if status == NONE_RAN { 0 } else { status };
                println!("PASS {name}: {told} ({seconds:.1} s)");
            }
            Err(error) => {
                status = 1;
                println!("FAIL {name}: {error} ({seconds:.1} s)");
            }
        }
    }
    Ok(status)
}

fn violations(stage: &Stage<'_>) -> Vec<String> {
    check::violations(&stage.log(), stage.names())
}

fn none(found: &[String]) -> Result<()> {
    match found {
        [] => Ok(()),
        [first, ..] => Err(format!("{} of these: {first}", found.len()).into()),
    }
}

async fn turns(stage: &mut Stage<'_>, one: Kind, other: Kind) -> Result<String> {
    let mut workers = Vec::new();
    for kind in [one, other, one, other] {
        workers.push(stage.start(kind, LONG).await?);
    }
    let rounds = GRANTS / workers.len();
    for worker in &mut workers {
        worker.tell(&format!("run {rounds} {HOLD_MS} {PAUSE_MS}")).await?;
    }
    for worker in &mut workers {
        worker.until("done").await?;
    }
    for worker in workers {
        worker.end().await?;
    }
    let log = stage.log();
    let holds = check::holds(&log);
    // Both sides have workers of their own.
    let passed = holds.windows(2).filter(|two| two[0].worker % 2 != two[1].worker % 2).count();
    let shares = check::shares(&log, stage.names().len());
    let shares = stage.names().iter().zip(shares).map(|(name, share)| format!("{name} {share}"));
    let shares = shares.collect::<Vec<_>>().join(", ");
    let told = format!(
        "{} grants, {passed} times from one side to the other; when the first was done: {shares}",
        holds.len()
    );
    match holds.len() == GRANTS && passed >= GRANTS / 10 {
        true => Ok(told),
        false => Err(format!("hardly mixed: {told}").into()),
    }
}

/// The next one is granted when the dead one's time is over, and not before.
async fn holder_killed(stage: &mut Stage<'_>, dead: Kind, next: Kind) -> Result<String> {
    let mut holder = stage.start(dead, SHORT).await?;
    let mut waiter = stage.start(next, SHORT).await?;
    let granted = holder.tell_until("lock", "grant").await?;
    waiter.tell("lock").await?;
    tokio::time::sleep(WATCHED).await;
    let killed = holder.kill().await?;
    let grant = waiter.until("grant").await?;
    let since = |at: u64| Duration::from_nanos(grant.at.saturating_sub(at));
    waiter.tell_until("unlock", "done").await?;
    waiter.end().await?;
    // What is left of the dead one goes as the next one of its kind comes.
    let mut again = stage.start(dead, SHORT).await?;
    again.tell_until("lock", "grant").await?;
    again.tell_until("unlock", "done").await?;
    again.end().await?;
    let told = format!(
        "granted {:.1} s after the kill, TTL {} s",
        since(killed).as_secs_f32(),
        SHORT.as_secs()
    );
    // Some do not renew it.
    let early = since(granted.at) < SHORT.mul_f64(0.95);
    if early || since(killed) > SHORT + GRACE { Err(told.into()) } else { Ok(told) }
}
