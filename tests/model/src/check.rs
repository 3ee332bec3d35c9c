//! Runs the checker, and tells what came of it.

use std::{
    collections::BTreeSet,
    fmt::{Debug, Display},
    hash::Hash,
    time::Instant,
};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

use crate::rule::RuleOf;

/// A model that is checked with all of its rules, and without each of them.
pub(crate) trait Checked: Model<State: Seen, Action: Seen> + Send + Sync + 'static {
    type Bounds: Copy + Display + 'static;
    type Rule: RuleOf;

    /// How much may happen in all. Everything at once would be too much: each of these sets has
    /// more of one thing.
    const BOUNDS: &'static [Self::Bounds];
    /// What takes much longer.
    const LARGE: &'static [Self::Bounds];

    /// Rules that others make up for, within these bounds.
    const SPARE: &'static [Self::Rule];

    fn within(bounds: Self::Bounds, without: Option<Self::Rule>) -> Self;

    /// Where the lack of a rule shows.
    fn bounds_without(rule: Self::Rule) -> Self::Bounds;

    fn demanded() -> Vec<Property<Self>>;

    /// Who did what, in a history.
    fn tell(before: &Self::State, step: Self::Action, after: &Self::State) -> String;

    /// What there is after it.
    fn sum_up(state: &Self::State) -> String;
}

/// What the checker wants of a state or of a step.
pub(crate) trait Seen: Clone + Debug + Hash + PartialEq + Send + Sync + 'static {}

impl<T: Clone + Debug + Hash + PartialEq + Send + Sync + 'static> Seen for T {}

type History<M> = Path<<M as Model>::State, <M as Model>::Action>;

/// Visits every state with all rules on. What shall be reached has to be so within one of the
/// bounds.
pub(crate) fn all_hold<M: Checked>(bounds: &[M::Bounds]) -> bool {
    let (mut broken, mut reached) = (BTreeSet::new(), BTreeSet::new());
    for bounds in bounds {
        let began = Instant::now();
        let checker = M::within(*bounds, None).checker().spawn_bfs().join();
        println!(
            "{bounds}: {} states, {} with repeats, depth {}, {:.0} s",
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth(),
            began.elapsed().as_secs_f64()
        );
        for (name, path) in checker.discoveries() {
            if is_demand::<M>(name) {
                println!("BROKEN: {name}");
                print::<M>(path);
                broken.insert(name);
            } else {
                reached.insert(name);
            }
        }
    }
    let mut good = true;
    for property in M::demanded() {
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
pub(crate) fn breaks<M: Checked>(rule: M::Rule) -> bool {
    println!("\nWithout {} ({})", rule.name(), rule.text());
    let bounds = M::bounds_without(rule);
    let Some((name, path)) = counterexample::<M>(bounds, rule) else {
        println!("  nothing breaks within {bounds}");
        return M::SPARE.contains(&rule);
    };
    println!("  breaks: {name}, in {} steps", length::<M>(&path));
    print::<M>(path);
    !M::SPARE.contains(&rule)
}

/// The shortest history that breaks a property without this rule, and the property.
pub(crate) fn counterexample<M: Checked>(
    bounds: M::Bounds,
    rule: M::Rule,
) -> Option<(&'static str, History<M>)> {
    let mut shortest = found_within::<M>(bounds, rule, None)?;
    // The checker goes on for some hundred states after it has found one, and keeps the last: that
    // may be a step too long.
    while let Some(found) = found_within::<M>(bounds, rule, Some(length::<M>(&shortest.1) - 1)) {
        shortest = found;
    }
    // All that break something in as many steps.
    found_within::<M>(bounds, rule, Some(length::<M>(&shortest.1)))
}

/// A history of so many steps at most; of equals, that of the first property.
fn found_within<M: Checked>(
    bounds: M::Bounds,
    rule: M::Rule,
    steps: Option<usize>,
) -> Option<(&'static str, History<M>)> {
    let mut checker = M::within(bounds, Some(rule)).checker();
    if let Some(steps) = steps {
        checker = checker.target_max_depth(steps + 2);
    }
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let demands = M::demanded().into_iter().filter(|property| is_demand::<M>(property.name));
    demands
        .filter_map(|property| Some((property.name, checker.discovery(property.name)?)))
        .min_by_key(|(_, path)| length::<M>(path))
}

pub(crate) fn length<M: Checked>(path: &History<M>) -> usize {
    path.clone().into_actions().len()
}

pub(crate) fn is_demand<M: Checked>(name: &str) -> bool {
    let demands = |expectation| expectation == Expectation::Always;
    M::demanded().into_iter().any(|one| one.name == name && demands(one.expectation))
}

/// Whether a state is one that no history may reach.
pub(crate) fn is_broken<M: Checked>(
    model: &M,
    properties: &[Property<M>],
    state: &M::State,
) -> bool {
    let broken = |property: &Property<M>| {
        property.expectation == Expectation::Always && !(property.condition)(model, state)
    };
    properties.iter().any(broken)
}

/// Prints a history: who did what, and what there is after it.
fn print<M: Checked>(path: History<M>) {
    let mut steps = path.into_vec().into_iter().peekable();
    let mut number = 1;
    while let Some((before, step)) = steps.next() {
        let (Some(step), Some((after, _))) = (step, steps.peek()) else { continue };
        let told = M::tell(&before, step, after);
        let line = format!("  {number:>2}. {told:62} {}", M::sum_up(after));
        println!("{}", line.trim_end());
        number += 1;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Nothing breaks within these bounds, and this is reached.
    pub(crate) fn holds<M: Checked>(bounds: M::Bounds, wanted: &[&str]) {
        let checker = M::within(bounds, None).checker().spawn_bfs().join();
        let found = checker.discoveries();
        let broken: Vec<_> = found.keys().filter(|name| is_demand::<M>(name)).collect();
        assert!(broken.is_empty(), "{broken:?} within {bounds}");
        for wanted in wanted {
            assert!(found.contains_key(wanted), "{wanted} within {bounds}");
        }
    }

    /// The rules without which this property breaks; each one that is not spare has to be named.
    pub(crate) fn needed<M: Checked>(rules: &[(M::Rule, M::Bounds, &str)]) {
        let named = |rule: &M::Rule| rules.iter().any(|(one, ..)| one == rule);
        assert!(M::Rule::ALL.iter().all(|rule| named(rule) != M::SPARE.contains(rule)));
        for (rule, bounds, wanted) in rules {
            let found = found_within::<M>(*bounds, *rule, None);
            assert_eq!(found.map(|(name, _)| name), Some(*wanted), "without {}", rule.name());
        }
    }

    /// Each rule has its row in the documents.
    pub(crate) fn documented<R: RuleOf>() {
        let text = include_str!("../../../docs/model.md");
        for rule in R::ALL {
            let row = format!("| `{}` | {} |", rule.name(), rule.text());
            assert!(text.contains(&row), "{row}");
        }
    }
}
