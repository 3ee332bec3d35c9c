//! Judges what the workers of a rollout told.

use std::collections::{BTreeMap, BTreeSet};

use crate::told::Told;

/// With equal numbers of tasks first come, first served gives equal shares. Neither build may get
/// less than this part of what its tasks should have.
const FAIR: f64 = 0.5;

/// All that was seen in a rollout.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By their numbers.
    pub(crate) workers: Vec<Origin>,
    pub(crate) told: Vec<(usize, Told)>,
    pub(crate) stages: Vec<Stage>,
}

/// What a worker was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Built against the new library.
    pub(crate) new: bool,
    /// Until when it lived at least.
    pub(crate) killed: Option<u64>,
}

/// A time in which the same workers contended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) old: usize,
    pub(crate) new: usize,
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) old: usize,
    pub(crate) new: usize,
    /// Of the new build, among the grants of those stages in which there were both.
    pub(crate) share: f64,
    /// What it should be.
    pub(crate) fair: f64,
    pub(crate) gave_up: usize,
    pub(crate) violations: Vec<String>,
}

/// From the return of the call that granted it to the call that releases it.
#[derive(Clone, Copy, Debug)]
struct Hold {
    worker: usize,
    from: u64,
    to: u64,
    token: u64,
    room: u32,
}

/// `room` is what there is for all holders at once.
pub(crate) fn judge(history: &History, room: u32) -> Verdict {
    let mut verdict = Verdict::default();
    let holds = holds(history, &mut verdict);
    overlaps(&holds, room, &mut verdict.violations);
    tokens(&holds, room, &mut verdict.violations);
    shares(&holds, history, &mut verdict);
    verdict
}

fn holds(history: &History, verdict: &mut Verdict) -> Vec<Hold> {
    let mut open = BTreeMap::new();
    let mut holds = Vec::new();
    for (worker, told) in &history.told {
        let worker = *worker;
        match told {
            Told::Grant { task, at, token, room } => {
                let hold = Hold { worker, from: *at, to: *at, token: *token, room: *room };
                if open.insert((worker, *task), hold).is_some() {
                    verdict
                        .violations
                        .push(format!("worker {worker} was granted twice what task {task} holds"));
                }
            }
            Told::Release { task, at, valid } => match open.remove(&(worker, *task)) {
                Some(hold) if *valid => holds.push(Hold { to: *at, ..hold }),
                Some(hold) => {
                    verdict
                        .violations
                        .push(format!("worker {worker} lost the hold with token {}", hold.token));
                    holds.push(hold);
                }
                None => verdict
                    .violations
                    .push(format!("worker {worker} released what task {task} did not hold")),
            },
            Told::GaveUp => verdict.gave_up += 1,
            Told::Error(error) => verdict.violations.push(format!("worker {worker}: {error}")),
        }
    }
    for ((worker, _), hold) in open {
        let killed = history.workers.get(worker).and_then(|origin| origin.killed);
        if killed.is_none() {
            verdict
                .violations
                .push(format!("worker {worker} never released the hold with token {}", hold.token));
        }
        holds.push(Hold { to: killed.unwrap_or(hold.from).max(hold.from), ..hold });
    }
    holds.sort_unstable_by_key(|hold| hold.from);
    holds
}

fn overlaps(holds: &[Hold], room: u32, violations: &mut Vec<String>) {
    let mut held: Vec<&Hold> = Vec::new();
    for hold in holds {
        held.retain(|earlier| earlier.to >= hold.from);
        held.push(hold);
        let taken: u64 = held.iter().map(|hold| u64::from(hold.room)).sum();
        if taken > room.into() {
            violations.push(format!("{taken} of {room} held at once: {held:?}"));
        }
    }
}

/// The token of one who holds all the room is above those of all before it, and below all after it.
fn tokens(holds: &[Hold], room: u32, violations: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    let (mut highest, mut fence) = (0, 0);
    for hold in holds {
        if !seen.insert(hold.token) {
            violations.push(format!("the token {} was given twice", hold.token));
        }
        let floor = if hold.room == room { highest } else { fence };
        if hold.token <= floor {
            violations.push(format!("the token {} came after {floor}", hold.token));
        }
        highest = highest.max(hold.token);
        if hold.room == room {
            fence = fence.max(hold.token);
        }
    }
}

fn shares(holds: &[Hold], history: &History, verdict: &mut Verdict) {
    let new = |hold: &&Hold| history.workers.get(hold.worker).is_some_and(|origin| origin.new);
    verdict.new = holds.iter().filter(new).count();
    verdict.old = holds.len() - verdict.new;
    let (mut all, mut ours, mut due) = (0.0, 0.0, 0.0);
    for stage in history.stages.iter().filter(|stage| stage.old > 0 && stage.new > 0) {
        let within = || holds.iter().filter(|hold| (stage.begin..stage.end).contains(&hold.from));
        let (total, got) = (within().count() as f64, within().filter(new).count() as f64);
        let fair = stage.new as f64 / (stage.old + stage.new) as f64;
        for (build, got, fair) in [("new", got, fair), ("old", total - got, 1.0 - fair)] {
            // Not one grant at all is not fair either.
            if got < total * fair * FAIR || total == 0.0 {
                let Stage { old, new, .. } = stage;
                violation(
                    verdict,
                    &format!(
                        "with {old} old and {new} new workers the {build} got {got} of {total}"
                    ),
                );
            }
        }
        all += total;
        ours += got;
        due += total * fair;
    }
    (verdict.share, verdict.fair) = (ours / all, due / all);
}

fn violation(verdict: &mut Verdict, text: &str) {
    verdict.violations.push(text.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(at: u64, token: u64, room: u32) -> Told {
        Told::Grant { task: 0, at, token, room }
    }

    fn release(at: u64) -> Told {
        Told::Release { task: 0, at, valid: true }
    }

    fn history(told: Vec<(usize, Told)>) -> History {
        let workers = [false, true, true].map(|new| Origin { new, killed: None }).to_vec();
        History { workers, told, stages: vec![Stage { begin: 0, end: 100, old: 1, new: 1 }] }
    }

    fn violations(told: Vec<(usize, Told)>, room: u32) -> Vec<String> {
        judge(&history(told), room).violations
    }

    #[test]
    fn turns_are_fine() {
        let told = vec![(0, grant(1, 5, 1)), (0, release(2)), (1, grant(3, 6, 1)), (1, release(4))];
        let verdict = judge(&history(told), 1);
        assert!(verdict.violations.is_empty(), "{verdict:?}");
        assert_eq!((verdict.old, verdict.new, verdict.share, verdict.fair), (1, 1, 0.5, 0.5));
    }

    #[test]
    fn two_holders_at_once_are_seen() {
        let told = vec![(0, grant(1, 5, 1)), (1, grant(2, 6, 1)), (0, release(3)), (1, release(4))];
        let seen = violations(told.clone(), 1);
        assert!(seen.len() == 1 && seen[0].starts_with("2 of 1 held at once"), "{seen:?}");
        assert!(violations(told, 2).is_empty());
    }

    #[test]
    fn a_hold_within_another_is_seen_beside_a_third() {
        let long =
            vec![(0, grant(1, 5, 2)), (1, grant(2, 6, 1)), (1, release(3)), (2, grant(4, 7, 1))];
        let told = [long, vec![(2, release(5)), (0, release(9))]].concat();
        assert!(violations(told.clone(), 3).is_empty());
        assert_eq!(
            violations(told, 2).iter().filter(|text| text.contains("held at once")).count(),
            2
        );
    }

    #[test]
    fn tokens_that_do_not_rise_are_seen() {
        let told = vec![(0, grant(1, 6, 1)), (0, release(2)), (1, grant(3, 5, 1)), (1, release(4))];
        assert_eq!(violations(told, 1), ["the token 5 came after 6"]);
    }

    #[test]
    fn readers_need_no_order_but_towards_writers() {
        let readers =
            vec![(0, grant(1, 6, 1)), (1, grant(2, 5, 1)), (0, release(3)), (1, release(4))];
        assert!(violations(readers.clone(), 9).is_empty());
        let low = [readers, vec![(0, grant(5, 4, 9)), (0, release(6))]].concat();
        assert_eq!(violations(low, 9)[0], "the token 4 came after 6");
    }

    #[test]
    fn what_was_lost_or_never_released_is_seen() {
        let lost = Told::Release { task: 0, at: 2, valid: false };
        let told = vec![(0, grant(1, 5, 1)), (0, lost), (1, grant(3, 6, 1))];
        let seen = violations(told, 1);
        assert_eq!(
            seen,
            [
                "worker 0 lost the hold with token 5",
                "worker 1 never released the hold with token 6"
            ]
        );
    }

    #[test]
    fn the_killed_hold_until_then() {
        let mut history = history(vec![(1, grant(1, 5, 1)), (0, grant(7, 6, 1)), (0, release(8))]);
        history.workers[1].killed = Some(6);
        assert!(judge(&history, 1).violations.is_empty());
        history.workers[1].killed = Some(7);
        assert_eq!(judge(&history, 1).violations.len(), 1);
    }

    #[test]
    fn a_build_that_starves_is_seen() {
        let turns = (0..5)
            .flat_map(|turn| [(0, grant(2 * turn + 1, turn + 1, 1)), (0, release(2 * turn + 2))]);
        let seen = violations(turns.collect(), 1);
        assert_eq!(seen, ["with 1 old and 1 new workers the new got 0 of 5"]);
        assert_eq!(violations(Vec::new(), 1).len(), 2);
    }
}
