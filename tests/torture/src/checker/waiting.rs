//! I3 and I5: waiters are granted in time, and calls return in time.

use std::collections::HashMap;

use super::{History, NEVER, SLACK};
use crate::{
    event::Outcome,
    manner::Manner,
    report::{Invariant, Report, Spread},
};

/// I3. In a store without order only one of the waiters has to be granted.
pub(super) fn check(history: &History, bound: u64, report: &mut Report) {
    let mut wishes: HashMap<(&str, u64), (&str, u64, Option<u64>)> = HashMap::new();
    for call in history.calls.iter().filter(|call| call.manner == Manner::Lock) {
        let wish = wishes.entry((&call.by, call.wish)).or_insert((&call.lock, call.at, None));
        if let Some((at, Outcome::Done | Outcome::Failed(_))) = &call.returned {
            wish.2 = Some(*at);
        }
    }
    let any_grant = |lock, healed: u64| {
        let mut grants = history.grants.iter().filter(|grant| grant.lock == lock);
        grants.any(|grant| (healed..=healed + bound).contains(&grant.at))
    };
    let mut latencies = Vec::new();
    for ((by, wish), (lock, called, granted)) in wishes {
        let ended = history.lives.get(by).and_then(|life| life.ended).unwrap_or(NEVER);
        let over = granted.unwrap_or(ended);
        let waited_then = |healed: &&u64| called < **healed && over > **healed;
        for healed in history.heals.iter().filter(waited_then).copied() {
            // A process that ended sooner was killed by the next fault. Otherwise its end is a
            // violation of its own.
            if over > healed + bound && !(history.unordered && any_grant(lock, healed)) {
                let what = format!(
                    "{by} wish {wish}, called at {called}, not granted {bound} us after {healed}"
                );
                report.violated(Invariant::Unserved, what);
            } else if granted.is_some() {
                latencies.push((over - healed).cast_signed());
            }
        }
    }
    report.grant_latency_after_heal_ms = Spread::of(latencies);
}

/// I5: the duration of calls without the time during which the process could not run.
pub(super) fn check_calls(history: &History, report: &mut Report) {
    let calls = history.calls.iter();
    let calls = calls.map(|it| (&it.by, it.at, it.limit, it.returned.as_ref().map(|it| it.0)));
    let releases = history.grants.iter();
    let releases = releases.map(|it| (&it.by, it.releasing, it.release_limit, it.released));
    for (by, at, limit, returned) in calls.chain(releases) {
        let Some(limit) = limit else { continue };
        let life = history.lives.get(by);
        let until = returned.or(life.and_then(|life| life.ended)).unwrap_or(NEVER);
        let pauses = life.map(|life| life.pauses.as_slice()).unwrap_or_default();
        let paused: u64 =
            pauses.iter().map(|(from, to)| until.min(*to).saturating_sub(at.max(*from))).sum();
        let took = (until - at).saturating_sub(paused);
        if took > limit + SLACK {
            let what = format!("{at} {by}: a call of at most {limit} us took {took} us");
            report.violated(Invariant::Call, what);
        }
    }
}
