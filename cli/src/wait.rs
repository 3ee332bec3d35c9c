//! Waits for a lock, and reports the position in the queue.

use std::time::{Duration, Instant, SystemTime};

use distlock::{Client, Error, QueueEntry};
use serde_json::json;
use tokio::time::sleep;

use crate::{
    args::HoldArgs,
    exit::Failure,
    held::{Held, Target},
    output::Output,
};

/// The pause between reports on a terminal.
const USUAL: Duration = Duration::from_secs(10);
/// The pause before the first report.
const FIRST: Duration = Duration::from_secs(1);

/// Acquires the lock. Returns `None` if the time to wait is over. If the place in the queue is
/// lost, joins the queue again.
pub(crate) async fn take(
    client: &Client,
    target: &Target,
    args: &HoldArgs,
    output: Output,
) -> Result<Option<Held>, Failure> {
    let wait = if args.nonblock { Some(Duration::ZERO) } else { args.wait };
    // A time beyond the clock's range means no limit.
    let end = wait.and_then(|time| Instant::now().checked_add(time));
    // Without time left, another attempt would be a `try_lock`, which may take longer.
    let is_over = || !args.nonblock && end.is_some_and(|end| Instant::now() >= end);
    let taking = async {
        loop {
            match target.take(client, end, args.max_hold).await {
                Err(Error::SessionLost { .. } | Error::Evicted { .. }) if is_over() => {
                    return Ok(None);
                }
                Err(error @ (Error::SessionLost { .. } | Error::Evicted { .. })) => {
                    let text = format!("{error}; trying again");
                    output.brief_note("again", &text, json!({ "name": target.names() }));
                }
                taken => return taken,
            }
        }
    };
    tokio::select! {
        biased;
        taken = taking => Ok(taken?),
        () = report(client, target, args.wait_log, output) => Ok(None),
    }
}

/// Reports repeatedly who holds the lock. Never returns.
async fn report(client: &Client, target: &Target, every: Option<Duration>, output: Output) {
    let (mut pause, every) = match every {
        Some(time) => (time, time),
        None if output.has_terminal() => (FIRST, USUAL),
        None => return std::future::pending().await,
    };
    loop {
        sleep(pause.max(Duration::from_millis(10))).await;
        pause = every;
        // If the store has failed, the attempt to lock returns the error.
        let Ok(queue) = target.queue(client).await else { continue };
        let place = queue.iter().find(|entry| entry.is_own()).map(QueueEntry::position);
        let Some(holder) = queue.first().filter(|first| !first.is_own()) else { continue };
        let names = target.names();
        let place_in_words =
            place.map_or_else(String::new, |place| format!(" at position {place} in the queue"));
        let text = format!(
            "waiting for {names}{place_in_words}; first in the queue: {}{}",
            holder.owner(),
            since(holder).map_or_else(String::new, |age| format!(" (age {age})")),
        );
        let details = json!({ "name": names, "place": place, "holder": holder.owner() });
        output.brief_note("waiting", &text, details);
    }
}

/// Returns the age of an entry in whole seconds.
pub(crate) fn since(entry: &QueueEntry) -> Option<humantime::FormattedDuration> {
    let age = SystemTime::now().duration_since(entry.since()?).unwrap_or_default();
    Some(humantime::format_duration(Duration::from_secs(age.as_secs())))
}
