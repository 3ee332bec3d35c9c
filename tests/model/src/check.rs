//! Runs the checker and prints its results.

use std::{collections::BTreeSet, fmt::Debug, hash::Hash, time::Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

use crate::rule::RuleOf;

/// An algorithm that is checked with all of its rules, and without each of them.
pub(crate) trait Checked: Sized + Send + Sync + 'static {
    type State: Seen;
    type Step: Seen + Copy;
    type Bounds: Copy + Debug + Send + Sync + 'static;
    type Rule: RuleOf;

    /// The bounds to check. All limits at once would give too many states, so each set raises one.
    const BOUNDS: &'static [Self::Bounds];
    /// Bounds that take much longer.
    const LARGE: &'static [Self::Bounds];

    /// Rules that other rules make redundant within these bounds.
    const SPARE: &'static [Self::Rule];

    /// Returns bounds within which the lack of a rule breaks a property.
    fn bounds_without(rule: Self::Rule) -> Self::Bounds;

    /// Returns the invariants, and the situations that must be reached.
    fn properties() -> Vec<Property<Histories<Self>>>;

    fn first(bounds: Self::Bounds) -> Self::State;

    /// Adds the steps that may be possible in a state.
    fn steps(bounds: Self::Bounds, state: &Self::State, steps: &mut Vec<Self::Step>);

    /// Takes a step. Returns `None` if it is not possible in this state.
    fn take(next: &mut Next<'_, Self>, step: Self::Step) -> Option<()>;

    /// Describes a step of a history.
    fn describe(before: &Self::State, step: Self::Step, after: &Self::State) -> String;

    /// Describes the state after a step.
    fn sum_up(state: &Self::State) -> String;
}

/// All histories of an algorithm within some bounds.
pub(crate) struct Histories<A: Checked> {
    pub(crate) bounds: A::Bounds,
    without: Option<A::Rule>,
    properties: Vec<Property<Self>>,
}

/// A state that becomes the next one.
pub(crate) struct Next<'a, A: Checked> {
    pub(crate) bounds: A::Bounds,
    pub(crate) state: A::State,
    histories: &'a Histories<A>,
}

impl<A: Checked> Next<'_, A> {
    pub(crate) fn on(&self, rule: A::Rule) -> bool {
        self.histories.without != Some(rule)
    }
}

impl<A: Checked> Histories<A> {
    pub(crate) fn within(bounds: A::Bounds, without: Option<A::Rule>) -> Self {
        Self { bounds, without, properties: A::properties() }
    }
}

impl<A: Checked> Model for Histories<A> {
    type State = A::State;
    type Action = A::Step;

    fn init_states(&self) -> Vec<A::State> {
        vec![A::first(self.bounds)]
    }

    fn actions(&self, state: &A::State, steps: &mut Vec<A::Step>) {
        // A history ends when it breaks a property.
        let broken = |property: &Property<Self>| {
            property.expectation == Expectation::Always && !(property.condition)(self, state)
        };
        if self.without.is_none() || !self.properties.iter().any(broken) {
            A::steps(self.bounds, state, steps);
        }
    }

    fn next_state(&self, state: &A::State, step: A::Step) -> Option<A::State> {
        let mut next = Next { bounds: self.bounds, state: state.clone(), histories: self };
        A::take(&mut next, step)?;
        Some(next.state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.properties.clone()
    }
}

/// The traits that the checker requires of states and steps.
pub(crate) trait Seen: Clone + Debug + Hash + PartialEq + Send + Sync + 'static {}

impl<T: Clone + Debug + Hash + PartialEq + Send + Sync + 'static> Seen for T {}

type History<A> = Path<<A as Checked>::State, <A as Checked>::Step>;

/// Visits every state with all rules. Each required situation must be reached within at least one
/// of the bounds.
pub(crate) fn all_hold<A: Checked>(bounds: &[A::Bounds]) -> bool {
    let (mut broken, mut reached) = (BTreeSet::new(), BTreeSet::new());
    for bounds in bounds {
        let began = Instant::now();
        let checker = Histories::<A>::within(*bounds, None).checker().spawn_bfs().join();
        println!(
            "{bounds:?}: {} states, {} with repeats, depth {}, {:.0} s",
            checker.unique_state_count(),
            checker.state_count(),
            checker.max_depth(),
            began.elapsed().as_secs_f64()
        );
        for (name, path) in checker.discoveries() {
            if is_demand::<A>(name) {
                println!("BROKEN: {name}");
                print::<A>(path);
                broken.insert(name);
            } else {
                reached.insert(name);
            }
        }
    }
    let mut good = true;
    for property in A::properties() {
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
pub(crate) fn breaks<A: Checked>(rule: A::Rule) -> bool {
    println!("\nWithout {} ({})", rule.name(), rule.text());
    let bounds = A::bounds_without(rule);
    let Some((name, path)) = counterexample::<A>(bounds, rule) else {
        println!("  nothing breaks within {bounds:?}");
        return A::SPARE.contains(&rule);
    };
    println!("  breaks: {name}, in {} steps", length::<A>(&path));
    print::<A>(path);
    !A::SPARE.contains(&rule)
}

/// Returns a shortest history that breaks a property without this rule, and the property.
pub(crate) fn counterexample<A: Checked>(
    bounds: A::Bounds,
    rule: A::Rule,
) -> Option<(&'static str, History<A>)> {
    let mut shortest = found_within::<A>(bounds, rule, None)?;
    // The checker continues for some hundred states after a discovery and keeps the last one, which
    // may be a step longer.
    while let Some(found) = found_within::<A>(bounds, rule, Some(length::<A>(&shortest.1) - 1)) {
        shortest = found;
    }
    // Collects every property that breaks after the same number of steps.
    found_within::<A>(bounds, rule, Some(length::<A>(&shortest.1)))
}

/// Returns a history of at most this length; of equals, the one of the first property.
fn found_within<A: Checked>(
    bounds: A::Bounds,
    rule: A::Rule,
    steps: Option<usize>,
) -> Option<(&'static str, History<A>)> {
    let mut checker = Histories::<A>::within(bounds, Some(rule)).checker();
    if let Some(steps) = steps {
        checker = checker.target_max_depth(steps + 2);
    }
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let demands = A::properties().into_iter().filter(|property| is_demand::<A>(property.name));
    demands
        .filter_map(|property| Some((property.name, checker.discovery(property.name)?)))
        .min_by_key(|(_, path)| length::<A>(path))
}

pub(crate) fn length<A: Checked>(path: &History<A>) -> usize {
    path.clone().into_actions().len()
}

pub(crate) fn is_demand<A: Checked>(name: &str) -> bool {
    let demands = |expectation| expectation == Expectation::Always;
    A::properties().into_iter().any(|one| one.name == name && demands(one.expectation))
}

/// Prints a history: each step and the state after it.
fn print<A: Checked>(path: History<A>) {
    let mut steps = path.into_vec().into_iter().peekable();
    let mut number = 1;
    while let Some((before, step)) = steps.next() {
        let (Some(step), Some((after, _))) = (step, steps.peek()) else { continue };
        let step = A::describe(&before, step, after);
        let line = format!("  {number:>2}. {step:62} {}", A::sum_up(after));
        println!("{}", line.trim_end());
        number += 1;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Checks that nothing breaks within these bounds, and that the given situations are reached.
    pub(crate) fn holds<A: Checked>(bounds: A::Bounds, wanted: &[&str]) {
        let checker = Histories::<A>::within(bounds, None).checker().spawn_bfs().join();
        let found = checker.discoveries();
        let broken: Vec<_> = found.keys().filter(|name| is_demand::<A>(name)).collect();
        assert!(broken.is_empty(), "{broken:?} within {bounds:?}");
        for wanted in wanted {
            assert!(found.contains_key(wanted), "{wanted} within {bounds:?}");
        }
    }

    /// Checks that each property breaks without its rule. Every rule that is not in `SPARE` must be
    /// listed.
    pub(crate) fn needed<A: Checked>(rules: &[(A::Rule, A::Bounds, &str)]) {
        let named = |rule: &A::Rule| rules.iter().any(|(one, ..)| one == rule);
        assert!(A::Rule::ALL.iter().all(|rule| named(rule) != A::SPARE.contains(rule)));
        for (rule, bounds, wanted) in rules {
            let found = found_within::<A>(*bounds, *rule, None);
            assert_eq!(found.map(|(name, _)| name), Some(*wanted), "without {}", rule.name());
        }
    }

    /// Checks that each rule has a row in the documentation.
    pub(crate) fn documented<R: RuleOf>() {
        let text = include_str!("../../../docs/design/model.md");
        for rule in R::ALL {
            let row = format!("| `{}` | {} |", rule.name(), rule.text());
            assert!(text.contains(&row), "{row}");
        }
    }
}
