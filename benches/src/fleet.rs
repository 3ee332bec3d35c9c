//! Clients that contend for one name independently, and hold it for a random time between half and
//! one and a half of the given time: otherwise polling clients would stay in step with it.

use std::time::Duration;

use distlock_testkit::clock::{cpu, now, sleep_until};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use tokio::{
    select,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep},
};

use crate::{
    Result,
    contender::Contender,
    link::mark,
    recipe::asked,
    slice::{Slice, Stamp},
    subject::Connected,
    task::{Fleet, Subject, Task},
};

/// How many connect at once.
const AT_ONCE: usize = 32;
/// For an unlock after the end; one that takes longer counts as an error.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The pause of a client after a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// Stamps each turn. Processor time and requests are those of the measured time; waiters give up at
/// its end.
pub(crate) async fn run(task: &Task, fleet: &Fleet) -> Result<(Vec<Connected>, Slice)> {
    let (connected, contenders) = open(task, fleet.contenders).await?;
    // All processes of a measurement start at the same time, when ordered.
    let start: u64 = mark("ready").await?.parse()?;
    let begin = start + fleet.warmup_ms * 1_000_000;
    let end = begin + fleet.run_ms * 1_000_000;

    let turns = watch::Sender::new(0);
    let mut tasks = JoinSet::new();
    for (who, contender) in contenders.into_iter().enumerate() {
        let one = One {
            who,
            contender,
            hold: Duration::from_millis(fleet.hold_ms),
            end,
            pause: task.subject.pause(),
            turns: (fleet.contenders > 1 && task.subject.pause().is_some()).then(|| turns.clone()),
        };
        tasks.spawn(one.contend(start));
    }
    sleep_until(begin).await;
    let before = (cpu(), asked());
    sleep_until(end).await;
    let (cpu, asked) = (cpu() - before.0, asked() - before.1);
    let mut slice = Slice { cpu, asked, ..Slice::default() };
    slice.gather(tasks, Instant::now() + TIME_LIMIT).await;
    Ok((connected, slice))
}

/// Each contender has its own client, except for the floor, which is as low as possible.
async fn open(task: &Task, count: usize) -> Result<(Vec<Connected>, Vec<Contender>)> {
    if task.subject == Subject::Floor {
        let connected = Connected::open(task).await?;
        let contenders = connected.contenders(count, true).await?;
        return Ok((vec![connected], contenders));
    }
    let opening = (0..count).map(|_| async {
        let connected = Connected::open(task).await?;
        let contender = connected.contenders(1, true).await?.pop().ok_or("no contender")?;
        Result::Ok((connected, contender))
    });
    let opened: Vec<_> = stream::iter(opening).buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(opened.into_iter().unzip())
}

/// One client.
struct One {
    who: usize,
    contender: Contender,
    hold: Duration,
    end: u64,
    /// Between two attempts of a polling client.
    pause: Option<Duration>,
    /// The number of grants. A polling client would acquire the lock again before any other client
    /// tries: it waits until another client has had the lock, as clients in a queue do.
    turns: Option<watch::Sender<u64>>,
}

impl One {
    async fn contend(mut self, start: u64) -> Slice {
        let mut seen = Slice::default();
        // Polling clients start at different times.
        let late = self.pause.map_or(0, |pause| fastrand::u64(..pause.as_nanos() as u64));
        sleep_until(start + late).await;
        while now() < self.end {
            let called = now();
            let turn = self.turn(called, &mut seen).await;
            if let Err(error) = turn {
                seen.failed(error);
                sleep(PAUSE).await;
            }
        }
        seen
    }

    async fn turn(&mut self, called: u64, seen: &mut Slice) -> Result<()> {
        let held = select! {
            biased;
            held = self.contender.lock() => held?,
            () = sleep_until(self.end) => {
                seen.longest = seen.longest.max(now() - called);
                return Ok(());
            }
        };
        let (granted, token) = (now(), held.token());
        let mut others = self.turns.as_ref().map(|turns| {
            turns.send_modify(|turn| *turn += 1);
            turns.subscribe()
        });
        seen.longest = seen.longest.max(granted - called);
        seen.lock.push(granted - called);
        select! {
            () = sleep(self.hold.mul_f64(0.5 + fastrand::f64())) => {}
            () = sleep_until(self.end) => {}
        }
        let released = now();
        self.contender.unlock(held).await?;
        seen.unlock.push(now() - released);
        seen.stamps.push(Stamp { granted, released, token, process: 0, task: self.who });
        if let Some(others) = &mut others {
            select! {
                turn = others.changed() => turn?,
                () = sleep_until(self.end) => {}
            }
        }
        Ok(())
    }
}
