//! Queues in which this session was alone when it joined last: in most of them it is the next time.

use std::{collections::HashMap, time::Duration};

use crate::runtime::{clock::Instant, mutex::Mutex};

/// How many are remembered. It is a hint: a request that goes by it finds out for itself.
const REMEMBERED: usize = 10_000;

/// A queue's row is there for 20 s after somebody has joined: see `distlock.tidy`.
const ROW: Duration = Duration::from_secs(18);

/// Who holds a lock for longer than this is asked to wait by others, perhaps, and one request of
/// more would keep them waiting.
const SHORT: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(super) struct QuietQueues(Mutex<HashMap<String, Instant>>);

impl QuietQueues {
    /// Nobody else was in the queue, and its row is there.
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
    async fn queue_is_quiet_for_as_long_as_its_row_is_there() {
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
