//! I9: the library's telemetry matches what the workers saw.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    args::Run,
    event::{Event, Outcome, Record},
    primitive::Primitive,
    report::{Invariant, Report, Tally},
    telemetry::{ACQUIRE, GAUGES, GRANTED, HOLD, LOSSES, LOST, RELEASED},
};

/// One hold, by its worker, its lock and its token.
type Key<'a> = (&'a str, String, u64);

/// What the library's log and the worker report about a hold.
#[derive(Debug, Default)]
struct Hold {
    granted: usize,
    released: usize,
    lost: usize,
    seen: Seen,
}

/// What the worker saw.
#[derive(Debug, Default)]
struct Seen {
    granted: bool,
    lost: bool,
    released: Option<Outcome>,
}

/// The sums of the metrics of one worker's lock.
#[derive(Debug, Default, PartialEq)]
struct Sums {
    granted: f64,
    released: f64,
    lost: f64,
    /// The losses by another metric.
    losses: f64,
}

pub(super) fn check(run: &Run, records: &[Record], report: &mut Report) {
    let mut tally = Tally::default();
    let mut holds = BTreeMap::<Key<'_>, Hold>::new();
    let mut sums = BTreeMap::<(&str, String), Sums>::new();
    let mut gauges = BTreeMap::<(&str, String), f64>::new();
    let (mut workers, mut ended_well) = (BTreeSet::new(), BTreeSet::new());
    for Record { by, event, .. } in records {
        let key = |lock: &str, token: u64| (by.as_str(), lock.to_owned(), token);
        match event {
            Event::Logged { message, fields, .. } => {
                tally.lines += 1;
                let Some(token) = fields.get("token").and_then(|token| token.parse().ok()) else {
                    continue;
                };
                let Some(lock) = lock(fields, "name") else { continue };
                let hold = holds.entry(key(&lock, token)).or_default();
                match &**message {
                    GRANTED => (hold.granted, tally.grants) = (hold.granted + 1, tally.grants + 1),
                    RELEASED => {
                        (hold.released, tally.releases) = (hold.released + 1, tally.releases + 1);
                    }
                    message if message.starts_with(LOST) => {
                        (hold.lost, tally.losses) = (hold.lost + 1, tally.losses + 1);
                    }
                    _ => {}
                }
            }
            Event::Measured { metric, labels, value } => {
                tally.lines += 1;
                if GAUGES.contains(&&**metric) {
                    *gauges.entry((by, format!("{metric} {labels:?}"))).or_default() += value;
                }
                let Some(lock) = lock(labels, "lock") else { continue };
                let sums = sums.entry((by, lock)).or_default();
                match (&**metric, labels.get("outcome").map(String::as_str)) {
                    (ACQUIRE, Some("acquired")) => sums.granted += 1.0,
                    (HOLD, Some("released")) => sums.released += 1.0,
                    (HOLD, Some("lost")) => sums.lost += 1.0,
                    (LOSSES, _) => sums.losses += value,
                    _ => {}
                }
            }
            Event::Granted { lock, token, .. } => {
                holds.entry(key(lock, *token)).or_default().seen.granted = true;
            }
            Event::Lost { lock, token, .. } => {
                holds.entry(key(lock, *token)).or_default().seen.lost = true;
            }
            Event::Released { lock, token, outcome } => {
                holds.entry(key(lock, *token)).or_default().seen.released = Some(outcome.clone());
            }
            Event::Spawned { worker } => {
                workers.insert(worker.as_str());
            }
            Event::Exited { worker, killed: false, clean: true } => {
                ended_well.insert(worker.as_str());
            }
            _ => {}
        }
    }
    report.telemetry = Some(tally);
    let mut wrong = |what: String| report.violated(Invariant::Telemetry, what);
    // When several locks are acquired, some may be held before another one turns out to be
    // unavailable.
    let partly = matches!(run.primitive, Primitive::LockAll | Primitive::All);
    // Strangers use other libraries.
    for ((by, lock, token), hold) in holds.iter().filter(|((by, ..), _)| workers.contains(by)) {
        let over = ended_well.contains(by);
        if let Some(fault) = hold.fault(lock, over, partly && !lock.contains('!')) {
            wrong(format!("{by}: {lock} {token}: {fault}: {hold:?}"));
        }
        let sums = sums.entry((by, lock.clone())).or_default();
        sums.granted -= hold.granted as f64;
        sums.released -= hold.released as f64;
        sums.lost -= hold.lost as f64;
        sums.losses -= hold.lost as f64;
    }
    for ((by, lock), sums) in sums.iter().filter(|((by, _), _)| ended_well.contains(by)) {
        if *sums != Sums::default() {
            wrong(format!("{by}: {lock}: the metrics exceed the log by {sums:?}"));
        }
    }
    for ((by, gauge), value) in gauges.iter().filter(|((by, _), _)| ended_well.contains(by)) {
        if *value != 0.0 {
            wrong(format!("{by}: {gauge} ends as {value}"));
        }
    }
}

/// Returns the lock's name in the history.
fn lock(fields: &BTreeMap<String, String>, name: &str) -> Option<String> {
    let end = match &**fields.get("primitive")? {
        "reader" | "writer" => "!rw",
        "semaphore" => "!permits",
        "election" => "!election",
        _ => "",
    };
    Some(format!("{}{end}", fields.get(name)?))
}

impl Hold {
    /// Returns what is wrong with a hold. `over`: its process ended normally, so that everything
    /// has been reported. `unseen`: the worker may never have seen the hold.
    fn fault(&self, lock: &str, over: bool, unseen: bool) -> Option<&'static str> {
        let Self { granted, released, lost, seen } = self;
        let unlocked = matches!(seen.released, Some(Outcome::Done));
        // The error names one of several locks.
        let named = format!("the lock {:?} was lost", lock.split('!').next().unwrap_or_default());
        let refused = match &seen.released {
            Some(Outcome::Refused(why)) => why.contains(&named),
            _ => false,
        };
        if *granted > 1 || released + lost > 1 {
            Some("reported twice")
        } else if *granted == 0 {
            Some("the grant is not reported")
        } else if over && !seen.granted && !unseen {
            Some("a grant that no call returned")
        } else if (seen.lost || refused) && *lost == 0 {
            Some("the loss is not reported")
        } else if unlocked && *released == 0 {
            Some("the release is not reported")
        } else if over && released + lost == 0 {
            Some("its end is not reported")
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(reported: [usize; 3], lost: bool, outcome: Option<Outcome>) -> Hold {
        let [granted, released, lost_reports] = reported;
        let seen = Seen { granted: true, lost, released: outcome };
        Hold { granted, released, lost: lost_reports, seen }
    }

    #[test]
    fn single_reports_pass() {
        let refused = || Outcome::Refused("the lock \"red\" was lost before it was".to_owned());
        for right in [
            hold([1, 1, 0], false, Some(Outcome::Done)),
            hold([1, 1, 0], false, Some(Outcome::Nothing)),
            hold([1, 0, 1], false, Some(Outcome::Nothing)),
            hold([1, 0, 1], true, Some(refused())),
            hold([1, 0, 1], false, Some(refused())),
            hold([1, 1, 0], false, Some(Outcome::Refused("not confirmed yet".to_owned()))),
        ] {
            assert_eq!(right.fault("red", true, false), None, "{right:?}");
        }
        for wrong in [
            hold([0, 1, 0], false, Some(Outcome::Done)),
            hold([2, 1, 0], false, Some(Outcome::Done)),
            hold([1, 1, 1], true, Some(refused())),
            hold([1, 2, 0], false, Some(Outcome::Done)),
            hold([1, 0, 0], false, Some(Outcome::Nothing)),
            hold([1, 0, 1], false, Some(Outcome::Done)),
            hold([1, 1, 0], true, Some(refused())),
        ] {
            assert!(wrong.fault("red", true, false).is_some(), "{wrong:?}");
        }
        // A killed process may not have reported it.
        assert_eq!(hold([1, 0, 0], false, None).fault("red", false, false), None);
        let mut unseen = hold([1, 1, 0], false, None);
        unseen.seen.granted = false;
        assert_eq!(unseen.fault("red", true, true), None);
        assert!(unseen.fault("red", true, false).is_some());
    }
}
