//! I8: what became of the guarded writes.

use std::collections::HashMap;

use super::History;
use crate::{
    event::{Event, Outcome, Record},
    report::{Invariant, Report},
};

struct Write<'a> {
    at: u64,
    lock: &'a str,
    token: u64,
    outcome: Option<&'a Outcome>,
}

/// What a look has shown: (version, token of who looked, token of who had written).
type Look = (u64, u64, u64);

pub(super) fn check(records: &[Record], history: &History, report: &mut Report) {
    let mut writes: HashMap<(&str, u64), Write<'_>> = HashMap::new();
    let mut looks: HashMap<&str, Vec<Look>> = HashMap::new();
    for Record { at, by, event } in records {
        match event {
            Event::Writing { call, lock, token, .. } => {
                writes.insert((by, *call), Write { at: *at, lock, token: *token, outcome: None });
            }
            Event::Returned { call, outcome } => {
                if let Some(write) = writes.get_mut(&(by.as_str(), *call)) {
                    write.outcome = Some(outcome);
                }
            }
            Event::Saw { lock, token, writer, version, .. } => {
                looks.entry(lock).or_default().push((*version, *token, *writer));
            }
            _ => {}
        }
    }
    for write in writes.values() {
        match write.outcome {
            Some(Outcome::Done) => {
                report.guarded_writes += 1;
                check_sent(write, history, report);
            }
            Some(Outcome::Refused(_)) => report.guarded_writes_refused += 1,
            _ => {}
        }
    }
    for (lock, looks) in &mut looks {
        looks.sort_unstable();
        check_order(lock, looks, report);
        let (first, last) = (looks[0].0, looks[looks.len() - 1].0);
        check_number(
            lock,
            last - first,
            writes.values().filter(|write| write.lock == *lock),
            report,
        );
    }
}

/// A write that was sent after a later holder had been granted the lock was sent in vain.
fn check_sent(write: &Write<'_>, history: &History, report: &mut Report) {
    let later = history.grants.iter().find(|grant| {
        grant.lock == write.lock
            && grant.token > write.token
            && grant.until > 0
            && grant.at < write.at
    });
    if let Some(later) = later {
        let what = format!(
            "{} {} {} wrote after {} was granted",
            write.at, write.lock, write.token, later.token
        );
        report.violated(Invariant::GuardedWrites, what);
    }
}

/// What is written after somebody has looked who was granted the lock, or has written, is written
/// by that one or by a later one.
fn check_order(lock: &str, looks: &[Look], report: &mut Report) {
    let (mut floor, mut next, mut at) = (0, 0, 0);
    for (version, token, writer) in looks.iter().copied() {
        if version > at {
            (floor, at) = (next, version);
        }
        if writer < floor {
            let what = format!(
                "{lock}: write {version} is of {writer}, \
                 and {floor} had been granted the lock before"
            );
            report.violated(Invariant::GuardedWrites, what);
        }
        next = next.max(token).max(writer);
    }
}

/// All that was acknowledged was written, and nothing that was refused.
fn check_number<'a>(
    lock: &str,
    written: u64,
    writes: impl Iterator<Item = &'a Write<'a>>,
    report: &mut Report,
) {
    let (mut least, mut most) = (0, 0);
    for write in writes {
        least += u64::from(write.outcome == Some(&Outcome::Done));
        most += u64::from(!matches!(write.outcome, Some(Outcome::Refused(_) | Outcome::Failed(_))));
    }
    if !(least..=most).contains(&written) {
        let what = format!(
            "{lock}: {written} writes, {least} were acknowledged and at most {most} not refused"
        );
        report.violated(Invariant::GuardedWrites, what);
    }
}
