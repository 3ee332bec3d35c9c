//! Queues whose entries were not alone of late: what is asked of them takes more than a batch does.

use std::collections::HashSet;

use crate::runtime::mutex::Mutex;

/// How many are remembered. It is a hint, and a call that goes by none finds out for itself.
const REMEMBERED: usize = 1000;

#[derive(Debug, Default)]
pub(crate) struct Crowded(Mutex<HashSet<String>>);

impl Crowded {
    /// A call has found other entries in this queue, or none.
    pub(crate) fn note(&self, dir: &str, is_crowded: bool) {
        let mut dirs = self.0.lock();
        if !is_crowded {
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
    fn queue_is_crowded_until_it_was_found_free() {
        let crowded = Crowded::default();
        crowded.note("/ns/a", true);
        crowded.note("/ns/a", true);
        assert!(crowded.contains("/ns/a") && !crowded.contains("/ns/b"));
        crowded.note("/ns/a", false);
        assert!(!crowded.contains("/ns/a"));
        (0..=REMEMBERED).for_each(|number| crowded.note(&number.to_string(), true));
        assert_eq!(crowded.0.lock().len(), 1);
    }
}
