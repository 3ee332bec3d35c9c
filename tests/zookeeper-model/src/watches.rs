//! The watches on paths (`WatchManager`, `WatchStats`).

use std::collections::{BTreeMap, BTreeSet};

use crate::tree;

/// How a connection watches a path: once, or persistently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standard = 1,
    Persistent = 2,
    /// Including all nodes below.
    Recursive = 4,
}

/// The watches of one kind: on data and existence, or on children.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// By path and connection, with a bit for each mode.
    paths: BTreeMap<String, BTreeMap<u64, u8>>,
}

impl Watches {
    pub(crate) fn add(&mut self, path: &str, connection: u64, mode: Mode) {
        let modes = self.paths.entry(path.to_owned()).or_default().entry(connection).or_default();
        *modes |= mode as u8;
    }

    /// Returns `true` if the connection watches the path, in this mode or in any.
    pub(crate) fn has(&self, path: &str, connection: u64, mode: Option<Mode>) -> bool {
        let modes = self.paths.get(path).and_then(|watchers| watchers.get(&connection));
        modes.is_some_and(|modes| mode.is_none_or(|mode| modes & mode as u8 != 0))
    }

    /// Removes a watch; returns `false` if there was none.
    pub(crate) fn remove(&mut self, path: &str, connection: u64, mode: Option<Mode>) -> bool {
        let there = self.has(path, connection, mode);
        if let Some(watchers) = self.paths.get_mut(path) {
            let modes = watchers.get(&connection).copied().unwrap_or(0);
            match modes & !mode.map_or(u8::MAX, |mode| mode as u8) {
                0 => _ = watchers.remove(&connection),
                rest => _ = watchers.insert(connection, rest),
            }
            if watchers.is_empty() {
                self.paths.remove(path);
            }
        }
        there
    }

    pub(crate) fn disconnect(&mut self, connection: u64) {
        self.paths.retain(|_, watchers| {
            watchers.remove(&connection);
            !watchers.is_empty()
        });
    }

    /// Returns the connections to notify of a change of a path, and removes its one-time watches.
    pub(crate) fn trigger(&mut self, path: &str) -> BTreeSet<u64> {
        let mut notified = BTreeSet::new();
        if let Some(watchers) = self.paths.get_mut(path) {
            notified.extend(watchers.keys());
            watchers.retain(|_, modes| {
                *modes &= !(Mode::Standard as u8);
                *modes != 0
            });
            if watchers.is_empty() {
                self.paths.remove(path);
            }
        }
        let mut above = path;
        while above != "/" {
            above = tree::split(above).0;
            let watchers = self.paths.get(above).into_iter().flatten();
            let recursive = watchers.filter(|(_, modes)| *modes & Mode::Recursive as u8 != 0);
            notified.extend(recursive.map(|(connection, _)| connection));
        }
        notified
    }

    pub(crate) fn by_path(&self) -> impl Iterator<Item = (&String, Vec<u64>)> {
        self.paths.iter().map(|(path, watchers)| (path, watchers.keys().copied().collect()))
    }

    /// Returns the paths that each connection watches.
    pub(crate) fn by_connection(&self) -> BTreeMap<u64, Vec<&String>> {
        let mut connections = BTreeMap::<u64, Vec<&String>>::new();
        for (path, watchers) in &self.paths {
            for connection in watchers.keys() {
                connections.entry(*connection).or_default().push(path);
            }
        }
        connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_persistent_watches_survive_events() {
        let mut watches = Watches::default();
        watches.add("/a", 1, Mode::Standard);
        watches.add("/a", 2, Mode::Persistent);
        watches.add("/a", 2, Mode::Standard);
        watches.add("/", 3, Mode::Recursive);
        watches.add("/", 4, Mode::Persistent);
        assert_eq!(watches.trigger("/a"), BTreeSet::from([1, 2, 3]));
        assert_eq!(watches.trigger("/a"), BTreeSet::from([2, 3]));
        assert_eq!(watches.trigger("/a/b"), BTreeSet::from([3]));
        assert!(!watches.remove("/a", 2, Some(Mode::Standard)));
        assert!(watches.remove("/a", 2, None));
        watches.disconnect(3);
        assert_eq!(watches.trigger("/a"), BTreeSet::new());
    }
}
