//! How long a step waits for a queue or an entry that another transaction has locked.
//!
//! While a request waits on the server, all later requests of the connection wait, too, including
//! the session's renewal. A step therefore waits briefly there, and is sent again after pauses.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::sql::{noted_queues::NotedQueues, step::Step},
    runtime::clock::Instant,
};

/// The pauses between attempts. They grow.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(32);

/// How long the first attempt to leave waits if the entry is not in the queue's row. An entry in
/// the row is not waited for. Other requests for the entry, such as a watch, are done by then.
const FIRST_PATIENCE: Duration = Duration::from_millis(10);

/// What a connection's joins have found locked.
#[derive(Debug, Default)]
pub(super) struct Locked {
    queues: NotedQueues,
    /// Each join in flight has a clone.
    joins: Arc<()>,
}

/// When to try a step again, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub(super) pause: Duration,
    until: Instant,
}

impl Retry {
    /// Returns the next attempt. `None`: the step was tried for half of the time of a request.
    pub(super) fn after(last: Option<Self>, time: Duration) -> Option<Self> {
        let now = Instant::now();
        let next = match last {
            None => Self { pause: FIRST_PAUSE, until: now + time / 2 },
            Some(last) => Self { pause: (last.pause * 2).min(LONGEST_PAUSE), ..last },
        };
        (now < next.until).then_some(next)
    }
}

impl Locked {
    /// Records whether a join has waited for the queue in vain.
    pub(super) fn note(&self, dir: &str, is_locked: bool) {
        self.queues.note(dir, is_locked);
    }

    /// Counts a join as in flight until the value is dropped.
    pub(super) fn joining(&self) -> Arc<()> {
        Arc::clone(&self.joins)
    }

    /// Returns how long an attempt waits for each lock, in a request that has this much `time`.
    ///
    /// Joins wait one after another. With n of them in flight, a join waits for 1/n of an eighth of
    /// the time, so that a request behind 200 joins is still served. After a join has waited in
    /// vain, the next ones wait for 1/n of 10 ms. One join in each `time` waits longer, because
    /// clients that keep joining lock the queue one after another, and may outlast short attempts.
    pub(super) fn patience(&self, step: &Step, retry: Option<Retry>, time: Duration) -> Duration {
        match step {
            Step::Leave { .. } if retry.is_some() => FIRST_PAUSE,
            Step::Leave { .. } => FIRST_PATIENCE,
            Step::Join { dir, .. } => {
                let joins = Arc::strong_count(&self.joins).saturating_sub(1);
                let joins = u32::try_from(joins).unwrap_or(u32::MAX);
                let share = |all: Duration| all / joins.max(1);
                let patience = match self.queues.age(dir) {
                    None => share(time / 8),
                    Some(age) if age < time => share(FIRST_PATIENCE),
                    Some(_) => {
                        self.queues.note(dir, false);
                        self.queues.note(dir, true);
                        time / 8
                    }
                };
                patience.max(FIRST_PAUSE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn join() -> Step {
        Step::Join {
            dir: "/ns/a".to_owned(),
            ticket: String::new(),
            label: String::new(),
            value: Vec::new(),
            if_free: false,
        }
    }

    #[test]
    fn joins_in_flight_share_the_time_for_locks() {
        let (locked, join) = (Locked::default(), join());
        let patience = || locked.patience(&join, None, SECOND).as_millis();
        assert_eq!(patience(), 125);
        let mut joins: Vec<_> = (0..5).map(|_| locked.joining()).collect();
        assert_eq!(patience(), 25);
        locked.note("/ns/a", true);
        assert_eq!(patience(), 2);
        joins.clear();
        assert_eq!(patience(), 10);
        locked.note("/ns/a", false);
        assert_eq!(patience(), 125);
        let each = (0..200).map(|_| {
            joins.push(locked.joining());
            patience()
        });
        let sum: u128 = each.sum();
        assert!(sum < SECOND.as_millis(), "{sum}");
    }

    #[tokio::test(start_paused = true)]
    async fn one_join_in_each_time_waits_in_line() {
        let (locked, join) = (Locked::default(), join());
        let patience = || locked.patience(&join, None, SECOND).as_millis();
        let _joins: Vec<_> = (0..5).map(|_| locked.joining()).collect();
        locked.note("/ns/a", true);
        advance(SECOND / 2).await;
        locked.note("/ns/a", true);
        assert_eq!(patience(), 2);
        advance(SECOND / 2).await;
        assert_eq!([patience(), patience()], [125, 2]);
    }
}
