//! A worker: a process whose tasks contend for one lock through one client, until it receives the
//! order to finish.

use std::{io, time::Duration};

use distlock::Client;
use distlock_testkit::{
    Result,
    event::{Event, report},
    orders::orders,
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    args::Task,
    chain,
    primitive::{Held, Lock, Manner},
};

/// Tasks of each worker, so that some handovers stay within a client.
pub(crate) const TASKS: usize = 2;
/// The TTL: locks of killed workers block the others for this long.
pub(crate) const TTL: Duration = Duration::from_secs(5);
/// For a connection on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// The longest timeout of tasks with one, in milliseconds.
const TIMEOUT: u64 = 20;
/// The pause after an error.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) async fn run(task: &Task) -> Result<()> {
    let builder = Client::builder(&task.url).namespace(&task.namespace).session_ttl(TTL);
    let client = builder.connect_timeout(TIME_LIMIT).connect().await?;
    let (finish, finishing) = watch::channel(());
    let mut tasks = JoinSet::new();
    for number in 0..TASKS {
        let lock = task.primitive.of(&client);
        tasks.spawn(contend(lock, number, task.hold, finishing.clone()));
    }
    drop(finishing);
    // Until the process that started it closes the pipe, or has ended.
    let mut orders = orders();
    while orders.recv().await.is_some() {}
    drop(finish);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // An old version cannot report this reliably: the store is checked for leftovers.
    if let Err(error) = client.close().await {
        eprintln!("close: {error}");
    }
    Ok(())
}

async fn contend(
    lock: Lock,
    task: usize,
    longest: u64,
    mut finishing: watch::Receiver<()>,
) -> io::Result<()> {
    loop {
        let manner = match fastrand::u32(..10) {
            0 => Manner::Try,
            1 => Manner::Timeout(Duration::from_millis(fastrand::u64(..=TIMEOUT))),
            _ => Manner::Wait,
        };
        let room = lock.draw();
        let taken = tokio::select! {
            // A waiter leaves the queue, at any position.
            _ = finishing.changed() => return report("gave-up", ""),
            taken = lock.take(room, manner) => taken,
        };
        match taken {
            Ok(Some(held)) => hold(held, task, longest, room).await?,
            Ok(None) => report("gave-up", "")?,
            Err(error) => {
                report("error", chain(&error))?;
                sleep(PAUSE).await;
            }
        }
    }
}

async fn hold(held: Held, task: usize, longest: u64, room: u32) -> io::Result<()> {
    report("grant", format!("{task} {} {room}", held.token()))?;
    let time = Duration::from_millis(fastrand::u64(..=longest));
    drop(timeout(time, held.lost()).await);
    // The time is taken before the check: a guard that is valid then was valid at that time.
    let release = Event::new("release", task);
    if !held.is_valid() {
        report("lost", task)?;
    }
    release.report()?;
    if fastrand::u32(..4) == 0 {
        drop(held);
    } else if let Err(error) = held.release().await {
        report("error", chain(&error))?;
    }
    Ok(())
}
