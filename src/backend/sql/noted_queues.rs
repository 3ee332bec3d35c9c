//! Queues in which a request has found something recently, such as other clients. The choice of the
//! next request depends on it.

use std::collections::HashMap;

use crate::runtime::{clock::Instant, mutex::Mutex};

/// The number of queues that are remembered. This is only a hint, and requests work without it.
const REMEMBERED: usize = 10_000;

/// The queues, and when each of them was noted.
#[derive(Debug, Default)]
pub(crate) struct NotedQueues(Mutex<HashMap<String, Instant>>);

impl NotedQueues {
    /// Records whether a call has found the queue in this state.
    pub(crate) fn note(&self, dir: &str, is_so: bool) {
        let mut dirs = self.0.lock();
        if !is_so {
            dirs.remove(dir);
            return;
        }
        if dirs.len() == REMEMBERED {
            dirs.clear();
        }
        if !dirs.contains_key(dir) {
            dirs.insert(dir.to_owned(), Instant::now());
        }
    }

    pub(crate) fn contains(&self, dir: &str) -> bool {
        self.0.lock().contains_key(dir)
    }

    /// Returns how long ago the queue was first noted, if it still is.
    #[cfg(feature = "postgres")]
    pub(crate) fn age(&self, dir: &str) -> Option<std::time::Duration> {
        self.0.lock().get(dir).map(|at| at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noted_queue_is_kept_until_contradicted() {
        let noted = NotedQueues::default();
        noted.note("/ns/a", true);
        noted.note("/ns/a", true);
        assert!(noted.contains("/ns/a") && !noted.contains("/ns/b"));
        noted.note("/ns/a", false);
        assert!(!noted.contains("/ns/a"));
        (0..=REMEMBERED).for_each(|number| noted.note(&number.to_string(), true));
        assert_eq!(noted.0.lock().len(), 1);
    }
}
