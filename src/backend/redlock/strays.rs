//! The values of released locks that a node without replies may still have.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::keys::Key;
use crate::runtime::mutex::Mutex;

/// How many TTLs a node may keep a value. It keeps a value for one TTL by its own clock, which may
/// be a tenth slower. The TTL counts from the last renewal, which may be under way for a quarter of
/// a TTL.
const LIVES: f64 = 1.5;

/// The largest number of values that one script frees.
const AT_ONCE: usize = 256;

/// The values that one node has to free. One task frees all of them.
#[derive(Debug, Default)]
pub(super) struct Strays(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Each value, with the time when it is dropped.
    keys: HashMap<Arc<str>, (Key, Duration)>,
    /// The task is running.
    served: bool,
}

impl Strays {
    /// Adds locks. Returns `true` if the caller has to start the task.
    ///
    /// A lock that is known keeps its end: it has not been renewed since its release began.
    pub(super) fn add(&self, keys: &[Key], ttl: Duration, now: Duration) -> bool {
        let ends = now + ttl.mul_f64(LIVES);
        let mut state = self.0.lock();
        for key in keys {
            state.keys.entry(Arc::clone(&key.value)).or_insert_with(|| (key.clone(), ends));
        }
        !std::mem::replace(&mut state.served, true)
    }

    /// Returns some of the values that the node may still have. If there are none, the task ends.
    pub(super) fn next(&self, now: Duration) -> Vec<Key> {
        let mut state = self.0.lock();
        state.keys.retain(|_, (_, ends)| now < *ends);
        state.served = !state.keys.is_empty();
        state.keys.values().take(AT_ONCE).map(|(key, _)| key.clone()).collect()
    }

    /// Removes locks that the node has freed.
    pub(super) fn freed(&self, keys: &[Key]) {
        let mut state = self.0.lock();
        for key in keys {
            state.keys.remove(&key.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Joiner, Queue, Ticket, redlock::keys::Keys};

    const TTL: Duration = Duration::from_secs(10);

    fn key(value: &str) -> Key {
        let queue = Queue::new("/ns", "a").unwrap();
        let joiner = Joiner { queue: &queue, ticket: Ticket::random() };
        Keys::new(TTL).begin(joiner, value, Duration::ZERO)
    }

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn values(keys: &[Key]) -> Vec<&str> {
        keys.iter().map(|key| &*key.value).collect()
    }

    #[test]
    fn one_task_frees_all_values_of_a_node() {
        let strays = Strays::default();
        let (one, other) = (key("a"), key("b"));
        assert!(strays.add(std::slice::from_ref(&one), TTL, s(0)), "the first one starts it");
        assert!(!strays.add(std::slice::from_ref(&other), TTL, s(0)));
        assert_eq!(strays.next(s(1)).len(), 2);
        strays.freed(&[one]);
        assert_eq!(values(&strays.next(s(1))), ["b"]);
        strays.freed(&[other]);
        assert!(strays.next(s(1)).is_empty());
        assert!(strays.add(&[key("c")], TTL, s(1)), "the task has ended");
    }

    #[test]
    fn stray_values_expired_on_node_are_dropped() {
        let strays = Strays::default();
        strays.add(&[key("a")], TTL, s(0));
        strays.add(&[key("b")], TTL, s(5));
        assert_eq!(strays.next(s(14)).len(), 2);
        // Its release is retried.
        strays.add(&[key("a")], TTL, s(14));
        assert_eq!(values(&strays.next(s(15))), ["b"]);
        assert!(strays.next(s(20)).is_empty());
    }

    #[test]
    fn one_script_frees_some_of_many() {
        let strays = Strays::default();
        let keys: Vec<_> = (0..300).map(|number| key(&number.to_string())).collect();
        strays.add(&keys, TTL, s(0));
        let some = strays.next(s(1));
        assert_eq!(some.len(), AT_ONCE);
        strays.freed(&some);
        assert_eq!(strays.next(s(1)).len(), 300 - AT_ONCE);
    }
}
