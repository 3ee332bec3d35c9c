//! I2 and I6: concurrent holders, and the order of tokens. Also measures how long before its
//! successor each loser noticed the loss.

use std::collections::HashMap;

use distlock_testkit::history::falling;

use super::{Grant, History, NEVER};
use crate::{
    primitive::Mode,
    report::{Invariant, Report, Spread},
};

/// A time during which a guard was certainly valid.
struct Window<'a> {
    grant: &'a Grant,
    mode: Mode,
    from: u64,
    to: u64,
}

pub(super) fn check(history: &History, report: &mut Report) {
    let mut leads = Vec::new();
    let mut locks: HashMap<&str, Vec<&Grant>> = HashMap::new();
    // A guard that was never valid was never held: a pause outlasted its call.
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
        let (mode, to) = (grant.mode, end.min(grant.downgraded));
        windows.push(Window { grant, mode, from: grant.at, to });
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
            let (Grant { lock, token, by, .. }, overlap) = (window.grant, other.grant);
            let (at, other, of) = (window.from, overlap.token, &overlap.by);
            let what = format!("{at} {lock} {token} by {by} together with {other} by {of}");
            report.violated(Invariant::Overlap, what);
        } else if let Mode::Permits { taken, of } = window.mode {
            let others = open.iter().filter(|other| !excused(other, &window));
            let sum = taken + others.map(|other| permits(other.mode)).sum::<u32>();
            if sum > of {
                let (at, lock) = (window.from, &window.grant.lock);
                report
                    .violated(Invariant::Overlap, format!("{sum} permits of {of} at {at} {lock}"));
            }
        }
        open.push(window);
    }
}

/// Returns `true` if the operator had deleted the key of one of the two, whose holder could not
/// have noticed yet.
fn excused(one: &Window<'_>, other: &Window<'_>) -> bool {
    let (from, to) = (one.from.max(other.from), one.to.min(other.to));
    let deleted = one.grant.deleted.iter().chain(&other.grant.deleted);
    deleted.into_iter().any(|(since, noticed)| *since <= from && to <= *noticed)
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

fn check_tokens(grants: &[&Grant], report: &mut Report) {
    let grants: Vec<_> = grants.iter().filter(|grant| !grant.came_late()).collect();
    let tokens = grants.iter().map(|grant| (grant.token, grant.mode == Mode::Exclusive));
    for (late, before) in falling(tokens) {
        let Grant { at, lock, token, by, .. } = grants[late];
        let what = format!("{at} {lock} {token} by {by} came after {before}");
        report.violated(Invariant::Token, what);
    }
}
