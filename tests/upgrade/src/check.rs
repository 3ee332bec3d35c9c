//! Checks the messages of a rollout's workers.

use std::collections::BTreeSet;

use distlock_testkit::{
    event::Event,
    history::{Grant, History, Hold},
};

use crate::fleet::Seen;

/// With equal numbers of tasks, first come, first served gives equal shares. Neither build may get
/// less than this part of its share.
const FAIR: f64 = 0.5;

/// A period in which the same workers contended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) old: usize,
    pub(crate) new: usize,
}

/// The result of a rollout.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) old: usize,
    pub(crate) new: usize,
    /// The share of the new build in the grants of stages with both builds.
    pub(crate) share: f64,
    /// Its fair share.
    pub(crate) fair: f64,
    pub(crate) gave_up: usize,
    pub(crate) violations: Vec<String>,
}

/// `room` is the room for all holders at once.
pub(crate) fn judge(seen: &Seen, room: u32) -> Verdict {
    let mut history = History::read(&seen.log, &seen.names, grant);
    history.check_room(room, &seen.names);
    history.check_tokens(room);
    let gave_up = seen.log.iter().filter(|(_, event)| event.word == "gave-up").count();
    let violations = history.violations;
    let mut verdict = Verdict { gave_up, violations, ..Verdict::default() };
    shares(&history.holds, seen, &mut verdict);
    verdict
}

/// Checks a takeover, in which the new build changes tables that the old one uses: when a worker of
/// the new build holds, no worker of the old one does, and each of these gets an error that names
/// the versions.
pub(crate) fn taken_over(seen: &Seen, room: u32) -> Verdict {
    let is_refusal = |(worker, event): &&(usize, Event)| {
        !seen.new[*worker] && ["lost", "error"].contains(&event.word.as_str())
    };
    let (refusals, log): (Vec<_>, Vec<_>) = seen.log.iter().partition(is_refusal);
    let log = log.into_iter().cloned().collect();
    let mut history = History::read(&log, &seen.names, grant);
    history.check_room(room, &seen.names);
    history.check_tokens(room);
    let History { holds, mut violations } = history;
    let (new, old): (Vec<&Hold>, Vec<&Hold>) = holds.iter().partition(|hold| seen.new[hold.worker]);
    let last = old.iter().map(|hold| hold.to).max();
    let first = new.iter().map(|hold| hold.from).min();
    if last >= first {
        violations.push(format!("the old build held until {last:?}, the new one from {first:?}"));
    }
    for (worker, name) in seen.names.iter().enumerate().filter(|(worker, _)| !seen.new[*worker]) {
        let refused = refusals.iter().filter(|(refused, _)| *refused == worker);
        let errors: BTreeSet<_> = refused.map(|(_, event)| event.rest.as_str()).collect();
        if !errors.iter().any(|error| error.contains("version")) {
            violations.push(format!(
                "{name}, an old worker, got no error that names the versions: {errors:?}"
            ));
        }
    }
    let gave_up = log.iter().filter(|(_, event)| event.word == "gave-up").count();
    Verdict { old: old.len(), new: new.len(), share: 1.0, fair: 1.0, gave_up, violations }
}

/// Reads the task, the token and the room of a grant.
fn grant(rest: &str) -> Option<Grant> {
    let numbers: Vec<u64> = rest.split(' ').map_while(|number| number.parse().ok()).collect();
    let [task, token, room] = numbers[..] else { return None };
    Some(Grant { task, token, room: room.try_into().ok()? })
}

fn shares(holds: &[Hold], seen: &Seen, verdict: &mut Verdict) {
    let new = |hold: &&Hold| seen.new[hold.worker];
    verdict.new = holds.iter().filter(new).count();
    verdict.old = holds.len() - verdict.new;
    let (mut all, mut ours, mut due) = (0.0, 0.0, 0.0);
    for stage in seen.stages.iter().filter(|stage| stage.old > 0 && stage.new > 0) {
        let within = || holds.iter().filter(|hold| (stage.begin..stage.end).contains(&hold.from));
        let (total, got) = (within().count() as f64, within().filter(new).count() as f64);
        let fair = stage.new as f64 / (stage.old + stage.new) as f64;
        for (build, got, fair) in [("new", got, fair), ("old", total - got, 1.0 - fair)] {
            // No grant at all is not fair either.
            if got < total * fair * FAIR || total == 0.0 {
                let Stage { old, new, .. } = stage;
                verdict.violations.push(format!(
                    "with {old} old and {new} new workers the {build} got {got} of {total}"
                ));
            }
        }
        all += total;
        ours += got;
        due += total * fair;
    }
    (verdict.share, verdict.fair) = (ours / all, due / all);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(lines: &[(usize, String)], room: u32) -> Verdict {
        let event = |(worker, line): &(usize, String)| (*worker, Event::parse(line).expect(line));
        let names = [0, 1, 2].map(|number| format!("worker {number}")).to_vec();
        let stages = vec![Stage { begin: 0, end: 100, old: 1, new: 1 }];
        let (log, new) = (lines.iter().map(event).collect(), vec![false, true, true]);
        judge(&Seen { log, names, new, stages }, room)
    }

    /// A hold of a worker, from a time for a duration.
    fn hold(worker: usize, at: u64, time: u64, token: u64, room: u32) -> [(usize, String); 2] {
        let grant = format!("grant {at} 0 {token} {room}");
        [(worker, grant), (worker, format!("release {} 0", at + time))]
    }

    #[test]
    fn alternating_turns_pass() {
        let lines = [hold(0, 1, 1, 5, 1), hold(1, 3, 1, 6, 1)].concat();
        let verdict = judged(&lines, 1);
        assert!(verdict.violations.is_empty(), "{verdict:?}");
        assert_eq!((verdict.old, verdict.new, verdict.share, verdict.fair), (1, 1, 0.5, 0.5));
    }

    #[test]
    fn overlapping_holds_are_detected() {
        let lines = [hold(0, 1, 2, 5, 1), hold(1, 2, 2, 6, 1)].concat();
        let seen = judged(&lines, 1).violations;
        assert!(seen.len() == 1 && seen[0].starts_with("2 of 1 held at once"), "{seen:?}");
        assert!(judged(&lines, 2).violations.is_empty());
    }

    #[test]
    fn non_increasing_tokens_are_detected() {
        let lines = [hold(0, 1, 1, 6, 1), hold(1, 3, 1, 5, 1)].concat();
        assert_eq!(judged(&lines, 1).violations, ["the token 5 came after 6"]);
    }

    #[test]
    fn malformed_messages_are_found() {
        let lines = [&hold(1, 5, 1, 6, 1)[..], &[(0, "grant 1 0 5".to_owned())]].concat();
        assert_eq!(judged(&lines, 1).violations[0], "worker 0 grant 1 0 5");
    }

    #[test]
    fn cancelled_waits_are_counted() {
        let lines = [&hold(0, 1, 1, 5, 1)[..], &[(1, "gave-up 2".to_owned())]].concat();
        assert_eq!(judged(&lines, 1).gave_up, 1);
    }

    #[test]
    fn old_and_new_holders_overlap_is_detected() {
        let refused = (0, "error 4 its tables are of version 2".to_owned());
        let [first, last] = [hold(0, 1, 1, 5, 1), hold(1, 7, 1, 6, 1)];
        let verdict = |lines: &[(usize, String)]| {
            let event =
                |(worker, line): &(usize, String)| (*worker, Event::parse(line).expect(line));
            let names = ["old", "new"].map(str::to_owned).to_vec();
            let (log, new) = (lines.iter().map(event).collect(), vec![false, true]);
            taken_over(&Seen { log, names, new, stages: Vec::new() }, 3).violations
        };
        assert_eq!(verdict(&[&first[..], std::slice::from_ref(&refused), &last].concat()), [""; 0]);
        assert_eq!(verdict(&[first, last.clone()].concat()).len(), 1, "the worker was not refused");
        let late = hold(0, 6, 2, 5, 1);
        assert_eq!(verdict(&[&late[..], &[refused], &last].concat()).len(), 1, "both hold");
    }

    #[test]
    fn starved_build_is_detected() {
        let turns: Vec<_> = (0..5).flat_map(|turn| hold(0, 2 * turn + 1, 1, turn + 1, 1)).collect();
        let seen = judged(&turns, 1).violations;
        assert_eq!(seen, ["with 1 old and 1 new workers the new got 0 of 5"]);
        assert_eq!(judged(&[], 1).violations.len(), 2);
    }
}
