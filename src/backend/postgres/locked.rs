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

    /// Returns how long an attempt waits for each lock. `time` is that of a request. Joins wait one
    /// after another, so those in flight share a quarter of it.
    pub(super) fn patience(&self, step: &Step, retry: Option<Retry>, time: Duration) -> Duration {
        match step {
            Step::Leave { .. } if retry.is_some() => FIRST_PAUSE,
            Step::Leave { .. } => FIRST_PATIENCE,
            Step::Join { dir, .. } => {
                let all = if self.queues.contains(dir) { FIRST_PATIENCE } else { time / 4 };
                let joins = Arc::strong_count(&self.joins).saturating_sub(1);
                let joins = u32::try_from(joins).unwrap_or(u32::MAX);
                (all / joins.max(1)).max(FIRST_PAUSE)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_in_flight_share_the_time_for_locks() {
        let locked = Locked::default();
        let join = Step::Join {
            dir: "/ns/a".to_owned(),
            ticket: String::new(),
            label: String::new(),
            value: Vec::new(),
            if_free: false,
        };
        let patience = || locked.patience(&join, None, Duration::from_secs(1)).as_millis();
        assert_eq!(patience(), 250);
        let joins: Vec<_> = (0..5).map(|_| locked.joining()).collect();
        assert_eq!(patience(), 50);
        locked.note("/ns/a", true);
        assert_eq!(patience(), 2);
        drop(joins);
        assert_eq!(patience(), 10);
        locked.note("/ns/a", false);
        assert_eq!(patience(), 250);
    }
}
