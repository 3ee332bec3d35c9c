//! The cost of a long queue for its waiters, and for a client that joins it, seen from outside.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    Result,
    counters::Counters,
    link::Process,
    long::{Operator, TIME_LIMIT, settle},
    measures::{JOIN_STATEMENTS, JOINED, RENEWALS, STRANGER, Seen, WAITING},
    slice::Slice,
    statements::of_joiner,
    statistics::quantile,
    task::{NAME, Role, Task, Work},
};

/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(100);

/// Waiters queue behind a holder of their own client and wait for the given time, then behind one
/// of another client; then other clients join behind them one by one, and leave again. The slice is
/// that of the waiters.
pub(crate) async fn measure(
    task: Task,
    servers: &[String],
    wait: Duration,
    joins: usize,
    seen: &mut Seen,
) -> Result<(Slice, Counters)> {
    let Work::Queue { waiters, .. } = task.work else { return Err("there are no waiters".into()) };
    let (backend, directory) = (task.backend, format!("{}/{NAME}", task.namespace));
    let store = Operator::connect(backend, servers).await?;
    let mut waiting = Process::start(&Role::Subject(task.clone()))?;
    waiting.mark().await?;
    let before = Counters::read(backend, servers).await?;
    waiting.answer("queue").await?;
    waiting.mark().await?;
    let start = Instant::now();
    while store.keys(&directory).await? <= waiters {
        if start.elapsed() > TIME_LIMIT {
            return Err("not all waiters joined".into());
        }
        sleep(PAUSE).await;
    }

    let settled = settle(backend, servers, waiters).await?;
    let start = Instant::now();
    sleep(wait).await;
    let waited = Counters::read(backend, servers).await? - settled;
    let per_second = |count: f64| count / start.elapsed().as_secs_f64();
    let idle = per_second(waited.requests);
    seen.other(WAITING, 60.0 * idle);
    seen.other(RENEWALS, 60.0 * per_second(waited.keepalives));

    let mut joining =
        Process::start(&Role::Subject(Task { work: Work::Join { joins }, ..task.clone() }))?;
    joining.mark().await?;
    joining.answer("wait").await?;
    joining.mark().await?;
    let settled = settle(backend, servers, waiters).await?;
    let start = Instant::now();
    // With many other requests it would be lost in the noise.
    if waiters == 1 {
        sleep(wait).await;
        let more = (Counters::read(backend, servers).await? - settled).requests;
        seen.other(STRANGER, 60.0 * (more / start.elapsed().as_secs_f64() - idle));
    }

    let first = of_joiner(backend, servers).await?;
    joining.answer("join").await?;
    let joined = joining.done().await?;
    let statements = of_joiner(backend, servers).await? - first;
    joining.finish().await?;
    seen.other(JOIN_STATEMENTS, statements / joined.pairs as f64);
    let mut times: Vec<_> = joined.lock.iter().map(|time| *time as f64 / 1e6).collect();
    for (measure, share) in JOINED.into_iter().zip([0.5, 0.99]) {
        seen.other(measure, quantile(&mut times, share).ok_or("no client joined")?);
    }

    waiting.answer("drain").await?;
    let slice = waiting.done().await?;
    let counted = Counters::read(backend, servers).await? - before;
    waiting.finish().await?;
    Ok((slice, counted))
}
