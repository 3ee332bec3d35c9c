//! The locks of one session, and until when they are confirmed.
//!
//! The session has one deadline, which no node knows. The deadline of a keepalive must hold for
//! each lock, so the lock with the oldest confirmation decides.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::backend::{Joiner, Queue, Ticket};

/// Allows for nodes' clocks that run up to a tenth faster than ours.
const FACTOR: f64 = 0.9;

/// Nodes count in milliseconds: both ends of a key's life are rounded to them.
pub(super) const CUT: Duration = Duration::from_millis(2);

/// One attempt to acquire a lock.
#[derive(Clone, Debug)]
pub(super) struct Key {
    /// The name of the lock on the nodes.
    pub(super) lock: Arc<str>,
    /// The value of the attempt on the nodes, which no other attempt writes.
    pub(super) value: Arc<str>,
    /// The key of the entry outside this module.
    pub(super) name: Arc<str>,
    pub(super) ticket: Ticket,
    /// The time when the last request was sent that a majority has confirmed. At first, it is the
    /// time of the request that acquires the lock.
    pub(super) proved: Duration,
    stage: Stage,
    lost: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Taking,
    Held,
    LeaveRequest,
}

/// All locks of a session.
#[derive(Debug)]
pub(super) struct Keys {
    ttl: Duration,
    keys: HashMap<Arc<str>, Key>,
}

/// Returns the name of a queue's lock on the nodes. It is in braces, as only the text in braces
/// decides where a key is stored.
pub(super) fn lock_of(queue: &Queue) -> Arc<str> {
    format!("{{{}}}", queue.dir()).into()
}

/// Returns the name of the counter for a lock's tokens.
pub(super) fn counter_of(lock: &str) -> String {
    format!("{lock}:token")
}

impl Keys {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, keys: HashMap::new() }
    }

    /// Begins an attempt. From now on the session's deadline takes it into account.
    pub(super) fn begin(
        &mut self,
        Joiner { queue, ticket }: Joiner<'_>,
        value: &str,
        now: Duration,
    ) -> Key {
        let id = value.split('\n').next().unwrap_or_default();
        let key = Key {
            lock: lock_of(queue),
            value: value.into(),
            name: format!("{}/{id}", queue.dir()).into(),
            ticket,
            proved: now,
            stage: Stage::Taking,
            lost: watch::Sender::new(false),
        };
        self.keys.insert(Arc::clone(&key.name), key.clone());
        key
    }

    /// Removes an attempt that has failed or ended.
    pub(super) fn end(&mut self, name: &str) {
        self.keys.remove(name);
    }

    /// Returns until when a lock that was confirmed by this request is certain to exist.
    pub(super) fn valid(&self, proved: Duration) -> Duration {
        proved + self.ttl.mul_f64(FACTOR).saturating_sub(CUT)
    }

    /// Marks a lock that a majority has granted. Returns `true` if that was in time.
    pub(super) fn hold(&mut self, name: &str, now: Duration) -> bool {
        let valid = self.keys.get(name).is_some_and(|key| now < self.valid(key.proved));
        if let Some(key) = self.keys.get_mut(name).filter(|_| valid) {
            key.stage = Stage::Held;
        }
        valid
    }

    /// Notes that a majority has confirmed the request sent at this time.
    pub(super) fn renewed(&mut self, name: &str, sent: Duration) {
        if let Some(key) = self.keys.get_mut(name) {
            key.proved = key.proved.max(sent);
        }
    }

    /// Returns the locks that are held.
    pub(super) fn held(&self) -> Vec<Key> {
        self.keys.values().filter(|key| key.stage == Stage::Held).cloned().collect()
    }

    /// Returns the locks that may be on the nodes.
    pub(super) fn all(&self) -> Vec<Key> {
        self.keys.values().cloned().collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Key> {
        self.keys.get(name)
    }

    /// Marks an attempt that was given up, or a lock that is being released. It needs no renewal.
    pub(super) fn leave(&mut self, ticket: Ticket) -> Option<Key> {
        let key = self.keys.values_mut().find(|key| key.ticket == ticket)?;
        key.stage = Stage::LeaveRequest;
        Some(key.clone())
    }

    /// Returns the locks that will not be confirmed in time, while others are. Their holders must
    /// be notified.
    pub(super) fn overdue(&self, now: Duration) -> Vec<Key> {
        let held = self.held();
        let newest = held.iter().map(|key| key.proved).max().unwrap_or_default();
        let late = |key: &Key| key.proved < newest && now >= key.proved + self.ttl.mul_f64(0.75);
        held.into_iter().filter(late).collect()
    }

    /// Returns how long all locks are kept after a keepalive that was sent at this time.
    pub(super) fn granted(&self, sent: Duration) -> Duration {
        let counts = |key: &&Key| key.stage != Stage::LeaveRequest;
        let oldest = self.keys.values().filter(counts).map(|key| key.proved).min();
        let age = sent.saturating_sub(oldest.unwrap_or(sent));
        // The session subtracts a tenth of this, and of the time that has passed since then.
        self.ttl.saturating_sub((age + CUT).div_f64(FACTOR))
    }
}

impl Key {
    /// Marks the lock as lost, and notifies its watches.
    pub(super) fn lose(&self) {
        self.lost.send_replace(true);
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }

    pub(super) fn losses(&self) -> watch::Receiver<bool> {
        self.lost.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn begin(keys: &mut Keys, value: &str, now: f64) -> (Ticket, Key) {
        let queue = Queue::new("/ns", "a").unwrap();
        let ticket = Ticket::random();
        (ticket, keys.begin(Joiner { queue: &queue, ticket }, value, s(now)))
    }

    /// Returns the deadline that a session computes.
    fn deadline(keys: &Keys, sent: f64) -> f64 {
        let granted = keys.granted(s(sent));
        (s(sent) + granted - granted / 10).as_secs_f64()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn redlock_value_identifies_its_owner() {
        let mut keys = Keys::new(s(10.0));
        let (_, key) = begin(&mut keys, "ab\nme", 1.0);
        assert_eq!((&*key.lock, &*key.name, &*key.value), ("{/ns/a}", "/ns/a/ab", "ab\nme"));
        assert_eq!(counter_of(&key.lock), "{/ns/a}:token");
    }

    #[test]
    fn the_oldest_proof_counts_for_all() {
        let mut keys = Keys::new(s(10.0));
        assert!(close(deadline(&keys, 100.0), 109.0 - 0.002), "{}", deadline(&keys, 100.0));
        let (_, old) = begin(&mut keys, "a", 100.0);
        assert!(keys.hold(&old.name, s(100.1)));
        // The time of later requests makes no difference.
        assert!(close(deadline(&keys, 103.0), 108.998));
        let (ticket, young) = begin(&mut keys, "b", 102.0);
        keys.renewed(&old.name, s(103.0));
        assert!(close(deadline(&keys, 103.0), 110.998), "also of one that is being taken");
        keys.renewed(&young.name, s(103.0));
        assert!(close(deadline(&keys, 103.0), 111.998));
        keys.renewed(&old.name, s(106.0));
        assert!(close(deadline(&keys, 106.0), 111.998));
        assert!(keys.leave(ticket).is_some());
        assert!(close(deadline(&keys, 106.0), 114.998), "what is given back needs no proof");
        keys.end(&young.name);
        keys.end(&old.name);
        assert!(close(deadline(&keys, 120.0), 128.998));
        // The lock was confirmed more than a TTL before this keepalive.
        let (_, stale) = begin(&mut keys, "c", 100.0);
        assert!(keys.hold(&stale.name, s(100.0)));
        assert_eq!(keys.granted(s(120.0)), Duration::ZERO);
    }

    #[test]
    fn late_confirmed_lock_is_not_held() {
        let mut keys = Keys::new(s(10.0));
        let (_, key) = begin(&mut keys, "a", 100.0);
        assert!(keys.hold(&key.name, s(108.99)));
        assert!(!keys.hold(&key.name, s(108.999)), "0.9 TTL less 2 ms");
    }

    #[test]
    fn overdue_key_does_not_delay_other_keys() {
        let mut keys = Keys::new(s(10.0));
        let (_, old) = begin(&mut keys, "a", 100.0);
        let (_, young) = begin(&mut keys, "b", 100.0);
        for key in [&old, &young] {
            assert!(keys.hold(&key.name, s(100.0)));
        }
        assert!(keys.overdue(s(107.9)).is_empty(), "all of them are: the session is");
        keys.renewed(&young.name, s(106.0));
        assert!(keys.overdue(s(107.4)).is_empty());
        let overdue: Vec<_> = keys.overdue(s(107.5)).into_iter().map(|key| key.name).collect();
        assert_eq!(overdue, [old.name]);
    }
}
