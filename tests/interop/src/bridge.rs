//! distlock with a bridge, and other libraries that lock with the same keys on Redis. These have no
//! queue: the test checks that there is never more than one holder.

use std::time::Duration;

use distlock_testkit::Result;

use crate::{
    fleet::{
        Kind::{self, Distlock, DistlockPlain, DistlockRedisson, RedisPy, Redisson, Rslock},
        Stage,
    },
    scenarios::{SHORT, Scenario, Turns, WATCHED, good_or, granted_after_a_kill},
};

/// The key that other libraries use for the lock.
pub(crate) const KEY: &str = "bridge:a job/7";

/// Other libraries have no queue: a client without a pause would reacquire at once, and the others
/// never.
const TURNS: Turns = Turns { grants: 1_000, hold_ms: 5, pause_ms: 20 };

pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for (ours, theirs) in
        [(DistlockPlain, RedisPy), (DistlockPlain, Rslock), (DistlockRedisson, Redisson)]
    {
        all.extend([
            Scenario::Turns(vec![ours, theirs]),
            Scenario::HolderKilled { dead: ours, next: theirs },
            Scenario::HolderKilled { dead: theirs, next: ours },
            Scenario::Apart(vec![Distlock, theirs]),
        ]);
    }
    all
}

/// Turns of both sides, two processes each.
pub(crate) async fn turns(stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<String> {
    TURNS.take(stage, kinds).await?;
    let holds = stage.history().holds;
    // The workers of the two sides have different numbers.
    let passed = holds.windows(2).filter(|two| two[0].worker % 2 != two[1].worker % 2).count();
    let (_, shares) = stage.shares();
    let count = holds.len();
    let mixed = count == TURNS.grants && passed >= TURNS.grants / 10;
    let outcome = format!("{count} grants, {passed} times from one side to the other; {shares}");
    good_or(mixed, "hardly mixed", outcome)
}

/// The same without a bridge: the checker must find overlapping holds.
pub(crate) async fn apart(stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<String> {
    turns(stage, kinds).await?;
    match stage.history().violations.len() {
        0 => Err("no holds overlapped: the test checks nothing".into()),
        found => Ok(format!("{found} of {} grants overlap, as they must", TURNS.grants)),
    }
}

/// The next client is granted when the dead one's lock has expired, and not before.
pub(crate) async fn holder_killed(stage: &mut Stage<'_>, dead: Kind, next: Kind) -> Result<String> {
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
    // Remains of the dead client are removed when the next one of its kind connects.
    let mut again = stage.start(dead, SHORT).await?;
    again.tell_until("lock", "grant").await?;
    again.tell_until("unlock", "done").await?;
    again.end().await?;
    // Some libraries do not renew the lock.
    granted_after_a_kill(since(killed), since(granted.at) >= SHORT.mul_f64(0.95))
}
