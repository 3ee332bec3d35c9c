//! distlock with a bridge, and others who take the same keys on Redis for their locks. These have
//! no queue: what has to hold is that no two have the lock at once.

use std::time::Duration;

use distlock_testkit::Result;

use crate::{
    fleet::{
        Kind::{self, Distlock, DistlockPlain, DistlockRedisson, RedisPy, Redisson, Rslock},
        Stage,
    },
    scenarios::{SHORT, Scenario, Turns, WATCHED, good_or, granted_after_a_kill},
};

/// What others take for the lock.
pub(crate) const KEY: &str = "bridge:a job/7";

/// Others stand in no queue, so that one who comes back at once has it again, and the others never.
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

/// Turns of both, two processes each.
pub(crate) async fn turns(stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<String> {
    TURNS.take(stage, kinds).await?;
    let holds = stage.history().holds;
    // Both sides have workers of their own.
    let passed = holds.windows(2).filter(|two| two[0].worker % 2 != two[1].worker % 2).count();
    let (_, shares) = stage.shares();
    let count = holds.len();
    let mixed = count == TURNS.grants && passed >= TURNS.grants / 10;
    let outcome = format!("{count} grants, {passed} times from one side to the other; {shares}");
    good_or(mixed, "hardly mixed", outcome)
}

/// The same without a bridge: the checker has to find that they hold at once.
pub(crate) async fn apart(stage: &mut Stage<'_>, kinds: &[Kind]) -> Result<String> {
    turns(stage, kinds).await?;
    match stage.history().violations.len() {
        0 => Err("nobody held beside another one: this checks nothing".into()),
        found => Ok(format!("{found} of {} grants overlap, as they must", TURNS.grants)),
    }
}

/// The next one is granted when the dead one's time is over, and not before.
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
    // What is left of the dead one goes as the next one of its kind comes.
    let mut again = stage.start(dead, SHORT).await?;
    again.tell_until("lock", "grant").await?;
    again.tell_until("unlock", "done").await?;
    again.end().await?;
    // Some do not renew it.
    granted_after_a_kill(since(killed), since(granted.at) >= SHORT.mul_f64(0.95))
}
