//! Waiters that queue behind a holder, each of which is granted the lock once.

use std::{sync::Arc, time::Duration};

use distlock_testkit::clock::cpu;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::{
    Result, contender::Contender, link::mark, slice::Slice, subject::Connected, task::Task,
    turns::Turns, usage::memory,
};

pub(crate) async fn run(
    task: &Task,
    waiters: usize,
    patience: Duration,
) -> Result<(Connected, Slice)> {
    let connected = Connected::open(task).await?;
    let mut contenders = connected.contenders(waiters + 1, true).await?;
    let mut holder = contenders.pop().ok_or("no contender")?;
    let mut slice = Slice { rss_before: memory()?.0, ..Slice::default() };

    mark("ready").await?;
    let busy = cpu();
    let turns = Arc::new(Turns::default());
    let held = holder.lock().await?;
    turns.granted(waiters, held.token())?;
    let mut waiting = JoinSet::new();
    for (who, contender) in contenders.into_iter().enumerate() {
        waiting.spawn(wait(who, contender, Arc::clone(&turns)));
    }

    // Answered when the store has all their keys, or no more arrive.
    mark("queueing").await?;
    slice.rss = memory()?.0;
    let start = turns.released(waiters);
    if let Err(error) = holder.unlock(held).await {
        slice.failed(error);
    }
    let (deadline, mut last) = (Instant::now() + patience, start);
    loop {
        match timeout_at(deadline, waiting.join_next()).await {
            Ok(Some(Ok(Ok((granted, gap))))) => {
                slice.pairs += 1;
                slice.gap.push(gap);
                last = last.max(granted);
            }
            Ok(Some(Ok(Err(error)))) => slice.failed(error),
            Ok(Some(Err(error))) => slice.failed(error),
            Ok(None) => break,
            Err(_) => {
                slice.failed(format!("not all were served within {patience:?}"));
                slice.errors += waiting.len() as u64 - 1;
                waiting.shutdown().await;
                break;
            }
        }
    }
    slice.time = last - start;
    slice.all_pairs = slice.pairs + 1;
    slice.cpu = cpu() - busy;
    slice.rss_peak = memory()?.1;
    Ok((connected, slice))
}

/// When it was granted, and how long after the previous one.
async fn wait(who: usize, mut contender: Contender, turns: Arc<Turns>) -> Result<(u64, u64)> {
    let held = contender.lock().await?;
    let (granted, gap) = turns.granted(who, held.token())?;
    turns.released(who);
    contender.unlock(held).await?;
    Ok((granted, gap.ok_or("there was no previous holder")?))
}
