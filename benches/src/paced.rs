//! An occasional lock and unlock, like one of many short-lived clients.

use std::{pin::pin, time::Duration};

use distlock_testkit::clock::now;
use tokio::time::{MissedTickBehavior, interval};

use crate::{Result, link::mark, slice::Slice, subject::Connected, task::Task};

/// Until it is ordered to stop.
pub(crate) async fn run(task: &Task, every: Duration) -> Result<(Connected, Slice)> {
    let connected = Connected::open(task).await?;
    let mut contender = connected.contenders(1, true).await?.pop().ok_or("no contender")?;
    mark("ready").await?;

    let mut slice = Slice::default();
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut enough = pin!(mark("measuring"));
    loop {
        tokio::select! {
            biased;
            answer = &mut enough => {
                answer?;
                break;
            }
            _ = ticks.tick() => {}
        }
        let called = now();
        let held = contender.lock().await?;
        let granted = now();
        contender.unlock(held).await?;
        slice.pairs += 1;
        slice.lock.push(granted - called);
        slice.unlock.push(now() - granted);
    }
    Ok((connected, slice))
}
