//! I2 and I6: who held a lock at the same time, and the order of the tokens; and how long before
//! its successor each loser knew.

use std::collections::{HashMap, HashSet};

use super::{Grant, History, NEVER};
use crate::{
    primitive::Mode,
    report::{Invariant, Report, Spread},
};

/// A time in which a guard was valid, for certain.
struct Window<'a> {
    grant: &'a Grant,
    mode: Mode,
    from: u64,
    to: u64,
}

pub(super) fn check(history: &History, report: &mut Report) {
    let mut leads = Vec::new();
    let mut locks: HashMap<&str, Vec<&Grant>> = HashMap::new();
    // A guard that was never valid was never held: its call was overtaken by a pause.
    for grant in history.grants.iter().filter(|grant| grant.until > 0) {
        locks.entry(&grant.lock).or_default().push(grant);
    }
    for grants in locks.values_mut() {
        grants.sort_by_key(|grant| grant.at);
        let ended = |grant: &Grant| {
            history.lives.get(&grant.by).and_then(|life| life.ended).unwrap_or(NEVER)
        };
        check_together(grants, ended, report);
        check_tokens(grants, report);
        let alone = |grant: &Grant| grant.mode == Mode::Exclusive && grant.downgraded == NEVER;
        for (grant, next) in grants.iter().zip(&grants[1..]).filter(|(grant, _)| alone(grant)) {
            if let Some(knew) = grant.knew().filter(|knew| *knew < ended(grant)) {
                leads.push(next.at.cast_signed() - knew.cast_signed());
            }
        }
    }
    report.loss_notice_lead_ms = Spread::of(leads);
}

fn check_together(grants: &[&Grant], ended: impl Fn(&Grant) -> u64, report: &mut Report) {
    let mut windows = Vec::new();
    for grant in grants.iter().copied() {
        let end = grant.until.min(grant.releasing).min(grant.lost).min(ended(grant));
        windows.push(Window {
            grant,
            mode: grant.mode,
            from: grant.at,
            to: end.min(grant.downgraded),
        });
        if grant.downgraded < end {
            windows.push(Window { grant, mode: Mode::Shared, from: grant.downgraded, to: end });
        }
    }
    windows.sort_by_key(|window| window.from);
    let mut open: Vec<Window<'_>> = Vec::new();
    for window in windows {
        open.retain(|other| other.to > window.from);
        if let Some(other) =
            open.iter().find(|other| !agree(other.mode, window.mode) && !excused(other, &window))
        {
            report.overlap_ms += (window.to.min(other.to) - window.from) as f64 / 1000.0;
            report.violated(Invariant::Overlap, told(window.from, window.grant, other.grant));
        } else if let Mode::Permits { taken, of } = window.mode {
            let sum = open
                .iter()
                .filter(|other| !excused(other, &window))
                .map(|other| permits(other.mode))
                .sum::<u32>();
            let sum = sum + taken;
            if sum > of {
                let what =
                    format!("{sum} permits of {of} at {} {}", window.from, window.grant.lock);
                report.violated(Invariant::Overlap, what);
            }
        }
        open.push(window);
    }
}

/// Whether the operator had deleted the key of one of the two, who could not know of it yet.
fn excused(one: &Window<'_>, other: &Window<'_>) -> bool {
    let (from, to) = (one.from.max(other.from), one.to.min(other.to));
    let deleted = one.grant.deleted.iter().chain(&other.grant.deleted);
    deleted.into_iter().any(|(since, told)| *since <= from && to <= *told)
}

fn agree(one: Mode, other: Mode) -> bool {
    match (one, other) {
        (Mode::Shared, Mode::Shared) => true,
        (Mode::Permits { of, .. }, Mode::Permits { of: other, .. }) => of == other,
        _ => false,
    }
}

fn permits(mode: Mode) -> u32 {
    if let Mode::Permits { taken, .. } = mode { taken } else { 0 }
}

/// Where one of two is alone, the later one's token is the greater. Those who may be there together
/// join in another order than that in which they return.
fn check_tokens(grants: &[&Grant], report: &mut Report) {
    let (mut seen, mut greatest, mut alone) = (HashSet::new(), None::<&Grant>, None::<&Grant>);
    for grant in grants.iter().copied().filter(|grant| !grant.came_late()) {
        let before = if grant.mode == Mode::Exclusive { greatest } else { alone };
        if let Some(before) = before.filter(|before| before.token >= grant.token) {
            report.violated(Invariant::Token, told(grant.at, grant, before));
        } else if !seen.insert(grant.token) {
            report.violated(Invariant::Token, told(grant.at, grant, grant));
        }
        let greater =
            |before: Option<&Grant>| before.is_none_or(|before| before.token < grant.token);
        if greater(greatest) {
            greatest = Some(grant);
        }
        if grant.mode == Mode::Exclusive && greater(alone) {
            alone = Some(grant);
        }
    }
}

fn told(at: u64, grant: &Grant, other: &Grant) -> String {
    format!(
        "{at} {} {} by {} beside {} by {}",
        grant.lock, grant.token, grant.by, other.token, other.by
    )
}
