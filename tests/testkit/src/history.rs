//! Checks the history that workers report: exclusion held, and tokens rose.
//!
//! A worker reports `grant` after a grant, and `release` before it releases. It reports `lost` if
//! the guard is invalid by then, `error` with a text, and `done` when it has finished its work.

use std::collections::{BTreeMap, HashSet};

use crate::event::Event;

/// The events and their workers' numbers, in the order in which they were read.
pub type Log = Vec<(usize, Event)>;

/// The time during which a worker held a lock: from after the grant to before the release.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    /// The worker's number.
    pub worker: usize,
    /// When it was granted.
    pub from: u64,
    /// When it was released. For a killed worker, the earliest possible time of its end.
    pub to: u64,
    /// The details of the grant.
    pub what: Grant,
}

/// What is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The worker's task that holds the lock. Details begin with it if there are several tasks.
    pub task: u64,
    /// The fencing token.
    pub token: u64,
    /// How much of the total room this holder takes.
    pub room: u32,
}

/// The result of reading a log.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All holds, in the order of the grants.
    pub holds: Vec<Hold>,
    /// The violations found, as texts.
    pub violations: Vec<String>,
}

impl History {
    /// Matches grants and releases. `grant` parses the details of a grant event.
    pub fn read(log: &Log, names: &[String], grant: impl Fn(&str) -> Option<Grant>) -> Self {
        let (mut open, mut killed, mut read) = (BTreeMap::new(), BTreeMap::new(), Self::default());
        for (worker, event) in log {
            let (worker, at, name) = (*worker, event.at, &names[*worker]);
            match (event.word.as_str(), grant(&event.rest)) {
                ("grant", Some(what)) => {
                    let hold = Hold { worker, from: at, to: at, what };
                    if open.insert((worker, what.task), hold).is_some() {
                        read.violations.push(format!("{name} was granted twice what it holds"));
                    }
                }
                ("release", _) => match open.remove(&(worker, first_number(&event.rest))) {
                    Some(hold) => read.holds.push(Hold { to: at, ..hold }),
                    None => read.violations.push(format!("{name} released what it did not hold")),
                },
                ("killed", _) => drop(killed.insert(worker, at)),
                ("lost" | "error" | "grant", _) => read.violations.push(format!("{name} {event}")),
                _ => {}
            }
        }
        for ((worker, _), hold) in open {
            let killed = killed.get(&worker);
            if killed.is_none() {
                read.violations.push(format!("{} never released what it held", names[worker]));
            }
            let to = killed.copied().unwrap_or(hold.from).max(hold.from);
            read.holds.push(Hold { to, ..hold });
        }
        read.holds.sort_unstable_by_key(|hold| hold.from);
        read
    }

    /// Checks that the holders never exceed the room.
    pub fn check_room(&mut self, room: u32, names: &[String]) {
        let mut held: Vec<&Hold> = Vec::new();
        for hold in &self.holds {
            held.retain(|earlier| earlier.to >= hold.from);
            held.push(hold);
            let taken: u64 = held.iter().map(|hold| u64::from(hold.what.room)).sum();
            if taken > room.into() {
                let holders = held.iter().map(|hold| names[hold.worker].as_str());
                let holders = holders.collect::<Vec<_>>().join(", ");
                let what = format!("{taken} of {room} held at once at {}: {holders}", hold.from);
                self.violations.push(what);
            }
        }
    }

    /// Checks that the token of an exclusive holder is above those of all earlier holders, and
    /// below those of all later ones.
    pub fn check_tokens(&mut self, room: u32) {
        let Self { holds, violations } = self;
        let what = |index: usize| holds[index].what;
        let tokens = (0..holds.len()).map(|it| (what(it).token, what(it).room == room));
        for (late, before) in falling(tokens) {
            let token = what(late).token;
            violations.push(format!("the token {token} came after {before}"));
        }
    }
}

/// Finds tokens that do not rise. `tokens` are in the order of the grants, each with whether its
/// holder is alone.
///
/// Returns the index of each such token, with the token that it should exceed. If one of two
/// holders is alone, the later token must be greater. Holders that share a lock may return in an
/// order other than that of their joins, and their tokens must differ.
pub fn falling(tokens: impl IntoIterator<Item = (u64, bool)>) -> Vec<(usize, u64)> {
    let (mut seen, mut greatest, mut greatest_alone) = (HashSet::new(), 0, 0);
    let mut falling = Vec::new();
    for (place, (token, alone)) in tokens.into_iter().enumerate() {
        let floor = if alone { greatest } else { greatest_alone };
        if token <= floor {
            falling.push((place, floor));
        } else if !seen.insert(token) {
            falling.push((place, token));
        }
        greatest = greatest.max(token);
        if alone {
            greatest_alone = greatest_alone.max(token);
        }
    }
    falling
}

/// Returns how many grants each worker had when the first one was done.
pub fn shares(log: &Log, workers: usize) -> Vec<usize> {
    let events = |word| log.iter().filter(move |(_, event)| event.word == word);
    let done = events("done").map(|(_, event)| event.at).min().unwrap_or(u64::MAX);
    let mut shares = vec![0; workers];
    events("grant")
        .filter(|(_, event)| event.at <= done)
        .for_each(|(worker, _)| shares[*worker] += 1);
    shares
}

fn first_number(text: &str) -> u64 {
    text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(lines: &[(usize, &str)]) -> Log {
        lines.iter().filter_map(|(worker, line)| Some((*worker, Event::parse(line)?))).collect()
    }

    fn names() -> Vec<String> {
        ["a", "b", "c"].map(str::to_owned).to_vec()
    }

    /// Parses a grant's task, token and room.
    fn grant(rest: &str) -> Option<Grant> {
        let numbers: Vec<u64> = rest.split(' ').map_while(|it| it.parse().ok()).collect();
        let [task, token, room] = numbers[..] else { return None };
        Some(Grant { task, token, room: room.try_into().ok()? })
    }

    /// Returns the violations in a log with this much room.
    fn wrong(lines: &[(usize, &str)], room: u32) -> Vec<String> {
        let mut history = History::read(&log(lines), &names(), grant);
        history.check_room(room, &names());
        history.check_tokens(room);
        history.violations
    }

    #[test]
    fn sequential_holds_pass() {
        let turns = [
            (0, "grant 1 0 1 1"),
            (0, "release 2"),
            (1, "grant 3 0 2 1"),
            (1, "killed 4"),
            (0, "grant 5 0 3 1"),
            (0, "release 6"),
        ];
        assert_eq!(wrong(&turns, 1), [""; 0]);
    }

    #[test]
    fn overlaps_are_found_whatever_the_order_of_lines() {
        let two = [(1, "grant 3 0 2 1"), (1, "release 5"), (0, "grant 1 0 1 1"), (0, "release 4")];
        assert_eq!(wrong(&two, 1), ["2 of 1 held at once at 3: a, b"]);
        assert_eq!(wrong(&two, 2), [""; 0]);
        // Two short holds during a long one.
        let three = [
            (0, "grant 1 0 1 2"),
            (1, "grant 2 0 2 1"),
            (1, "release 3"),
            (2, "grant 4 0 3 1"),
            (2, "release 5"),
            (0, "release 9"),
        ];
        assert_eq!(wrong(&three, 3), [""; 0]);
        assert_eq!(wrong(&three, 2).len(), 2);
    }

    #[test]
    fn tasks_of_one_worker_hold_independently() {
        let two =
            [(0, "grant 1 0 1 1"), (0, "grant 2 1 2 1"), (0, "release 3 1"), (0, "release 4 0")];
        assert_eq!(wrong(&two, 2), [""; 0]);
        assert_eq!(wrong(&two, 1), ["2 of 1 held at once at 2: a, a"]);
        let twice = [(0, "grant 1 0 1 1"), (0, "grant 2 0 2 1"), (0, "release 3 0")];
        assert_eq!(wrong(&twice, 2), ["a was granted twice what it holds"]);
    }

    #[test]
    fn tokens_that_do_not_rise_are_found() {
        let turns =
            [(0, "grant 1 0 6 1"), (0, "release 2"), (1, "grant 3 0 5 1"), (1, "release 4")];
        assert_eq!(wrong(&turns, 1), ["the token 5 came after 6"]);
        assert_eq!(falling([(1, true), (2, false), (2, false)]), [(2, 2)]);
    }

    #[test]
    fn readers_are_ordered_only_towards_writers() {
        let mut readers =
            vec![(0, "grant 1 0 6 1"), (1, "grant 2 0 5 1"), (0, "release 3"), (1, "release 4")];
        assert_eq!(wrong(&readers, 9), [""; 0]);
        readers.extend([(0, "grant 5 0 4 9"), (0, "release 6")]);
        assert_eq!(wrong(&readers, 9), ["the token 4 came after 6"]);
    }

    #[test]
    fn losses_and_missing_releases_are_found() {
        let lines = [(0, "grant 1 0 1 1"), (0, "lost 2"), (0, "release 3"), (1, "grant 4 0 2 1")];
        assert_eq!(wrong(&lines, 1), ["a lost 2 ", "b never released what it held"]);
        assert_eq!(wrong(&[(0, "release 1"), (0, "error 2 no")], 1).len(), 2);
    }

    #[test]
    fn killed_worker_holds_until_its_kill() {
        let killed = |at| {
            let killed = format!("killed {at}");
            let next = [(0, "grant 7 0 6 1"), (0, "release 8")];
            wrong(&[&[(1, "grant 1 0 5 1"), (1, &killed)], &next[..]].concat(), 1).len()
        };
        assert_eq!([6, 7].map(killed), [0, 1]);
    }

    #[test]
    fn shares_count_until_the_first_is_done() {
        let lines = [
            (0, "grant 1 k"),
            (0, "release 2"),
            (1, "grant 3 k"),
            (1, "release 4"),
            (1, "done 5"),
            (0, "grant 6 k"),
        ];
        assert_eq!(shares(&log(&lines), 2), [1, 1]);
    }
}
