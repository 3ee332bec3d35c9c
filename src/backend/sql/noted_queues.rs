//! Queues in which a request has found something recently, such as other clients. The choice of the
//! next request depends on it.

use std::collections::HashSet;

use crate::runtime::mutex::Mutex;

/// The number of queues that are remembered. This is only a hint, and requests work without it.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct NotedQueues(Mutex<HashSet<String>>);

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
        if !dirs.contains(dir) {
            dirs.insert(dir.to_owned());
        }
    }

    pub(crate) fn contains(&self, dir: &str) -> bool {
        self.0.lock().contains(dir)
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
