//! I1: the outcomes of writes to the registers.

use std::collections::{HashMap, HashSet};

use crate::{
    event::{Event, Record},
    report::{Invariant, Report},
};

#[derive(Debug, Default)]
struct Register {
    /// The value that each value replaced.
    after: HashMap<u64, u64>,
    acknowledged: Vec<u64>,
    last: u64,
    highest: u64,
}

pub(super) fn check(records: &[Record], report: &mut Report) {
    let mut registers: HashMap<(&str, bool), Register> = HashMap::new();
    for record in records {
        let (lock, token, accepted, write) = match &record.event {
            Event::Read { lock, token, accepted, .. } => (lock, *token, *accepted, None),
            Event::Wrote { lock, token, accepted, value, after } => {
                (lock, *token, *accepted, Some((*value, *after)))
            }
            _ => continue,
        };
        let register = registers.entry((lock, token.is_some())).or_default();
        let due = token.is_none_or(|token| token >= register.highest);
        if due != accepted {
            let (at, highest) = (record.at, register.highest);
            let what = format!("{at} {lock}: token {token:?} after {highest}: {accepted}");
            report.violated(Invariant::FencedWrites, what);
        }
        if !accepted {
            report.fenced_writes_refused += usize::from(write.is_some());
            continue;
        }
        register.highest = token.unwrap_or_default();
        if let Some((value, after)) = write {
            register.after.insert(value, after);
            register.acknowledged.push(value);
            register.last = value;
        }
    }
    for ((lock, fenced), register) in registers {
        let mut kept = HashSet::new();
        let mut value = register.last;
        while value != 0 && kept.insert(value) {
            value = register.after.get(&value).copied().unwrap_or_default();
        }
        let lost = register.acknowledged.iter().filter(|value| !kept.contains(value)).count();
        if fenced {
            report.lost_acknowledged_writes.fenced += lost;
            if lost > 0 {
                let what = format!("{lost} acknowledged writes of {lock} are lost");
                report.violated(Invariant::FencedWrites, what);
            }
        } else {
            report.lost_acknowledged_writes.unfenced += lost;
        }
    }
}
