//! Checks what the clients held.

use std::collections::HashSet;

use distlock_testkit::{
    Result,
    event::Event,
    history::{Grant, History, Log},
};

use crate::client::LOCKS;

/// What was wrong in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) grants: u64,
    /// The grants of locks of which another guard was still valid.
    pub(crate) overlaps: u64,
    /// The tokens that were issued before.
    pub(crate) twice: u64,
    /// The other tokens below an earlier one.
    pub(crate) falling: u64,
}

/// Checks each lock on its own. Fails if the events make no sense.
pub(crate) fn check(events: &[(usize, Event)]) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    let clients = events.iter().map(|(client, _)| client + 1).max().unwrap_or(0);
    let names: Vec<_> = (0..clients).map(|client| format!("client {client}")).collect();
    for lock in LOCKS {
        let words = ["grant", "release", "killed"];
        let concerns =
            |event: &Event| event.word == "killed" || event.rest.split(' ').next() == Some(lock);
        let log: Log = events
            .iter()
            .filter(|(_, event)| words.contains(&event.word.as_str()) && concerns(event))
            .cloned()
            .collect();
        let mut history = History::read(&log, &names, |details| {
            let token = details.split(' ').nth(1)?.parse().ok()?;
            Some(Grant { task: 0, token, room: 1 })
        });
        if !history.violations.is_empty() {
            return Err(format!("{:?}", history.violations).into());
        }
        history.check_room(1, &names);
        verdict.overlaps += history.violations.len() as u64;
        history.violations.clear();
        history.check_tokens(1);
        let mut seen = HashSet::new();
        let tokens = history.holds.iter().map(|hold| hold.what.token);
        let twice = tokens.filter(|token| !seen.insert(*token)).count();
        verdict.twice += twice as u64;
        verdict.falling += (history.violations.len() - twice) as u64;
        verdict.grants += history.holds.len() as u64;
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(lines: &[(usize, &str)]) -> Verdict {
        let events = lines.iter().map(|(client, line)| (*client, Event::parse(line).expect("one")));
        check(&events.collect::<Vec<_>>()).expect("a history")
    }

    #[test]
    fn locks_are_checked_on_their_own() {
        let lines = [
            (0, "grant 1 red 5"),
            (1, "grant 2 blue 5"),
            (1, "release 3 blue 5"),
            (2, "refused 3 no server"),
            (0, "release 4 red 5"),
            (1, "grant 5 red 6"),
            (1, "killed 6 "),
        ];
        assert_eq!(verdict(&lines), Verdict { grants: 3, ..Verdict::default() });
    }

    #[test]
    fn violations_are_counted_by_kind() {
        let lines = [
            (0, "grant 1 red 5"),
            (1, "grant 2 red 5"),
            (1, "release 3 red 5"),
            (0, "release 4 red 5"),
            (1, "grant 5 red 4"),
            (1, "release 6 red 4"),
            (1, "grant 7 red 6"),
            (1, "release 8 red 6"),
        ];
        assert_eq!(verdict(&lines), Verdict { grants: 4, overlaps: 1, twice: 1, falling: 1 });
    }

    #[test]
    fn hold_without_end_is_an_error() {
        let event = Event::parse("grant 1 red 5").expect("an event");
        assert!(check(&[(0, event)]).is_err());
    }
}
