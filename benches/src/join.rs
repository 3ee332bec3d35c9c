//! One client waits in a queue; then others join it one after the other, and leave as soon as they
//! are queued.

use std::time::Duration;

use distlock_testkit::clock::now;
use tokio::time::{sleep, timeout};

use crate::{
    Result,
    link::mark,
    long::entries,
    slice::Slice,
    sql::Connection,
    subject::Connected,
    task::{NAME, Task},
};

/// For each of them.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// What a client does after its row exists: find its predecessor and watch it.
const SETTLING: Duration = Duration::from_millis(15);

/// Times from the call until the row exists, seen by a connection that polls continuously.
pub(crate) async fn run(task: &Task, joins: usize) -> Result<(Connected, Slice)> {
    let connected = Connected::open(task).await?;
    let mut contender = connected.contenders(1, true).await?.pop().ok_or("no contender")?;
    let looking = Connection::open(task.backend, &task.servers).await?;
    let (table, queue) = (entries(task.backend), format!("{}/{NAME}", task.namespace));
    let last = format!("SELECT COALESCE(MAX(number), 0) FROM {table} WHERE queue = '{queue}'");
    mark("ready").await?;
    let last = looking.number(&last).await?;
    let behind =
        format!("SELECT COUNT(*) FROM {table} WHERE queue = '{queue}' AND number > {last}");
    let until = async |there: f64| -> Result<()> {
        while looking.number(&behind).await? != there {}
        Ok(())
    };
    let waiting = async {
        timeout(TIME_LIMIT, until(1.0)).await??;
        // Answered when it has waited for long enough.
        mark("waiting").await
    };
    tokio::select! {
        locked = contender.lock() => {
            locked?;
            return Err("no client was ahead".into());
        }
        enough = waiting => enough.map(drop)?,
    }
    timeout(TIME_LIMIT, until(0.0)).await??;
    let mut slice = Slice::default();
    let start = now();
    for _ in 0..joins {
        let called = now();
        tokio::select! {
            locked = contender.lock() => {
                locked?;
                return Err("no client was ahead".into());
            }
            joined = timeout(TIME_LIMIT, until(1.0)) => {
                joined??;
                slice.lock.push(now() - called);
                sleep(SETTLING).await;
            }
        }
        timeout(TIME_LIMIT, until(0.0)).await??;
        slice.pairs += 1;
    }
    slice.time = now() - start;
    slice.all_pairs = slice.pairs;
    Ok((connected, slice))
}
