//! What each holder believes that it holds.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{scheduler, server::Contract, world::World};

/// The longest time until a new first waiter is granted, without faults.
const LONGEST_WAIT: Duration = Duration::from_millis(800);

/// On ZooKeeper, a session with this many keys may have no room for another watch: each may take up
/// to 160 of its 2,000 bytes. Without the watch, a waiter polls every 0.5 to 1.5 s.
const CROWDED: usize = 12;
const LONGEST_PAUSE: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
    /// The permits held, and the number that the caller assumes.
    Permits(u32, u32),
}

/// A guard that can report whether it is still valid.
pub(crate) trait Valid: Send + Sync {
    fn is_valid(&self) -> bool;
}

#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) process: usize,
    pub(crate) queue: Arc<str>,
    pub(crate) key: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) token: u64,
    pub(crate) mode: Mode,
    pub(crate) guard: Arc<dyn Valid>,
    /// When an operator deleted its key.
    pub(crate) deleted: Option<Duration>,
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client{} {} {} {:?}", self.process, self.key, self.token, self.mode)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holders {
    all: BTreeMap<u64, Holder>,
    count: u64,
    /// The highest token of an exclusive grant.
    tokens: BTreeMap<Arc<str>, u64>,
}

impl World {
    /// Records that an operator deleted a key, so that its holder must be notified.
    pub(crate) fn evicted(&mut self, key: &str) {
        let now = self.now();
        for holder in self.holders.all.values_mut().filter(|holder| *holder.key == *key) {
            holder.deleted.get_or_insert(now);
        }
    }

    /// Removes the holders of a dead process; at the end, all holders.
    pub(crate) fn take_holders(&mut self, process: Option<usize>) -> Vec<Holder> {
        let of = |holder: &Holder| process.is_none_or(|process| holder.process == process);
        let theirs: Vec<_> =
            self.holders.all.iter().filter(|(_, holder)| of(holder)).map(|(id, _)| *id).collect();
        theirs.into_iter().filter_map(|id| self.holders.all.remove(&id)).collect()
    }

    /// Returns `true` if a holder may not know yet that its key was deleted. It is notified at once
    /// or finds out by a recheck, unless a fault prevents both.
    fn is_excused(&self, holder: &Holder) -> bool {
        let Some(deleted) = holder.deleted else { return false };
        let process = &self.processes[holder.process];
        let struck = process.struck.max(process.blocked).max(process.stopped);
        let struck = struck.max(process.unanswered);
        // If no event is ever lost, the holder is notified at once; otherwise a recheck finds the
        // loss.
        let patience = match self.faults {
            0 => Duration::from_millis(1500),
            _ => self.recheck * 2 + self.request_timeout * 6 + self.ttl,
        };
        self.now() < deleted.max(struck) + patience
    }

    /// Records which keys are first in their queues after a change.
    pub(crate) fn note_first(&mut self) {
        if !self.undisturbed {
            return;
        }
        let (now, last) = (self.now(), self.server.now.revision);
        let deleted = self.server.between(last - 1, last).filter(|change| change.deleted);
        let firsts = deleted.filter_map(|change| self.server.now.in_dir(&change.dir).next());
        for first in firsts.map(|key| (Arc::clone(&key.name), key.revision)).collect::<Vec<_>>() {
            self.firsts.entry(first).or_insert(now);
        }
    }

    fn may_lack_room(&self, new: &Holder) -> bool {
        let now = &self.server.now;
        let session = now.key(&new.key).map(|key| key.session);
        self.server.contract == Contract::ZooKeeper
            && session.is_some_and(|session| now.of_session(session).count() >= CROWDED)
    }

    /// Checks that a first waiter is granted at once if there are no faults.
    fn check_wait(&mut self, new: &Holder) {
        let Some(since) = self.firsts.remove(&(Arc::clone(&new.key), new.revision)) else { return };
        let waited = self.now().saturating_sub(since.max(self.scheduler.neglected()));
        let pause = if self.may_lack_room(new) { LONGEST_PAUSE } else { Duration::ZERO };
        if new.mode == Mode::Exclusive && waited > LONGEST_WAIT + pause {
            self.history.violated(format!("{new:?} was granted {waited:?} after it was the first"));
        }
    }

    fn exclusive_ahead(&self, new: &Holder) -> Option<String> {
        // A holder that released its key may have it again.
        if self.forgets {
            return None;
        }
        let own = self.server.now.key(&new.key).filter(|own| own.revision == new.revision)?;
        let ahead = self.server.now.in_dir(&new.queue).filter(|key| key.token < own.token);
        let ahead: Vec<_> = ahead.collect();
        let found = match new.mode {
            Mode::Exclusive => ahead.first().map(|key| key.name.to_string()),
            Mode::Shared => {
                let writer = ahead.iter().find(|key| !key.said().starts_with('r'));
                writer.map(|key| key.name.to_string())
            }
            Mode::Permits(..) => None,
        };
        found.map(|key| format!("{new:?} was granted while {key} was ahead"))
    }
}

/// Records a grant, and checks exclusion and the order of tokens.
pub(crate) fn granted(mut new: Holder, alone: bool) -> u64 {
    // One lock of several may be lost while the others are still being acquired.
    if alone && !new.guard.is_valid() {
        scheduler::with(|world| world.history.violated(format!("{new:?} was granted when lost")));
    }
    let (others, number, new) = scheduler::with(|world| {
        let there = world.server.now.key(&new.key);
        let own = there.is_some_and(|key| key.revision == new.revision);
        if !own {
            // The caller resumed late: it must be notified from now on.
            new.deleted = Some(world.now());
        }
        let ahead = world.exclusive_ahead(&new);
        world.history.violations.extend(ahead);
        if alone {
            world.check_wait(&new);
        }
        if new.mode == Mode::Exclusive && own {
            let highest = world.holders.tokens.entry(Arc::clone(&new.queue)).or_default();
            if *highest >= new.token {
                let what = format!("the token of {new:?} is not above {highest}");
                world.history.violated(what);
            }
            *highest = (*highest).max(new.token);
        }
        let others = world.holders.all.values().filter(|other| other.queue == new.queue);
        let others: Vec<_> = others.cloned().collect();
        world.holders.count += 1;
        let number = world.holders.count;
        world.holders.all.insert(number, new.clone());
        (others, number, new)
    });
    // Validity as the owners would see it at this moment.
    let others: Vec<_> = others.into_iter().filter(|other| other.guard.is_valid()).collect();
    if !others.is_empty() && new.guard.is_valid() {
        scheduler::with(|world| {
            let others: Vec<_> =
                others.into_iter().filter(|other| !world.is_excused(other)).collect();
            let clash = match new.mode {
                Mode::Exclusive => !others.is_empty(),
                Mode::Shared => others.iter().any(|other| other.mode == Mode::Exclusive),
                Mode::Permits(..) => {
                    let all = || others.iter().chain([&new]).map(Holder::permits);
                    let taken: u32 = all().map(|(taken, _)| taken).sum();
                    let least = all().map(|(_, of)| of).min().unwrap_or_default();
                    // `set_permits` may have raised the limit.
                    taken > if world.history.permits_set { 4 } else { least }
                }
            };
            if clash && !world.is_excused(&new) {
                world.history.violated(format!("{new:?} next to {others:?}"));
            }
        });
    }
    number
}

/// Records a release; returns `true` if an operator had deleted the key.
pub(crate) fn released(number: u64) -> bool {
    let holder = scheduler::with(|world| world.holders.all.remove(&number));
    holder.is_some_and(|holder| holder.deleted.is_some())
}

/// The number of grants so far, and of current holders: this changes with every turn.
pub(crate) fn turns() -> (u64, usize) {
    scheduler::with(|world| (world.holders.count, world.holders.all.len()))
}

/// Checks that holders whose keys were deleted are notified in time.
pub(crate) fn check_evicted() {
    let late = scheduler::with(|world| {
        let evicted = world.holders.all.values().filter(|holder| holder.deleted.is_some());
        evicted.filter(|holder| !world.is_excused(holder)).cloned().collect::<Vec<_>>()
    });
    for holder in late.into_iter().filter(|holder| holder.guard.is_valid()) {
        scheduler::with(|world| {
            world.history.violated(format!("{holder:?} was not notified that its key was deleted"));
        });
    }
}

impl Holder {
    fn permits(&self) -> (u32, u32) {
        match self.mode {
            Mode::Permits(taken, of) => (taken, of),
            Mode::Exclusive | Mode::Shared => (0, u32::MAX),
        }
    }
}
