//! Counts handovers and lost places by comparing successive listings of the locks.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use distlock::{LockInfo, LockKind, QueueEntry};

/// The period over which handovers are averaged.
const WINDOW: Duration = Duration::from_secs(10);

/// A lock's name and kind.
type Lock = (String, LockKind);

/// An entry of a lock's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    token: u64,
    holds: bool,
}

/// Counts the changes between successive listings.
#[derive(Default)]
pub(crate) struct QueueChanges {
    last: Option<BTreeMap<Lock, Vec<Entry>>>,
    /// The number of handovers that each listing showed, and when.
    handovers: VecDeque<(Instant, usize)>,
    /// From when on the kept counts show all handovers.
    since: Option<Instant>,
    /// How many waiters of mutexes and elections have left that certainly never held the lock,
    /// because they gave up, lost their session or were evicted. For a holder, the store does not
    /// show whether it released or lost its lock.
    pub(crate) lost_places: usize,
}

impl QueueChanges {
    /// Counts the changes since the last listing. Several handovers of one mutex between two
    /// listings count once.
    pub(crate) fn look(&mut self, locks: &[LockInfo], now: Instant) {
        let entry = |holds| {
            move |entry: &QueueEntry| Entry { token: entry.fencing_token().as_u64(), holds }
        };
        let seen = locks.iter().map(|lock| {
            let holders = lock.holders().iter().map(entry(true));
            let entries = holders.chain(lock.waiters().iter().map(entry(false))).collect();
            ((lock.name().to_owned(), lock.kind()), entries)
        });
        self.count(seen.collect(), now);
    }

    fn count(&mut self, seen: BTreeMap<Lock, Vec<Entry>>, now: Instant) {
        self.since.get_or_insert(now);
        let mut handovers = 0;
        for (lock, before) in self.last.iter().flatten() {
            let Some(after) = seen.get(lock) else { continue };
            handovers += passed(before, after);
            // Other locks can have several holders, which leave in any order.
            if matches!(lock.1, LockKind::Mutex | LockKind::Election) {
                self.lost_places += never_held(before, after);
            }
        }
        self.handovers.push_back((now, handovers));
        while let Some((at, _)) = self.handovers.front()
            && now.duration_since(*at) > WINDOW
        {
            self.since = Some(*at);
            self.handovers.pop_front();
        }
        self.last = Some(seen);
    }

    /// Recent handovers per second.
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        let count: usize = self.handovers.iter().map(|(_, count)| count).sum();
        let time = self.since.map_or(Duration::ZERO, |since| now.duration_since(since));
        // The counts are small enough to be exact as floating-point numbers.
        if time.is_zero() { 0.0 } else { count as f64 / time.as_secs_f64() }
    }
}

/// Counts the holders that have replaced others.
fn passed(before: &[Entry], after: &[Entry]) -> usize {
    let holds =
        |entries: &[Entry], token| entries.iter().any(|entry| entry.holds && entry.token == token);
    let changed = |these: &[Entry], those: &[Entry]| {
        these.iter().filter(|entry| entry.holds && !holds(those, entry.token)).count()
    };
    changed(after, before).min(changed(before, after))
}

/// Counts the waiters that have left from behind the holder. They never held the lock, because it
/// is granted in the order of the queue. A client of another library has no token and keeps no
/// order: behind it nothing is certain.
fn never_held(before: &[Entry], after: &[Entry]) -> usize {
    let Some(holder) = after.iter().find(|entry| entry.holds && entry.token > 0) else { return 0 };
    let is_there = |token| after.iter().any(|entry| entry.token == token);
    let gone =
        |entry: &&Entry| !entry.holds && entry.token > holder.token && !is_there(entry.token);
    before.iter().filter(gone).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(locks: &[(&str, &[u64])]) -> BTreeMap<Lock, Vec<Entry>> {
        let entries = |tokens: &[u64]| {
            let entry = |(index, token): (usize, &u64)| Entry { token: *token, holds: index == 0 };
            tokens.iter().enumerate().map(entry).collect()
        };
        locks
            .iter()
            .map(|(name, tokens)| (((*name).to_owned(), LockKind::Mutex), entries(tokens)))
            .collect()
    }

    #[test]
    fn handovers_are_counted() {
        let (mut queue_changes, start) = (QueueChanges::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        queue_changes.count(seen(&[("a", &[1, 2, 3])]), at(0));
        assert!(queue_changes.rate(at(0)) < 0.1);
        queue_changes.count(seen(&[("a", &[2, 3]), ("b", &[9])]), at(1));
        queue_changes.count(seen(&[("a", &[3])]), at(2));
        assert!((queue_changes.rate(at(2)) - 1.0).abs() < 0.01);
        queue_changes.count(seen(&[]), at(30));
        assert!(queue_changes.rate(at(30)) < 0.01);
        assert_eq!(queue_changes.lost_places, 0);
        // A count covers the whole time since the listing before it.
        queue_changes.count(seen(&[("a", &[4, 5])]), at(60));
        queue_changes.count(seen(&[("a", &[5])]), at(120));
        assert!((queue_changes.rate(at(120)) * 60.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn only_entries_that_cannot_have_held_count_as_lost() {
        let (mut queue_changes, now) = (QueueChanges::default(), Instant::now());
        queue_changes.count(seen(&[("a", &[1, 2, 3, 4])]), now);
        // The second entry may have held the lock, but the last one has not.
        queue_changes.count(seen(&[("a", &[3])]), now);
        assert_eq!(queue_changes.lost_places, 1);
        // A client of another library is first. The second entry may have held the lock before.
        queue_changes.count(seen(&[("b", &[1, 2])]), now);
        queue_changes.count(seen(&[("b", &[0])]), now);
        assert_eq!(queue_changes.lost_places, 1);
        queue_changes.count(seen(&[("a", &[3, 5])]), now);
        queue_changes.count(seen(&[]), now);
        assert_eq!(queue_changes.lost_places, 1);
    }
}
