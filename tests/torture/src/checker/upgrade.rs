//! The effects of an upgrade of the servers.

use std::collections::BTreeMap;

use crate::{
    event::{Event, Outcome, Record},
    nemesis::UPGRADE,
    report::Upgrade,
};

/// Returns the effects of the upgrade, if the history has one that was completed.
pub(super) fn summarize(records: &[Record]) -> Option<Upgrade> {
    let (number, from) = records.iter().find_map(|record| match &record.event {
        Event::FaultBegan { fault, kind, .. } if kind == UPGRADE => Some((*fault, record.at)),
        _ => None,
    })?;
    let ended = |record: &&Record| record.event == Event::FaultEnded { fault: number };
    let to = records.iter().find(ended)?.at;
    let granted = |record: &&Record| matches!(record.event, Event::Granted { .. });
    let grants: Vec<_> = records.iter().filter(granted).map(|record| record.at).collect();
    let before = grants.iter().filter(|at| **at < from).count();
    let during = grants.iter().filter(|at| (from..to).contains(*at)).count();
    // A pause that has begun before the upgrade counts as one of the upgrade.
    let pauses = grants.windows(2).map(|pair| (pair[1] - pair[0], pair[1]));
    let (earlier, later): (Vec<_>, Vec<_>) = pauses.partition(|(_, end)| *end < from);
    let longest = |pauses: Vec<(u64, u64)>| pauses.into_iter().max().unwrap_or_default();
    let (pause, resumed) = longest(later);
    let affected = |at: u64| (from..=to.max(resumed)).contains(&at);
    let (mut losses, mut errors, mut durability) = (0, BTreeMap::new(), None);
    for Record { at, event, .. } in records {
        match event {
            Event::Lost { .. } if affected(*at) => losses += 1,
            Event::Returned { outcome: Outcome::Refused(error), .. } if affected(*at) => {
                *errors.entry(without_numbers(error)).or_default() += 1;
            }
            Event::Promised(promise) if *at >= to => durability = Some(promise.clone()),
            _ => {}
        }
    }
    let ms = |micros: u64| micros as f64 / 1000.0;
    Some(Upgrade {
        ms: ms(to - from),
        grants: [before, during, grants.len() - before - during],
        longest_pause_ms: [ms(longest(earlier).0), ms(pause)],
        losses,
        errors,
        durability,
    })
}

/// Replaces each number by `N`, so that messages about different ports and keys are counted
/// together.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('N') => {}
            '0'..='9' => out.push('N'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Promise, primitive::Mode};

    fn record(at: u64, event: Event) -> Record {
        Record { at: at * 1000, by: "a".to_owned(), event }
    }

    fn granted(at: u64) -> Record {
        let (lock, key) = ("red".to_owned(), String::new());
        let mode = Mode::Exclusive;
        record(at, Event::Granted { call: at, lock, token: at, key, until: 1, mode })
    }

    fn refused(at: u64, error: &str) -> Record {
        record(at, Event::Returned { call: at, outcome: Outcome::Refused(error.to_owned()) })
    }

    #[test]
    fn upgrade_is_summarized() {
        let lost = |at| {
            let (lock, reason) = ("red".to_owned(), String::new());
            record(at, Event::Lost { lock, token: 1, reason })
        };
        let promise = Promise { exclusive: true, failover: "none".to_owned(), reasons: Vec::new() };
        let (kind, target) = (UPGRADE.to_owned(), "etcd".to_owned());
        let mut records: Vec<_> = [10, 15, 45, 90, 190, 195].map(granted).into();
        records.extend([
            lost(20),
            refused(30, "127.0.0.1:25 is closed"),
            record(40, Event::FaultBegan { fault: 3, kind, target }),
            refused(100, "127.0.0.1:2500 is closed"),
            refused(110, "127.0.0.1:2511 is closed"),
            lost(120),
            record(150, Event::FaultEnded { fault: 3 }),
            record(151, Event::Promised(promise.clone())),
            lost(180),
            lost(194),
        ]);
        records.sort_by_key(|record| record.at);
        let upgrade = summarize(&records).expect("an upgrade");
        let errors = BTreeMap::from([("N.N.N.N:N is closed".to_owned(), 2)]);
        let expected = Upgrade {
            ms: 110.0,
            grants: [2, 2, 2],
            longest_pause_ms: [5.0, 100.0],
            losses: 2,
            errors,
            durability: Some(promise),
        };
        assert_eq!(upgrade, expected);
        records.retain(|record| !matches!(record.event, Event::FaultEnded { .. }));
        assert_eq!(summarize(&records), None);
    }
}
