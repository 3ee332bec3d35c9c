//! The locks that others were found to have a moment ago.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::runtime::{clock, mutex::Mutex};

/// How long a lock counts as wanted by several after they have met.
const CONTENDED: Duration = Duration::from_secs(1);

/// By their names on the nodes.
#[derive(Debug, Default)]
pub(super) struct Contended(Mutex<HashMap<Arc<str>, Met>>);

#[derive(Clone, Copy, Debug)]
struct Met {
    at: Duration,
    /// How long the other one's value was kept then.
    left: Option<Duration>,
}

impl Contended {
    /// Whether others wanted it a moment ago.
    pub(super) fn is(&self, lock: &str) -> bool {
        let met = self.0.lock().get(lock).copied();
        met.is_some_and(|met| is_new(clock::now(), &met))
    }

    /// Somebody else has the lock, or some of its nodes.
    pub(super) fn meet(&self, lock: &Arc<str>, left: Option<Duration>) {
        let at = clock::now();
        let mut all = self.0.lock();
        all.retain(|_, met| is_new(at, met));
        all.insert(Arc::clone(lock), Met { at, left });
    }

    /// When it is free, unless its holder keeps it.
    pub(super) fn free_within(&self, lock: &str) -> Option<Duration> {
        let met = self.0.lock().get(lock).copied()?;
        Some(met.left?.saturating_sub(clock::now().saturating_sub(met.at)))
    }
}

fn is_new(now: Duration, met: &Met) -> bool {
    now.saturating_sub(met.at) <= CONTENDED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_met_a_while_ago_are_forgotten() {
        let met = Met { at: Duration::from_secs(5), left: None };
        assert!(is_new(Duration::from_secs(6), &met));
        assert!(!is_new(Duration::from_millis(6_001), &met));
        let contended = Contended::default();
        let lock: Arc<str> = "a".into();
        contended.meet(&lock, Some(Duration::from_secs(9)));
        assert!(contended.is("a") && !contended.is("b"));
        let left = contended.free_within("a").unwrap();
        assert!(left > Duration::from_secs(8) && left <= Duration::from_secs(9), "{left:?}");
        assert_eq!(contended.free_within("b"), None);
    }
}
