//! The task that keeps a session alive.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

use super::{ask::retry, deadline::Deadline, store::SessionStore};
use crate::{
    backend::{
        Facts,
        error::{Result, StoreError},
    },
    lost::LostReason,
    runtime::{
        OnDrop,
        clock::{self, sleep},
    },
};

/// The maximum number of renewals in flight. With only one, a slow connection would look like a
/// dead one.
const OVERLAPPING: usize = 6;

/// Ends the session's deadline when the task that owns this value ends.
///
/// The task may end with its runtime, or by a panic of a metrics recorder or tracing subscriber.
/// Without this value, no task would check the deadline then.
pub(super) fn ends_with(deadline: &Arc<Deadline>) -> OnDrop<impl Fn() + use<>> {
    let deadline = Arc::clone(deadline);
    OnDrop(move || {
        // Code that has panicked may panic again, and a second panic would abort the process.
        let ended = AssertUnwindSafe(|| deadline.lose(LostReason::KeeperStopped));
        drop(catch_unwind(ended));
    })
}

/// Renews the session until it is lost, and then closes it in the store.
///
/// Closing spares other clients from waiting until the TTL expires.
pub(super) async fn keep(
    deadline: Arc<Deadline>,
    store: SessionStore,
    facts: Facts,
    hurry: Arc<Notify>,
) -> Result<()> {
    let (timing, reported) = (deadline.timing, store.telemetry.renewals());
    let longest_sleep = timing.longest_sleep();
    let overlapping = if facts.one_at_a_time { 1 } else { OVERLAPPING };
    let mut renewals = FuturesUnordered::new();
    // Not the time of this task's first poll: the opening counts as the first renewal.
    let mut attempted = deadline.vitals().proved;
    // The number of failures in a row, and the pause after the last one.
    let (mut failures, mut failed) = (0, None);
    let mut again = None;
    while deadline.lost_reason().is_none() {
        let vitals = deadline.vitals();
        reported.remaining(|| vitals.lapses.map(|at| at.saturating_sub(vitals.now)));
        let pause = if vitals.busy || facts.renewed_when_idle {
            let due = if let Some(pause) = failed {
                attempted + pause
            } else if !renewals.is_empty() {
                attempted + timing.second_server()
            } else {
                attempted.max(vitals.proved) + timing.renewal_after(vitals.granted)
            };
            // A renewal before that time counts for less than usual, so renew again at that time.
            again = vitals.counts_from.or(again);
            let due = again.map_or(due, |again| due.min(again));
            if due <= vitals.now && renewals.len() < overlapping {
                let store = store.clone();
                renewals.push(async move {
                    let sent = clock::now();
                    (sent, store.ask("keep_alive", |store| store.keep_alive()).await)
                });
                attempted = vitals.now;
                again = again.filter(|again| *again > vitals.now);
                failed = None;
            }
            if renewals.len() < overlapping {
                due.saturating_sub(vitals.now).max(Duration::from_millis(1))
            } else {
                longest_sleep
            }
        } else {
            (failures, failed) = (0, None);
            longest_sleep
        };
        let lapse = vitals.lapses.map_or(longest_sleep, |at| at.saturating_sub(vitals.now));
        tokio::select! {
            biased;
            _ = deadline.lost() => break,
            reason = store.ended() => deadline.lose(reason),
            Some((sent, reply)) = renewals.next() => match reply {
                Ok(granted) => {
                    deadline.renewed(sent, granted);
                    (failures, failed) = (0, None);
                }
                Err(StoreError::SessionGone(reason)) => deadline.lose(reason),
                // A failure proves nothing. Try again: the deadline decides.
                Err(error) => {
                    failed = Some(timing.pause_after(&error, failures));
                    failures += 1;
                }
            },
            () = sleep(pause.min(lapse).min(longest_sleep)) => {}
        }
    }
    drop((renewals, reported));
    tokio::select! {
        biased;
        // Holders may complete their requests in flight until the store could end the session.
        () = sleep(deadline.margin()) => {}
        () = hurry.notified() => {}
    }
    let give_up = clock::now() + timing.closing();
    let again = |error: &StoreError, _| error.is_transient() && clock::now() < give_up;
    match retry(again, || store.ask("close", |store| store.close())).await.0 {
        Err(StoreError::SessionGone(_)) => Ok(()),
        closed => closed,
    }
}

#[cfg(test)]
mod tests;
