//! Limits what a session watches and owns.
//!
//! After a reconnect, zookeeper-client cannot restore watches beyond a limit, and ZooKeeper cannot
//! end a session with nodes beyond another limit.
//!
//! The budget counts the bytes of the watched paths, each path once for all of its waiters, and the
//! bytes of the session's own keys. The first attempt in a queue reserves room for one watch in
//! advance, so the first waiter or the only holder always has room. The watches of the queue use
//! that room first. Without room for a watch, the client polls about every second ([`NO_ROOM`]).
//!
//! The module is here and not in the ZooKeeper backend because the session pool of every store uses
//! it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{
    backend::name::Queue,
    runtime::{OnDrop, mutex::Mutex},
};

/// The polling interval of a client without room for a watch.
pub(crate) const NO_ROOM: Duration = Duration::from_secs(1);

/// The bytes after the directory in the longest watched key, which is Curator's. Own keys are
/// shorter.
const NAME: usize = 64;
/// The cost of each further attempt in a queue. Most of them follow another attempt of the same
/// session, whose end needs no watch. The cost is not zero, so that attempts that follow another
/// session's entry have room.
const FOLLOWER: usize = 20;

/// The bytes of the paths that one session watches, may come to watch, or owns.
#[derive(Debug)]
pub(crate) struct WatchBudget {
    limits: Bytes,
    state: Mutex<State>,
}

/// Bytes of paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes {
    watched: usize,
    keys: usize,
}

#[derive(Debug, Default)]
struct State {
    used: Bytes,
    /// The counts of each queue, by its directory.
    queues: HashMap<Arc<str>, Counts>,
    /// The number of watchers of each path.
    paths: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    attempts: usize,
    visits: usize,
    /// The bytes of the watched paths.
    watched: usize,
}

impl WatchBudget {
    pub(crate) fn new(watched: usize, keys: usize) -> Self {
        Self { limits: Bytes { watched, keys }, state: Mutex::default() }
    }

    fn is_endless(&self) -> bool {
        self.limits == Bytes { watched: usize::MAX, keys: usize::MAX }
    }

    /// Reserves room for one more attempt. Returns `false` if there is none.
    pub(crate) fn enter(&self, queue: &Queue) -> bool {
        self.change(queue.dir(), |counts| counts.attempts += 1)
    }

    pub(crate) fn left(&self, queue: &Queue) {
        self.change(queue.dir(), |counts| counts.attempts = counts.attempts.saturating_sub(1));
    }

    /// Reserves room to watch a queue and its first key, once for all visits.
    pub(crate) fn visit(&self, queue: &Queue) -> bool {
        self.change(queue.dir(), |counts| counts.visits += 1)
    }

    pub(crate) fn unvisit(&self, queue: &Queue) {
        self.change(queue.dir(), |counts| counts.visits = counts.visits.saturating_sub(1));
    }

    fn change(&self, dir: &str, change: impl FnOnce(&mut Counts)) -> bool {
        self.is_endless() || self.state.lock().change(dir, self.limits, change)
    }

    /// Reserves room to watch a path in a queue's directory.
    ///
    /// Dropping the returned value frees the room.
    pub(crate) fn watch<'a>(
        &'a self,
        dir: &'a str,
        path: &'a Arc<str>,
    ) -> Option<OnDrop<impl Fn() + 'a>> {
        if !self.is_endless() {
            let mut state = self.state.lock();
            let is_watched = state.paths.contains_key(path);
            if !is_watched && !state.change(dir, self.limits, |counts| counts.watched += path.len())
            {
                return None;
            }
            *state.paths.entry(Arc::clone(path)).or_default() += 1;
        }
        Some(OnDrop(move || self.unwatch(dir, path)))
    }

    fn unwatch(&self, dir: &str, path: &Arc<str>) {
        let mut state = self.state.lock();
        let Some(watchers) = state.paths.get_mut(path) else { return };
        *watchers -= 1;
        if *watchers == 0 {
            state.paths.remove(path);
            let bytes = path.len();
            state.change(dir, self.limits, |counts| counts.watched -= bytes);
        }
    }
}

impl State {
    /// Changes a queue's counts. Returns `false` if that needs more room than there is.
    fn change(&mut self, dir: &str, limits: Bytes, change: impl FnOnce(&mut Counts)) -> bool {
        let before = self.queues.get(dir).copied().unwrap_or_default();
        let mut after = before;
        change(&mut after);
        let used = Bytes {
            watched: self.used.watched - before.bytes(dir) + after.bytes(dir),
            keys: self.used.keys - before.keys(dir) + after.keys(dir),
        };
        if used.watched > self.used.watched.max(limits.watched)
            || used.keys > self.used.keys.max(limits.keys)
        {
            return false;
        }
        self.used = used;
        match self.queues.get_mut(dir) {
            Some(_) if after == Counts::default() => drop(self.queues.remove(dir)),
            Some(counts) => *counts = after,
            None => drop(self.queues.insert(dir.into(), after)),
        }
        true
    }
}

impl Counts {
    fn bytes(self, dir: &str) -> usize {
        let path = dir.len() + NAME;
        let beforehand = if self.attempts > 0 { path } else { 0 };
        let visited = if self.visits > 0 { dir.len() + path } else { 0 };
        beforehand.max(self.watched) + FOLLOWER * self.attempts.saturating_sub(1) + visited
    }

    /// Returns the bytes of the keys that these attempts have or may create.
    fn keys(self, dir: &str) -> usize {
        self.attempts * (dir.len() + NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step, with the name of its queue or path.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        Attempt(&'static str),
        Unclaim(&'static str),
        Visit(&'static str),
        Unvisit(&'static str),
        Watch(&'static str),
        Unwatch(&'static str),
    }

    use Act::{Attempt, Unclaim, Unvisit, Unwatch, Visit, Watch};

    fn queue(name: &str) -> Queue {
        Queue::new("/ns", name).unwrap()
    }

    /// Returns a watched path of an own key's length: `a/7` is key 7 in queue `a`.
    fn path(of: &str) -> Arc<str> {
        format!("/ns/{of:0<34}").into()
    }

    #[test]
    fn room_is_for_queues_and_for_distinct_paths() {
        // The length for a queue with a name of one letter.
        let directory = "/ns/a".len();
        let (key, own) = (directory + NAME, path("a/1").len());
        let limit = 2 * key + 2 * FOLLOWER;
        let budget = WatchBudget::new(limit, usize::MAX);
        let names =
            ["a/1", "a/2", "a/3", "b/1", "c/1", "c/2"].map(|of| (of, queue(&of[..1]), path(of)));
        let mut leaves: Vec<(&str, _)> = Vec::new();
        for (step, (act, fits, used)) in [
            (Attempt("a"), true, key),
            (Attempt("a"), true, key + FOLLOWER),
            (Attempt("b"), true, 2 * key + FOLLOWER),
            // The whole budget can be used.
            (Attempt("b"), true, limit),
            (Attempt("a"), false, limit),
            (Unclaim("b"), true, 2 * key + FOLLOWER),
            (Attempt("c"), false, 2 * key + FOLLOWER),
            // The first watch of a queue is reserved.
            (Watch("a/1"), true, 2 * key + FOLLOWER),
            (Watch("b/1"), true, 2 * key + FOLLOWER),
            // A path that is already watched costs nothing more.
            (Watch("a/1"), true, 2 * key + FOLLOWER),
            // A second watch uses what the first has left of the reserved room, and more.
            (Watch("a/2"), true, key + 2 * own + FOLLOWER),
            (Watch("a/3"), false, key + 2 * own + FOLLOWER),
            (Unwatch("a/1"), true, key + 2 * own + FOLLOWER),
            (Unwatch("a/1"), true, 2 * key + FOLLOWER),
            (Watch("a/3"), true, key + 2 * own + FOLLOWER),
            // Watches may outlast their attempts, and then count by themselves.
            (Unclaim("b"), true, own + 2 * own + FOLLOWER),
            (Unwatch("b/1"), true, 2 * own + FOLLOWER),
            (Unclaim("a"), true, 2 * own),
            (Unclaim("a"), true, 2 * own),
            (Unwatch("a/2"), true, own),
            (Unwatch("a/3"), true, 0),
            // A visit watches the queue's directory and one key in it.
            (Visit("a"), true, directory + key),
            (Visit("a"), true, directory + key),
            (Attempt("a"), true, directory + 2 * key),
            (Unclaim("a"), true, directory + key),
            (Unvisit("a"), true, directory + key),
            (Unvisit("a"), true, 0),
            // Watches without an attempt have no reserved room.
            (Watch("c/1"), true, own),
            (Watch("c/2"), true, 2 * own),
            (Unwatch("c/1"), true, own),
            (Unwatch("c/2"), true, 0),
        ]
        .into_iter()
        .enumerate()
        {
            let done = match act {
                Attempt(name) => budget.enter(&queue(name)),
                Visit(name) => budget.visit(&queue(name)),
                Unclaim(name) => {
                    budget.left(&queue(name));
                    true
                }
                Unvisit(name) => {
                    budget.unvisit(&queue(name));
                    true
                }
                Watch(name) => {
                    let (of, queue, path) = names.iter().find(|(of, ..)| *of == name).unwrap();
                    let leave = budget.watch(queue.dir(), path);
                    let fits = leave.is_some();
                    leaves.extend(leave.map(|leave| (*of, leave)));
                    fits
                }
                Unwatch(name) => {
                    let at = leaves.iter().position(|(of, _)| *of == name).unwrap();
                    drop(leaves.remove(at));
                    true
                }
            };
            let now = budget.state.lock().used.watched;
            assert_eq!((done, now), (fits, used), "step {step}, {act:?}");
            assert!(used <= limit);
        }
        assert!(budget.state.lock().queues.is_empty() && budget.state.lock().paths.is_empty());
    }

    /// Most own keys follow each other and have few watches.
    #[test]
    fn keys_count_in_full() {
        let key = "/ns/a".len() + NAME;
        let budget = WatchBudget::new(usize::MAX, 3 * key + 1);
        let [a, b] = ["a", "b"].map(queue);
        assert!(budget.enter(&a) && budget.enter(&a) && budget.enter(&b));
        assert!(!budget.enter(&a) && !budget.enter(&b), "no room for a fourth");
        // A visit has no key.
        assert!(budget.visit(&a));
        budget.left(&a);
        assert!(budget.enter(&b) && !budget.enter(&b));
        for queue in [&a, &b, &b] {
            budget.left(queue);
        }
        budget.unvisit(&a);
        assert_eq!(budget.state.lock().used, Bytes::default());
    }

    #[test]
    fn without_a_budget_nothing_is_counted() {
        let budget = WatchBudget::new(usize::MAX, usize::MAX);
        let (queue, path) = (queue("a"), path("a/1"));
        assert!(budget.enter(&queue) && budget.visit(&queue));
        let leave = budget.watch(queue.dir(), &path);
        assert!(
            leave.is_some()
                && budget.state.lock().queues.is_empty()
                && budget.state.lock().paths.is_empty()
        );
    }
}
