//! Replays histories of the simulation (`--trace`): is there a path through the model in which the
//! same happens to the same keys?
//!
//! Steps that are invisible from outside (a look, a watch, a tick, messages under way) may happen
//! in between at any time. A grant is visible when its caller learns of it, which may be later.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
};

use stateright::Model;

use crate::check::Histories;

use super::{
    model::{Bounds, Lock, Step},
    state::{CLIENTS, Stage, State},
};

/// What happened to a key, by its number; keys are numbered in the order in which they join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// By an attempt, which is a client of its own here.
    Put(usize, u8),
    Granted(u8),
    Left(u8),
    /// By an operator.
    Deleted(u8),
    Expired(u8),
    /// Its client closed the session.
    Closed(u8),
}

/// Returns `true` if the model allows all histories of a file; prints the others.
pub(crate) fn all(file: &Path) -> Result<bool, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let (mut histories, mut count) = (BTreeMap::new(), 0);
    for part in text.split("\n\n").map(str::trim).filter(|part| !part.is_empty()) {
        let (of, lines) = part.split_once('\n').unwrap_or((part, ""));
        let events = lines.lines().map(Event::read).collect::<Option<Vec<_>>>();
        let events = events.ok_or_else(|| format!("not a history: {part}"))?;
        histories.entry(events).or_insert_with(|| of.to_owned());
        count += 1;
    }
    let (mut strange, mut most) = (0, 0);
    for (events, of) in &histories {
        match follow(events) {
            Ok(states) => most = most.max(states),
            Err(at) => {
                strange += 1;
                println!(
                    "{of}: impossible in the model: {:?} after {:?}",
                    events[at],
                    &events[..at]
                );
            }
        }
    }
    println!(
        "{count} histories, {} distinct: {strange} impossible in the model; at most {most} states",
        histories.len()
    );
    Ok(strange == 0)
}

/// How many faults and renewals may happen in between, the fewest first.
const SPARE: [(u8, u8); 7] = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2), (2, 1)];

/// Returns the largest number of states that the model can be in after the events, or the first
/// event that it cannot follow.
fn follow(events: &[Event]) -> Result<usize, usize> {
    let mut furthest = 0;
    for (faults, renewals) in SPARE {
        match follow_within(events, faults, renewals) {
            Ok(states) => return Ok(states),
            Err(at) => furthest = furthest.max(at),
        }
    }
    Err(furthest)
}

fn follow_within(events: &[Event], faults: u8, renewals: u8) -> Result<usize, usize> {
    let count = |of: fn(&Event) -> bool| {
        u8::try_from(events.iter().filter(|event| of(event)).count()).unwrap_or(u8::MAX)
    };
    // A ticket may come again, as another attempt.
    let attempts = count(|event| matches!(event, Event::Put(..)));
    let deletes = count(|event| matches!(event, Event::Deleted(_)));
    let lock =
        Histories::<Lock>::within(Bounds { ttl: 2, attempts, faults, deletes, renewals }, None);
    let (mut states, mut most) = (lock.init_states(), 0);
    for (at, event) in events.iter().enumerate() {
        states = after(&lock, states, *event);
        most = most.max(states.len());
        if states.is_empty() {
            return Err(at);
        }
    }
    Ok(most)
}

/// Returns all states that the model can reach with an event, from any of the given states.
fn after(lock: &Histories<Lock>, states: Vec<State>, event: Event) -> Vec<State> {
    let mut known: HashSet<_> = states.iter().cloned().collect();
    let (mut open, mut reached, mut steps) = (states, HashSet::new(), Vec::new());
    while let Some(state) = open.pop() {
        reached.extend(event.at_once(&state));
        lock.actions(&state, &mut steps);
        for step in steps.drain(..) {
            let Some(next) = lock.next_state(&state, step) else { continue };
            if next.queue == state.queue {
                if known.insert(next.clone()) {
                    open.push(next);
                }
            } else if event.is(&state, step, &next) {
                reached.insert(next);
            }
        }
    }
    reached.into_iter().collect()
}

impl Event {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (what, number) = (words.next()?, words.next()?);
        let key = number.parse().ok();
        match what {
            "put" => {
                let attempt: usize = number.parse().ok()?;
                let key = words.next()?.parse().ok()?;
                (1..=CLIENTS).contains(&attempt).then_some(Self::Put(attempt, key))
            }
            "granted" => key.map(Self::Granted),
            "left" => key.map(Self::Left),
            "deleted" => key.map(Self::Deleted),
            "expired" => key.map(Self::Expired),
            "closed" => key.map(Self::Closed),
            _ => None,
        }
    }

    /// Returns the state after an event that is no step of the model.
    fn at_once(self, state: &State) -> Option<State> {
        let of = |key: u8| state.queue.iter().find(|there| there.n == key);
        match self {
            Self::Granted(key) => {
                let holds =
                    |stage: Stage| matches!(stage, Stage::Holding { own, .. } if own == key);
                state.clients.iter().any(|client| holds(client.stage)).then(|| state.clone())
            }
            // Another key of its session expired a moment ago.
            Self::Expired(key) if of(key).is_none() => Some(state.clone()),
            // The client knows of it, and has given up its attempt.
            Self::Closed(key) => {
                let mut next = state.clone();
                if let Some(client) = of(key).map(|key| key.client) {
                    let over = &mut next.clients[client];
                    (over.stage, over.expired) = (Stage::Over, true);
                    (over.late, over.again) = (None, None);
                    next.queue.retain(|key| key.client != client);
                }
                Some(next)
            }
            _ => None,
        }
    }

    /// Returns `true` if this step is the event.
    fn is(self, state: &State, step: Step, next: &State) -> bool {
        let gone = |key: u8| {
            state.queue.iter().any(|there| there.n == key)
                && !next.queue.iter().any(|there| there.n == key)
        };
        match self {
            Self::Put(attempt, key) => {
                next.queue.last().is_some_and(|new| new.n == key && new.client + 1 == attempt)
                    && next.queue.len() > state.queue.len()
            }
            Self::Granted(_) | Self::Closed(_) => false,
            Self::Left(key) => matches!(step, Step::Leave(_) | Step::LookAgain(_)) && gone(key),
            Self::Deleted(key) => step == Step::Delete(key),
            Self::Expired(key) => matches!(step, Step::Expire(_)) && gone(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<Event> {
        text.split(", ").map(|line| Event::read(line).expect(line)).collect()
    }

    #[test]
    fn allowed_histories_are_accepted() {
        for text in [
            "put 1 1, granted 1, put 2 2, left 1, granted 2, left 2",
            "put 1 1, put 2 2, put 3 3, left 2, left 1, granted 3, left 3",
            // Its owner may not know of it yet.
            "put 1 1, granted 1, put 2 2, deleted 1, granted 2, left 2",
            "put 1 1, granted 1, put 2 2, expired 1, granted 2, left 2",
            "put 1 1, put 2 2, closed 1, granted 2, left 2",
            // The request was applied late, and its key is searched for.
            "put 1 1, put 2 2, left 1, put 1 3, granted 2, left 3, left 2",
        ] {
            assert!(follow(&events(text)).is_ok(), "{text}");
        }
    }

    #[test]
    fn forbidden_histories_are_rejected() {
        for (text, at) in [
            ("put 1 1, put 2 2, granted 2, left 1, left 2", 2),
            ("put 1 1, put 2 2, granted 1, granted 2", 3),
            ("put 1 1, put 2 2, put 3 3, left 2, granted 3", 4),
            ("put 1 1, put 2 2, left 2, granted 2", 3),
        ] {
            assert_eq!(follow(&events(text)).err(), Some(at), "{text}");
        }
    }
}
