//! How much a session may watch: zookeeper-client cannot restore more after a reconnect.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::name::Queue;

/// What follows the directory in the longest key that is watched, Curator's.
const NAME: usize = 64;
/// What one more claim for a queue takes that the session has a claim for: it follows another one of the same session, whose end it need not watch. Not nothing, so that
/// room is left for those who follow a stranger.
const FOLLOWER: usize = 20;

/// Bytes of keys that are watched, or may come to be: for each queue one, be it the holder's own or the one that the first waiter waits for, and
/// those of waiters behind strangers.
#[derive(Debug)]
pub(crate) struct Room {
    budget: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    queues: HashMap<Arc<str>, Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    claims: usize,
    watches: usize,
}

/// Leave to watch one key; given back when dropped.
#[derive(Debug)]
pub(crate) struct Leave<'a> {
    room: &'a Room,
    queue: &'a Queue,
}

impl Room {
    pub(crate) fn new(budget: usize) -> Self {
        Self { budget, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_endless(&self) -> bool {
        self.budget == usize::MAX
    }

    /// Makes room for one more claim, if there is.
    pub(crate) fn claim(&self, queue: &Queue) -> bool {
        if self.is_endless() {
            return true;
        }
        let mut state = self.state();
        let claims = state.queues.get(queue.dir()).map_or(0, |counts| counts.claims);
        let fits = state.take(if claims == 0 { weight(queue) } else { FOLLOWER }, self.budget);
        if fits {
            state.queues.entry(queue.shared_dir()).or_default().claims += 1;
        }
        fits
    }

    pub(crate) fn unclaim(&self, queue: &Queue) {
        if self.is_endless() {
            return;
        }
        let mut state = self.state();
        let Some(counts) = state.queues.get_mut(queue.dir()) else { return };
        counts.claims -= 1;
        if counts.claims > 0 {
            state.used -= FOLLOWER;
        } else {
            state.used -= weight(queue);
            state.queues.remove(queue.dir());
        }
    }

    /// Asks to watch a key of a queue that there is a claim for.
    pub(crate) fn watch<'a>(&'a self, queue: &'a Queue) -> Option<Leave<'a>> {
        if !self.is_endless() {
            let mut state = self.state();
            let others = state.queues.get(queue.dir()).is_some_and(|counts| counts.watches > 0);
            if others && !state.take(weight(queue), self.budget) {
                return None;
            }
            state.queues.entry(queue.shared_dir()).or_default().watches += 1;
        }
        Some(Leave { room: self, queue })
    }
}

impl State {
    fn take(&mut self, weight: usize, budget: usize) -> bool {
        let fits = self.used + weight <= budget;
        self.used += if fits { weight } else { 0 };
        fits
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        if self.room.is_endless() {
            return;
        }
        let mut state = self.room.state();
        let Some(counts) = state.queues.get_mut(self.queue.dir()) else { return };
        counts.watches -= 1;
        if counts.watches > 0 {
            state.used -= weight(self.queue);
        }
    }
}

fn weight(queue: &Queue) -> usize {
    queue.dir().len() + NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_for_queues_and_for_watches() {
        let queue = |name: &str| Queue::new("/ns", name).unwrap();
        let (a, b) = (queue("a"), queue("b"));
        let room = Room::new(weight(&a) * 2 + FOLLOWER);
        assert!(room.claim(&a) && room.claim(&a), "the second one follows the first");
        assert!(room.claim(&b));
        assert!(!room.claim(&queue("c")) && !room.claim(&a), "it is full");
        // One watch of each queue is in the price.
        let watches = (room.watch(&a).unwrap(), room.watch(&b).unwrap());
        assert!(room.watch(&a).is_none());
        room.unclaim(&b);
        drop(watches.1);
        let second = room.watch(&a).unwrap();
        assert!(!room.claim(&b), "its room is taken");
        drop((second, watches.0));
        assert!(room.claim(&b));
        for queue in [&a, &a, &b] {
            room.unclaim(queue);
        }
        assert_eq!(room.state().used, 0);
        assert!(room.state().queues.is_empty());
    }
}
