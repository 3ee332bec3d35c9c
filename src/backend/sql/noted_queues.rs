//! Queues of which something was found of late, such as that others were in them: what is asked of
//! them next goes by that.

use std::collections::HashSet;

use crate::runtime::mutex::Mutex;

/// How many are remembered. It is a hint, and a call that goes by none finds out for itself.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct NotedQueues(Mutex<HashSet<String>>);

impl NotedQueues {
    /// A call has found this queue so, or not.
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
    fn queue_is_noted_until_it_was_found_otherwise() {
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
