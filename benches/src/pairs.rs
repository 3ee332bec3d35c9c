//! Tasks that lock and unlock in a loop.

use std::{sync::Arc, time::Duration};

use distlock_testkit::clock::{cpu, now, sleep_until};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    Result,
    contender::Contender,
    link::mark,
    recipe::asked,
    slice::{Slice, Stamp},
    subject::{Connected, raw_writes},
    task::{Names, Pairs, Task},
    turns::Turns,
    usage::memory,
};

/// How long tasks may take to finish after the end of the window; one that takes longer counts as
/// an error.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The pause of a task after a failure.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
struct Window {
    begin: u64,
    end: u64,
}

impl Window {
    fn has(&self, instant: u64) -> bool {
        (self.begin..self.end).contains(&instant)
    }
}

pub(crate) async fn run(task: &Task, pairs: &Pairs) -> Result<(Connected, Slice)> {
    let raw_write = raw_writes(task, pairs.raw_writes).await?;
    let connected = Connected::open(task).await?;
    let contenders = connected.contenders(pairs.tasks, pairs.names == Names::One).await?;
    let rss_before = memory()?.0;

    // All processes of a measurement start at the same time, when ordered.
    let start: u64 = mark("ready").await?.parse()?;
    let begin = start + pairs.warmup_ms * 1_000_000;
    let window = Window { begin, end: begin + pairs.run_ms * 1_000_000 };
    sleep_until(start).await;
    let (busy, asked_before) = (cpu(), asked());
    let by_turns = pairs.names == Names::One && pairs.primitive.is_exclusive();
    let turns = by_turns.then(|| Arc::new(Turns::default()));
    let mut tasks = JoinSet::new();
    for (who, contender) in contenders.into_iter().enumerate() {
        tasks.spawn(contend(who, contender, turns.clone(), window, pairs.stamps));
    }
    let patience = Duration::from_millis(pairs.warmup_ms + pairs.run_ms) + TIME_LIMIT;
    let deadline = Instant::now() + patience;
    let mut slice =
        Slice { time: pairs.run_ms * 1_000_000, raw_write, rss_before, ..Slice::default() };
    slice.gather(tasks, deadline).await;
    slice.cpu = cpu() - busy;
    slice.asked = asked() - asked_before;
    (slice.rss, slice.rss_peak) = memory()?;
    Ok((connected, slice))
}

async fn contend(
    who: usize,
    mut contender: Contender,
    turns: Option<Arc<Turns>>,
    window: Window,
    stamps: bool,
) -> Slice {
    let mut seen = Slice::default();
    while now() < window.end {
        let paired = pair(who, &mut contender, turns.as_deref(), window, stamps, &mut seen);
        if let Err(error) = paired.await {
            seen.failed(error);
            sleep(PAUSE).await;
        }
    }
    seen
}

async fn pair(
    who: usize,
    contender: &mut Contender,
    turns: Option<&Turns>,
    window: Window,
    stamps: bool,
    seen: &mut Slice,
) -> Result<()> {
    let called = now();
    let held = contender.lock().await?;
    let token = held.token();
    let (granted, gap) = match turns {
        Some(turns) => turns.granted(who, token)?,
        None => (now(), None),
    };
    let released = turns.map_or_else(now, |turns| turns.released(who));
    contender.unlock(held).await?;
    let unlocked = now();
    seen.all_pairs += 1;
    seen.longest = seen.longest.max(granted - called);
    if window.has(granted) {
        seen.lock.push(granted - called);
        seen.gap.extend(gap);
        if stamps {
            seen.stamps.push(Stamp { granted, released, token, process: 0, task: who });
        }
    }
    if window.has(unlocked) {
        seen.pairs += 1;
        seen.unlock.push(unlocked - released);
    }
    Ok(())
}
