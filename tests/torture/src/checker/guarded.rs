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
    /// When it returned, and with what.
    returned: Option<(u64, &'a Outcome)>,
}

impl<'a> Write<'a> {
    fn outcome(&self) -> Option<&'a Outcome> {
        self.returned.map(|(_, outcome)| outcome)
    }
}

/// What a look has shown: (version, token of who looked, token of who had written).
type Look = (u64, u64, u64);

pub(super) fn check(records: &[Record], history: &History, report: &mut Report) {
    let mut writes: HashMap<(&str, u64), Write<'_>> = HashMap::new();
    let mut looks: HashMap<&str, Vec<Look>> = HashMap::new();
    // Since when it was so, and who had written.
    let mut seen: HashMap<&str, Vec<(u64, u64)>> = HashMap::new();
    for Record { at, by, event } in records {
        match event {
            Event::Writing { call, lock, token, .. } => {
                writes.insert((by, *call), Write { at: *at, lock, token: *token, returned: None });
            }
            Event::Returned { call, outcome } => {
                if let Some(write) = writes.get_mut(&(by.as_str(), *call)) {
                    write.returned = Some((*at, outcome));
                }
            }
            Event::Saw { lock, token, writer, version, since, .. } => {
                looks.entry(lock).or_default().push((*version, *token, *writer));
                seen.entry(lock).or_default().push((*since, *writer));
            }
            _ => {}
        }
    }
    for write in writes.values() {
        match write.outcome() {
            Some(Outcome::Done) => {
                report.guarded_writes += 1;
                check_sent(write, history, report);
            }
            Some(Outcome::Refused(_)) => report.guarded_writes_refused += 1,
            _ => {}
        }
    }
    // What it has forgotten was written all the same.
    if history.forgot {
        return;
    }
    for (lock, seen) in &mut seen {
        seen.sort_unstable();
        check_kept(lock, seen, writes.values().filter(|write| write.lock == *lock), report);
    }
    for (lock, looks) in &mut looks {
        looks.sort_unstable();
        check_order(lock, looks, report);
        let (first, last) = (looks[0].0, looks[looks.len() - 1].0);
        let of_lock = writes.values().filter(|write| write.lock == *lock);
        check_number(lock, last - first, history.counts_writes, of_lock, report);
    }
}

/// A write that was sent after a later holder had been granted the lock was sent in vain.
fn check_sent(write: &Write<'_>, history: &History, report: &mut Report) {
    let Write { at, lock, token, .. } = write;
    let mut valid = history.grants.iter().filter(|grant| grant.lock == *lock && grant.until > 0);
    if let Some(later) = valid.find(|grant| grant.token > *token && grant.at < *at) {
        let what = format!("{at} {lock} {token} wrote after {} was granted", later.token);
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

/// What was acknowledged before a look is there, or what a later holder has written.
fn check_kept<'a>(
    lock: &str,
    seen: &[(u64, u64)],
    writes: impl Iterator<Item = &'a Write<'a>>,
    report: &mut Report,
) {
    let done = writes.filter(|write| write.outcome() == Some(&Outcome::Done));
    let mut done: Vec<_> = done.filter_map(|it| Some((it.returned?.0, it.token))).collect();
    done.sort_unstable();
    let (mut done, mut kept) = (done.into_iter().peekable(), 0);
    for (since, writer) in seen {
        while let Some((_, token)) = done.next_if(|(returned, _)| returned < since) {
            kept = kept.max(token);
        }
        if *writer < kept {
            let what = format!("{since} {lock}: {writer} had written last, and {kept} had before");
            report.violated(Invariant::GuardedWrites, what);
        }
    }
}

/// All that was acknowledged was written, and nothing that was refused. Where the store does not
/// count, there are as many as have been seen.
fn check_number<'a>(
    lock: &str,
    written: u64,
    counts: bool,
    writes: impl Iterator<Item = &'a Write<'a>>,
    report: &mut Report,
) {
    let (mut least, mut most) = (0, 0);
    for write in writes {
        least += u64::from(counts && write.outcome() == Some(&Outcome::Done));
        let refused = matches!(write.outcome(), Some(Outcome::Refused(_) | Outcome::Failed(_)));
        most += u64::from(!refused);
    }
    if !(least..=most).contains(&written) {
        let what = format!(
            "{lock}: {written} writes, {least} were acknowledged and at most {most} not refused"
        );
        report.violated(Invariant::GuardedWrites, what);
    }
}
