//! The locks that other clients held, or tried to acquire, a moment ago.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::runtime::{clock, mutex::Mutex};

/// How long a lock counts as contended after two clients have met.
const CONTENDED: Duration = Duration::from_secs(1);

/// By the locks' names on the nodes.
#[derive(Debug, Default)]
pub(super) struct Contended(Mutex<HashMap<Arc<str>, Met>>);

#[derive(Clone, Copy, Debug)]
struct Met {
    /// The time when all nodes were queried.
    at: Duration,
    /// The time when the other client's value ends, by the last reply.
    ends: Option<Duration>,
}

impl Contended {
    /// Returns `true` if other clients wanted the lock a moment ago.
    pub(super) fn is(&self, lock: &str) -> bool {
        let met = self.0.lock().get(lock).copied();
        met.is_some_and(|met| is_new(clock::now(), &met))
    }

    /// Notes that another client has the lock, or some of its nodes. All nodes were queried.
    pub(super) fn meet(&self, lock: &Arc<str>, left: Option<Duration>) {
        let at = clock::now();
        let mut all = self.0.lock();
        all.retain(|_, met| is_new(at, met));
        all.insert(Arc::clone(lock), Met { at, ends: left.map(|left| at + left) });
    }

    /// Notes that one node, which alone was queried, still has the other client's value. This does
    /// not put off the next query of all nodes: the value may be on this node only.
    pub(super) fn meet_again(&self, lock: &str, left: Option<Duration>) {
        let ends = left.map(|left| clock::now() + left);
        if let Some(met) = self.0.lock().get_mut(lock) {
            met.ends = ends;
        }
    }

    /// Returns how long it takes until the lock is free, unless its holder renews it.
    pub(super) fn free_within(&self, lock: &str) -> Option<Duration> {
        let met = self.0.lock().get(lock).copied()?;
        Some(met.ends?.saturating_sub(clock::now()))
    }
}

fn is_new(now: Duration, met: &Met) -> bool {
    now.saturating_sub(met.at) <= CONTENDED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_is_forgotten_after_a_while() {
        let met = Met { at: Duration::from_secs(5), ends: None };
        assert!(is_new(Duration::from_secs(6), &met));
        assert!(!is_new(Duration::from_millis(6_001), &met));
        let contended = Contended::default();
        let lock: Arc<str> = "a".into();
        contended.meet(&lock, Some(Duration::from_secs(9)));
        assert!(contended.is("a") && !contended.is("b"));
        let left = contended.free_within("a").unwrap();
        assert!(left > Duration::from_secs(8) && left <= Duration::from_secs(9), "{left:?}");
        assert_eq!(contended.free_within("b"), None);
        contended.meet_again("a", None);
        contended.meet_again("b", Some(Duration::from_secs(9)));
        assert_eq!((contended.free_within("a"), contended.free_within("b")), (None, None));
    }

    #[test]
    fn single_node_report_does_not_delay_next_round() {
        let (contended, lock) = (Contended::default(), Arc::from("a"));
        contended.meet(&lock, None);
        let at = contended.0.lock()["a"].at;
        contended.meet_again("a", Some(Duration::from_secs(9)));
        assert_eq!(contended.0.lock()["a"].at, at);
    }
}
