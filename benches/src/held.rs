//! Many locks, held by one client for a long time.

use std::{sync::Arc, time::Duration};

use distlock_testkit::clock::{cpu, now};
use tokio::{sync::Semaphore, task::JoinSet, time::sleep};

use crate::{
    Result,
    contender::{Contender, Held},
    link::mark,
    slice::Slice,
    subject::Connected,
    task::Task,
    usage::memory,
};

/// How many are acquired or released at once.
const AT_ONCE: usize = 64;
/// Acquired and released before, so that one-time costs are not counted for each lock.
const FIRST: usize = 100;

pub(crate) async fn run(task: &Task, locks: usize) -> Result<(Connected, Slice)> {
    let connected = Connected::open(task).await?;
    let mut contenders = connected.contenders(FIRST + locks, false).await?;
    let rest = contenders.split_off(FIRST);
    let mut slice = Slice::default();
    let first = take(contenders, &mut slice).await;
    release(first, &mut slice).await;
    // Lets background work end.
    sleep(Duration::from_secs(1)).await;
    slice.rss_before = memory()?.0;

    mark("ready").await?;
    let (busy, start) = (cpu(), now());
    let held = take(rest, &mut slice).await;
    slice.take = now() - start;
    slice.pairs = held.len() as u64;
    slice.all_pairs = slice.pairs;

    // Answered when they have been held for long enough.
    mark("held").await?;
    slice.rss = memory()?.0;
    let start = now();
    release(held, &mut slice).await;
    slice.release = now() - start;
    slice.cpu = cpu() - busy;
    slice.rss_peak = memory()?.1;
    Ok((connected, slice))
}

async fn take(contenders: Vec<Contender>, slice: &mut Slice) -> Vec<(Contender, Held)> {
    each(contenders, slice, |mut contender| async move {
        let held = contender.lock().await?;
        Ok((contender, held))
    })
    .await
}

async fn release(held: Vec<(Contender, Held)>, slice: &mut Slice) {
    each(held, slice, |(mut contender, held)| async move { contender.unlock(held).await }).await;
}

/// Does the same with each, several at once.
async fn each<T, U, F>(
    all: Vec<T>,
    slice: &mut Slice,
    deed: impl Fn(T) -> F + Copy + Send + 'static,
) -> Vec<U>
where
    T: Send + 'static,
    U: Send + 'static,
    F: Future<Output = Result<U>> + Send,
{
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let (mut tasks, mut done) = (JoinSet::new(), Vec::with_capacity(all.len()));
    for one in all {
        // Before the task is created: otherwise the memory of pending tasks would count as memory
        // of the locks.
        let slot = Arc::clone(&slots).acquire_owned().await;
        tasks.spawn(async move {
            let _slot = slot;
            deed(one).await
        });
        while let Some(finished) = tasks.try_join_next() {
            note(finished.map_err(Into::into).flatten(), slice, &mut done);
        }
    }
    while let Some(finished) = tasks.join_next().await {
        note(finished.map_err(Into::into).flatten(), slice, &mut done);
    }
    done
}

fn note<U>(finished: Result<U>, slice: &mut Slice, done: &mut Vec<U>) {
    match finished {
        Ok(value) => done.push(value),
        Err(error) => slice.failed(error),
    }
}
