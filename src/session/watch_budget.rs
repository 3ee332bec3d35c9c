//! How much a session may watch: zookeeper-client cannot restore more after a reconnect.
//!
//! What counts are the bytes of the watched paths, each path once, however many wait for its news.
//! An attempt takes room for one watch in its queue beforehand, so that the first one that waits
//! there, or the only holder, never lacks it; the queue's watches fill that room first. Where there
//! is no room for a watch, a look each second ([`NO_ROOM`]) has to do.

use std::{collections::HashMap, sync::Arc, time::Duration};

use crate::{backend::name::Queue, runtime::mutex::Mutex};

/// How long one for whose watch there is no room does without.
pub(crate) const NO_ROOM: Duration = Duration::from_secs(1);

/// What follows the directory in the longest key that is watched, Curator's.
const NAME: usize = 64;
/// What one more attempt takes in a queue where the session has an attempt: most follow another one
/// of the same session, whose end needs no watch. Not nothing, so that room is left for those that
/// follow a stranger.
const FOLLOWER: usize = 20;

/// The bytes of paths that one session watches, or may come to watch.
#[derive(Debug)]
pub(crate) struct WatchBudget {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// What there is for each queue, by its directory.
    queues: HashMap<Arc<str>, Counts>,
    /// How many have leave to watch each path.
    paths: HashMap<Arc<str>, usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    attempts: usize,
    visits: usize,
    /// Bytes of the paths that are watched.
    watched: usize,
}

/// Leave to watch a path; given back when dropped.
#[derive(Debug)]
pub(crate) struct WatchPermit<'a> {
    budget: &'a WatchBudget,
    dir: &'a str,
    path: &'a Arc<str>,
}

impl WatchBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, state: Mutex::default() }
    }

    fn is_endless(&self) -> bool {
        self.limit == usize::MAX
    }

    /// Makes room for one more attempt, if there is.
    pub(crate) fn enter(&self, queue: &Queue) -> bool {
        self.change(queue.dir(), |counts| counts.attempts += 1)
    }

    pub(crate) fn left(&self, queue: &Queue) {
        self.change(queue.dir(), |counts| counts.attempts = counts.attempts.saturating_sub(1));
    }

    /// Makes room to watch a queue as a whole, and the first key in it: once for all that do.
    pub(crate) fn visit(&self, queue: &Queue) -> bool {
        self.change(queue.dir(), |counts| counts.visits += 1)
    }

    pub(crate) fn unvisit(&self, queue: &Queue) {
        self.change(queue.dir(), |counts| counts.visits = counts.visits.saturating_sub(1));
    }

    fn change(&self, dir: &str, change: impl FnOnce(&mut Counts)) -> bool {
        self.is_endless() || self.state.lock().change(dir, self.limit, change)
    }

    /// Asks to watch a path in a queue's directory.
    pub(crate) fn watch<'a>(&'a self, dir: &'a str, path: &'a Arc<str>) -> Option<WatchPermit<'a>> {
        if !self.is_endless() {
            let mut state = self.state.lock();
            let is_watched = state.paths.contains_key(path);
            if !is_watched && !state.change(dir, self.limit, |counts| counts.watched += path.len())
            {
                return None;
            }
            *state.paths.entry(Arc::clone(path)).or_default() += 1;
        }
        Some(WatchPermit { budget: self, dir, path })
    }
}

impl State {
    /// Changes what a queue takes; `false`: that would be more, and there is no room for it.
    fn change(&mut self, dir: &str, limit: usize, change: impl FnOnce(&mut Counts)) -> bool {
        let before = self.queues.get(dir).copied().unwrap_or_default();
        let mut after = before;
        change(&mut after);
        let used = self.used - before.bytes(dir) + after.bytes(dir);
        if used > self.used && used > limit {
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
}

impl Drop for WatchPermit<'_> {
    fn drop(&mut self) {
        if self.budget.is_endless() {
            return;
        }
        let mut state = self.budget.state.lock();
        let Some(watchers) = state.paths.get_mut(self.path) else { return };
        *watchers -= 1;
        if *watchers == 0 {
            state.paths.remove(self.path);
            let bytes = self.path.len();
            state.change(self.dir, self.budget.limit, |counts| counts.watched -= bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens, to the queue or the path of this name.
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

    /// A watched path: `a/7` is the key 7 in the queue `a`. As long as a key of ours is.
    fn path(of: &str) -> Arc<str> {
        format!("/ns/{of:0<34}").into()
    }

    #[test]
    fn room_is_for_queues_and_for_distinct_paths() {
        // Of a queue with a name of one letter.
        let directory = "/ns/a".len();
        let (key, own) = (directory + NAME, path("a/1").len());
        let limit = 2 * key + 2 * FOLLOWER;
        let budget = WatchBudget::new(limit);
        let names =
            ["a/1", "a/2", "a/3", "b/1", "c/1", "c/2"].map(|of| (of, queue(&of[..1]), path(of)));
        let mut leaves: Vec<(&str, WatchPermit<'_>)> = Vec::new();
        for (step, (act, fits, used)) in [
            (Attempt("a"), true, key),
            (Attempt("a"), true, key + FOLLOWER),
            (Attempt("b"), true, 2 * key + FOLLOWER),
            // All of the room is room.
            (Attempt("b"), true, limit),
            (Attempt("a"), false, limit),
            (Unclaim("b"), true, 2 * key + FOLLOWER),
            (Attempt("c"), false, 2 * key + FOLLOWER),
            // The first watch of a queue is paid for.
            (Watch("a/1"), true, 2 * key + FOLLOWER),
            (Watch("b/1"), true, 2 * key + FOLLOWER),
            // A path that is watched costs nothing more.
            (Watch("a/1"), true, 2 * key + FOLLOWER),
            // A second one takes what the first has left, and the rest.
            (Watch("a/2"), true, key + 2 * own + FOLLOWER),
            (Watch("a/3"), false, key + 2 * own + FOLLOWER),
            (Unwatch("a/1"), true, key + 2 * own + FOLLOWER),
            (Unwatch("a/1"), true, 2 * key + FOLLOWER),
            (Watch("a/3"), true, key + 2 * own + FOLLOWER),
            // Watches may outlast their attempts: those count as they are.
            (Unclaim("b"), true, own + 2 * own + FOLLOWER),
            (Unwatch("b/1"), true, 2 * own + FOLLOWER),
            (Unclaim("a"), true, 2 * own),
            (Unclaim("a"), true, 2 * own),
            (Unwatch("a/2"), true, own),
            (Unwatch("a/3"), true, 0),
            // A look at a queue as a whole watches its directory, and a key in it.
            (Visit("a"), true, directory + key),
            (Visit("a"), true, directory + key),
            (Attempt("a"), true, directory + 2 * key),
            (Unclaim("a"), true, directory + key),
            (Unvisit("a"), true, directory + key),
            (Unvisit("a"), true, 0),
            // Watches without an attempt have nothing beforehand.
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
                    leaves.remove(at);
                    true
                }
            };
            assert_eq!((done, budget.state.lock().used), (fits, used), "step {step}, {act:?}");
            assert!(used <= limit);
        }
        assert!(budget.state.lock().queues.is_empty() && budget.state.lock().paths.is_empty());
    }

    #[test]
    fn without_a_budget_nothing_is_counted() {
        let (budget, queue, path) = (WatchBudget::new(usize::MAX), queue("a"), path("a/1"));
        assert!(budget.enter(&queue) && budget.visit(&queue));
        let leave = budget.watch(queue.dir(), &path);
        assert!(
            leave.is_some()
                && budget.state.lock().queues.is_empty()
                && budget.state.lock().paths.is_empty()
        );
    }
}
