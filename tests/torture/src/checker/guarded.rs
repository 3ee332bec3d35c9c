//! I8: the outcomes of guarded writes.

use std::collections::HashMap;

use super::{ENOUGH, History};
use crate::{
    event::{Event, Outcome, Record},
    primitive::Mode,
    report::{Invariant, Report},
};

struct Write<'a> {
    at: u64,
    lock: &'a str,
    token: u64,
    /// The time and outcome of the return.
    returned: Option<(u64, &'a Outcome)>,
}

impl<'a> Write<'a> {
    fn outcome(&self) -> Option<&'a Outcome> {
        self.returned.map(|(_, outcome)| outcome)
    }
}

/// What a read returned: (version, token of the reader, token of the writer).
type Reading = (u64, u64, u64);

pub(super) fn check(records: &[Record], history: &History, report: &mut Report) {
    let mut writes: HashMap<(&str, u64), Write<'_>> = HashMap::new();
    let mut readings: HashMap<&str, Vec<Reading>> = HashMap::new();
    // The time at which each read started, and the writer that it returned.
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
                readings.entry(lock).or_default().push((*version, *token, *writer));
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
    // About half of the workers' exclusive holds write. Strangers have no life.
    let writers = history.grants.iter().filter(|grant| {
        grant.mode == Mode::Exclusive && grant.until > 0 && history.lives.contains_key(&grant.by)
    });
    let writers = writers.count();
    if !history.unordered && report.guarded_writes == 0 && writers >= ENOUGH {
        let what = format!("no guarded write of {writers} holders was acknowledged");
        report.violated(Invariant::Run, what);
    }
    // Writes that the store has lost are no violations.
    if history.forgot {
        return;
    }
    for (lock, seen) in &mut seen {
        seen.sort_unstable();
        check_kept(lock, seen, writes.values().filter(|write| write.lock == *lock), report);
    }
    for (lock, readings) in &mut readings {
        readings.sort_unstable();
        check_order(lock, readings, report);
        let (first, last) = (readings[0].0, readings[readings.len() - 1].0);
        let of_lock = writes.values().filter(|write| write.lock == *lock);
        check_number(lock, last - first, history.counts_writes, of_lock, report);
    }
}

/// A write that was sent after the grant to a later holder must be refused.
fn check_sent(write: &Write<'_>, history: &History, report: &mut Report) {
    let Write { at, lock, token, .. } = write;
    let mut valid = history.grants.iter().filter(|grant| grant.lock == *lock && grant.until > 0);
    if let Some(later) = valid.find(|grant| grant.token > *token && grant.at < *at) {
        let what = format!("{at} {lock} {token} wrote after {} was granted", later.token);
        report.violated(Invariant::GuardedWrites, what);
    }
}

/// After a read by the holder of a token, or a write, only this token or a later one may write.
fn check_order(lock: &str, readings: &[Reading], report: &mut Report) {
    let (mut floor, mut next, mut at) = (0, 0, 0);
    for (version, token, writer) in readings.iter().copied() {
        if version > at {
            (floor, at) = (next, version);
        }
        if writer < floor {
            let what = format!(
                "{lock}: write {version} is of token {writer}, \
                 after token {floor} had been granted the lock"
            );
            report.violated(Invariant::GuardedWrites, what);
        }
        next = next.max(token).max(writer);
    }
}

/// A read returns the writes acknowledged before it, or those of a later holder.
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
            let what =
                format!("{since} {lock}: the last writer is {writer}, after a write of {kept}");
            report.violated(Invariant::GuardedWrites, what);
        }
    }
}

/// All acknowledged writes were applied, and no refused ones. A store that does not count writes
/// has applied at least those that were seen.
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
