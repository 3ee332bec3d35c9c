//! What a waiter may see: the keys ahead of its own, from its join on.
//!
//! No key joins ahead of it, so its view of the queue only loses keys. A moment is thus the number
//! of the deletions that its view has. The rest of the queue makes no difference to it, nor do the
//! other waiters, so that each waiter's possible states are searched on their own.

use std::{
    collections::HashSet,
    hash::{Hash, Hasher},
    ptr,
};

use super::trace::Number;
use crate::queue::{
    state::{Stage, View, Wait},
    waiter::Turn,
};

/// The keys ahead of a key when it joined, and the key itself.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) own: Number,
    /// The key that joined just before, which may be deleted.
    pub(super) last: Option<Number>,
    /// The keys by number, each with the place of its deletion among the deletions.
    keys: Vec<(Number, usize)>,
    /// For each number of deletions, the last key ahead, and whether it is the only one.
    nearest: Vec<Option<(Number, bool)>>,
}

/// A place behind all deletions.
const NEVER: usize = usize::MAX;

impl Chain {
    /// `keys`: the keys ahead and the own key, by number. `deleted`: those of them that may have
    /// been deleted so far, in the order of the deletions.
    pub(super) fn new(
        own: Number,
        last: Option<Number>,
        keys: impl Iterator<Item = Number>,
        deleted: &[Number],
    ) -> Self {
        let place = |key| deleted.iter().position(|gone| *gone == key).unwrap_or(NEVER);
        let keys: Vec<_> = keys.map(|key| (key, place(key))).collect();
        let nearest = (0..=deleted.len()).map(|at| {
            let mut left = keys.iter().rev().filter(|(key, place)| *key != own && *place >= at);
            left.next().map(|(key, _)| (*key, left.next().is_none()))
        });
        Self { own, last, nearest: nearest.collect(), keys }
    }

    fn moments(&self) -> impl DoubleEndedIterator<Item = Moment<'_>> {
        (0..self.nearest.len()).map(|at| Moment { at, chain: self })
    }

    /// Returns `true` if the rules allow a grant by now.
    ///
    /// Most waiters are granted by what they learn at a single moment, which is tried first.
    pub(super) fn allows_grant(&self) -> bool {
        let joined = Moment { at: 0, chain: self };
        let start = Stage::Joined(Wait::joined(self.own, self.last, joined));
        let at_once = self.moments().rev().any(|now| reach([start].into(), now).is_none());
        at_once || {
            let mut states = HashSet::from([start]);
            self.moments().any(|now| match reach(std::mem::take(&mut states), now) {
                Some(reached) => {
                    states = reached;
                    false
                }
                None => true,
            })
        }
    }
}

/// Returns the states that the hidden steps of a waiter can reach at this moment. `None` if the
/// lock can be granted.
fn reach<'a>(
    states: HashSet<Stage<Moment<'a>>>,
    now: Moment<'a>,
) -> Option<HashSet<Stage<Moment<'a>>>> {
    let mut open: Vec<_> = states.iter().copied().collect();
    let mut known = states;
    while let Some(stage) = open.pop() {
        let stages = [stage.watches(|_| true), stage.catches_up(now)];
        let turns = [stage.answered(), stage.looks(|_| true), stage.rechecks()];
        for turn in turns.into_iter().flatten().chain(stages.into_iter().flatten().map(Turn::Waits))
        {
            match turn {
                Turn::Granted(_) => return None,
                Turn::Evicted(_) => {}
                Turn::Waits(next) => {
                    if known.insert(next) {
                        open.push(next);
                    }
                }
            }
        }
    }
    Some(known)
}

/// The view of a waiter's server after some of the deletions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment<'a> {
    at: usize,
    chain: &'a Chain,
}

impl PartialEq for Moment<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at && ptr::eq(self.chain, other.chain)
    }
}

impl Eq for Moment<'_> {}

impl Hash for Moment<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.at.hash(state);
    }
}

impl View for Moment<'_> {
    type Number = Number;

    fn has(self, key: Number) -> bool {
        let found = self.chain.keys.binary_search_by_key(&key, |(key, _)| *key);
        found.is_ok_and(|index| self.chain.keys[index].1 >= self.at)
    }

    fn nearest_ahead_of(self, key: Number) -> Option<(Number, bool)> {
        debug_assert_eq!(key, self.chain.own, "a waiter looks from its own place");
        self.chain.nearest[self.at]
    }
}
