//! Queues in which this session was alone at its last join. Usually it is alone at the next join,
//! too.

use std::{collections::HashMap, time::Duration};

use crate::runtime::{clock::Instant, mutex::Mutex};

/// The number of queues that are remembered. This is only a hint, and requests work without it.
const REMEMBERED: usize = 10_000;

/// A queue's row exists for 20 s after a join: see `distlock.tidy`.
const ROW: Duration = Duration::from_secs(18);

/// If a lock was held for longer, other clients may have begun to wait, and a further request would
/// delay them.
const SHORT: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(super) struct QuietQueues(Mutex<HashMap<String, Instant>>);

impl QuietQueues {
    /// Records that the queue was empty, and that its row exists.
    pub(super) fn joined(&self, dir: &str) {
        let mut joined = self.0.lock();
        if let Some(at) = joined.get_mut(dir) {
            *at = Instant::now();
            return;
        }
        if joined.len() == REMEMBERED {
            joined.clear();
        }
        joined.insert(dir.to_owned(), Instant::now());
    }

    pub(super) fn forget(&self, dir: &str) {
        self.0.lock().remove(dir);
    }

    pub(super) fn has_row(&self, dir: &str) -> bool {
        self.joined_within(dir, ROW)
    }

    pub(super) fn was_joined_just_now(&self, dir: &str) -> bool {
        self.joined_within(dir, SHORT)
    }

    fn joined_within(&self, dir: &str, time: Duration) -> bool {
        self.0.lock().get(dir).is_some_and(|at| at.elapsed() < time)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn queue_is_quiet_while_its_row_exists() {
        let quiet = QuietQueues::default();
        let seen = |dir| (quiet.has_row(dir), quiet.was_joined_just_now(dir));
        quiet.joined("/ns/a");
        assert_eq!((seen("/ns/a"), seen("/ns/b")), ((true, true), (false, false)));
        advance(SHORT).await;
        assert_eq!(seen("/ns/a"), (true, false));
        advance(ROW - SHORT).await;
        assert_eq!(seen("/ns/a"), (false, false));
        quiet.joined("/ns/a");
        assert_eq!(seen("/ns/a"), (true, true));
        quiet.forget("/ns/a");
        assert_eq!(seen("/ns/a"), (false, false));
        (0..=REMEMBERED).for_each(|number| quiet.joined(&number.to_string()));
        assert_eq!(quiet.0.lock().len(), 1);
    }
}
