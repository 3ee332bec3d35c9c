//! Runs the checker, and tells what came of it.

use std::{collections::BTreeSet, time::Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

use crate::{
    history,
    model::{Bounds, Lock, Step},
    properties,
    rules::Rule,
    state::State,
};

/// How much may happen in all. Everything at once would be too much: each of these sets has more
/// of one thing.
pub(crate) const BOUNDS: &[Bounds] = &[
    EVERYTHING,
    Bounds { ttl: 2, attempts: 4, faults: 1, deletes: 0, renewals: 0 },
    Bounds { ttl: 2, attempts: 4, faults: 0, deletes: 1, renewals: 0 },
    Bounds { ttl: 2, attempts: 3, faults: 2, deletes: 0, renewals: 0 },
    Bounds { ttl: 2, attempts: 3, faults: 0, deletes: 1, renewals: 2 },
];

/// One of each.
const EVERYTHING: Bounds = Bounds { ttl: 2, attempts: 3, faults: 1, deletes: 1, renewals: 1 };

type History = Path<State, Step>;

/// Visits every state with all rules on. What shall be reached has to be so within one of the
/// bounds.
pub(crate) fn all_hold(bounds: &[Bounds]) -> bool {
    let (mut broken, mut reached) = (BTreeSet::new(), BTreeSet::new());
    for bounds in bounds {
        let began = Instant::now();
        let lock = Lock::new(*bounds, None);
        let checker = lock.checker().spawn_bfs().join();
        println!(
            "{bounds}: {} states, {} with repeats, depth {}, {:.0} s",
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth(),
            began.elapsed().as_secs_f64()
        );
        for (name, path) in checker.discoveries() {
            if is_demand(name) {
                println!("BROKEN: {name}");
                history::print(path);
                broken.insert(name);
            } else {
                reached.insert(name);
            }
        }
    }
    let mut good = true;
    for property in properties::all() {
        let demand = property.expectation == Expectation::Always;
        let (as_it_should, how) = match (demand, property.name) {
            (true, name) if broken.contains(name) => (false, "BROKEN"),
            (true, _) => (true, "always"),
            (false, name) if reached.contains(name) => (true, "reached"),
            (false, _) => (false, "NEVER REACHED"),
        };
        println!("{how:>13}  {}", property.name);
        good &= as_it_should;
    }
    good
}

/// Leaves a rule out, and prints the shortest history that breaks a property.
pub(crate) fn breaks(rule: Rule) -> bool {
    println!("\nWithout {} ({})", rule.name(), rule.text());
    let Some((name, path)) = counterexample(EVERYTHING, rule) else {
        println!("  nothing breaks within {EVERYTHING}");
        return false;
    };
    println!("  breaks: {name}");
    history::print(path);
    true
}

/// The shortest history that breaks a property without this rule, and the property.
fn counterexample(bounds: Bounds, rule: Rule) -> Option<(&'static str, History)> {
    let mut shortest = found_within(bounds, rule, None)?;
    // The checker goes on for some hundred states after it has found one, and keeps the last: that
    // may be a step too long.
    while let Some(found) = found_within(bounds, rule, Some(length(&shortest.1) - 1)) {
        shortest = found;
    }
    // All that break something in as many steps.
    found_within(bounds, rule, Some(length(&shortest.1)))
}

/// A history of so many steps at most; of equals, that of the first property.
fn found_within(
    bounds: Bounds,
    rule: Rule,
    steps: Option<usize>,
) -> Option<(&'static str, History)> {
    let mut checker = Lock::new(bounds, Some(rule)).checker();
    if let Some(steps) = steps {
        checker = checker.target_max_depth(steps + 2);
    }
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let demands = properties::all().into_iter().filter(|property| is_demand(property.name));
    demands
        .filter_map(|property| Some((property.name, checker.discovery(property.name)?)))
        .min_by_key(|(_, path)| length(path))
}

fn length(path: &History) -> usize {
    path.clone().into_actions().len()
}

fn is_demand(name: &str) -> bool {
    let demands = |expectation| expectation == Expectation::Always;
    properties::all().into_iter().any(|one| one.name == name && demands(one.expectation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bounds_with_all_rules_break_nothing() {
        let two = Bounds { attempts: 2, ..EVERYTHING };
        let three = Bounds { faults: 0, renewals: 0, ..EVERYTHING };
        for (bounds, wanted) in [(two, "late write cleaned up"), (three, "cancel in the middle")] {
            let checker = Lock::new(bounds, None).checker().spawn_bfs().join();
            let found = checker.discoveries();
            let broken: Vec<_> = found.keys().filter(|name| is_demand(name)).collect();
            assert!(broken.is_empty(), "{broken:?} within {bounds}");
            assert!(found.contains_key(wanted), "{wanted} within {bounds}");
        }
    }

    #[test]
    fn every_rule_is_needed() {
        let needed = [
            (Rule::FromSending, 2, "exclusion"),
            (Rule::EndsAtDeadline, 2, "exclusion"),
            (Rule::ProvedGrant, 2, "exclusion"),
            (Rule::MissingTold, 3, "no lost wake-up"),
            (Rule::OwnKey, 2, "exclusion"),
            (Rule::First, 3, "no early grant"),
            (Rule::Seen, 3, "no early grant"),
            (Rule::NotBehind, 2, "no false alarm"),
            (Rule::OneKey, 2, "no orphan"),
            (Rule::UntilConfirmed, 2, "no orphan"),
            (Rule::LookAgain, 2, "no orphan"),
        ];
        assert!(Rule::ALL.iter().all(|rule| needed.iter().any(|(one, ..)| one == rule)));
        for (rule, attempts, wanted) in needed {
            let found = counterexample(Bounds { attempts, ..EVERYTHING }, rule);
            assert_eq!(found.map(|(name, _)| name), Some(wanted), "without {}", rule.name());
        }
    }

    #[test]
    fn every_rule_has_its_row_in_the_documents() {
        let text = include_str!("../../../docs/model.md");
        for rule in Rule::ALL {
            assert!(text.contains(&format!("| `{}` | {} |", rule.name(), rule.text())));
        }
    }
}
