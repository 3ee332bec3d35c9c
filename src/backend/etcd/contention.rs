//! Records how many clients were recently found in each queue.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::atomic::{AtomicU64, Ordering},
};

/// The length from which a queue is long: reading it takes longer than writing one more key.
pub(super) const LONG: i64 = 32;
const SLOTS: usize = 256;
const LEVELS: u64 = 3;

/// What recent joins found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// The queue was empty.
    Cold = 0,
    /// The queue was empty once, after it had not been.
    Cooling = 1,
    Few = 2,
    Many = 3,
}

/// A guess, of fixed size, at how many clients a join will find. It only decides which request is
/// tried first. Two queues that share a slot cost each other a request.
#[derive(Debug)]
pub(super) struct Contention([AtomicU64; SLOTS]);

impl Contention {
    pub(super) fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    /// Returns the queue's slot and the mark that it leaves there: all bits except the lowest two,
    /// which are the level.
    fn slot(&self, dir: &str) -> (&AtomicU64, u64) {
        let mut hasher = DefaultHasher::new();
        dir.hash(&mut hasher);
        let hash = hasher.finish();
        (&self.0[hash as usize % SLOTS], hash & !LEVELS)
    }

    pub(super) fn level(&self, dir: &str) -> Level {
        let (slot, mark) = self.slot(dir);
        let value = slot.load(Ordering::Relaxed);
        let levels = [Level::Cold, Level::Cooling, Level::Few, Level::Many];
        if value & !LEVELS == mark { levels[(value & LEVELS) as usize] } else { Level::Cold }
    }

    pub(super) fn set(&self, dir: &str, level: Level) {
        let (slot, mark) = self.slot(dir);
        slot.store(mark | level as u64, Ordering::Relaxed);
    }

    /// Lowers the level after a join found the queue empty. Once is no proof that the next join
    /// will.
    pub(super) fn cool(&self, dir: &str) {
        let level = if self.level(dir) > Level::Cooling { Level::Cooling } else { Level::Cold };
        self.set(dir, level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_hint_cools_down_after_empty_joins() {
        let contention = Contention::new();
        for level in [Level::Few, Level::Many] {
            contention.set("/ns/a", level);
            assert_eq!(contention.level("/ns/a"), level);
            contention.cool("/ns/a");
            assert_eq!(contention.level("/ns/a"), Level::Cooling);
            contention.cool("/ns/a");
            assert_eq!(contention.level("/ns/a"), Level::Cold);
        }
    }
}
