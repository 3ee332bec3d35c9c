//! The steps, and when each is possible.

use stateright::Property;

use super::{
    history, properties,
    rules::Rule,
    state::{CLIENTS, NODES, Stage, State},
};
use crate::check::{Checked, Histories, Next};

/// How many of each may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// The ticks for which a node keeps a value, by its own clock.
    pub(crate) ttl: u8,
    pub(crate) attempts: u8,
    pub(crate) renewals: u8,
    /// Lost replies and late requests.
    pub(crate) faults: u8,
    /// Restarts of a node without data.
    pub(crate) restarts: u8,
    /// A node's clock is set forward: its value expires.
    pub(crate) jumps: u8,
}

/// Nodes that know nothing of each other.
pub(crate) struct Redlock;

/// With the client, or the client and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Tick,
    Begin(usize),
    Take(usize, usize),
    /// The node has done so, but its reply is lost.
    TakeUnheard(usize, usize),
    TakeLate(usize, usize),
    Propose(usize),
    Raise(usize, usize),
    RaiseUnheard(usize, usize),
    Grant(usize),
    GiveUp(usize),
    Unlock(usize),
    Renew(usize),
    Extend(usize, usize),
    ExtendUnheard(usize, usize),
    ExtendLate(usize, usize),
    Release(usize, usize),
    ApplyLate(usize),
    DropLate(usize),
    /// A node's value expires.
    End(usize),
    Restart(usize),
    Jump(usize),
}

pub(super) const SMALL: Bounds =
    Bounds { ttl: 2, attempts: 2, renewals: 0, faults: 0, restarts: 0, jumps: 0 };
const DISTURBED: Bounds = Bounds { faults: 1, ..SMALL };
const THREE: Bounds = Bounds { attempts: 3, ..SMALL };
const RENEWED: Bounds = Bounds { ttl: 3, renewals: 2, ..SMALL };
const RESTARTED: Bounds = Bounds { restarts: 1, renewals: 1, ..SMALL };
const CLOCK_SET: Bounds = Bounds { jumps: 1, ..SMALL };

/// A step of one client, and one of its steps with one node.
type OfClient = fn(usize) -> Step;
type OfNode = fn(usize, usize) -> Step;

impl Checked for Redlock {
    type State = State;
    type Step = Step;
    type Bounds = Bounds;
    type Rule = Rule;

    const BOUNDS: &'static [Bounds] = &[DISTURBED, Bounds { renewals: 2, ..SMALL }, RESTARTED];
    const LARGE: &'static [Bounds] = &[
        THREE,
        RENEWED,
        CLOCK_SET,
        Bounds { faults: 1, ..RENEWED },
        Bounds { restarts: 2, ..RESTARTED },
        Bounds { faults: 1, ..RESTARTED },
    ];
    const SPARE: &'static [Rule] = &[Rule::OnlyMine];

    fn bounds_without(rule: Rule) -> Bounds {
        match rule {
            Rule::OneSending | Rule::SentSince => RENEWED,
            Rule::ReadFirst => THREE,
            Rule::Restarted | Rule::Clocks => RESTARTED,
            Rule::ClockSet => CLOCK_SET,
            Rule::ReleaseAll => DISTURBED,
            _ => SMALL,
        }
    }

    fn properties() -> Vec<Property<Histories<Self>>> {
        properties::all()
    }

    fn describe(before: &State, step: Step, after: &State) -> String {
        history::describe(before, step, after)
    }

    fn sum_up(state: &State) -> String {
        history::sum_up(state)
    }

    fn first(bounds: Bounds) -> State {
        State::new(bounds)
    }

    fn steps(_: Bounds, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for c in 0..CLIENTS {
            let (own, each): (&[OfClient], &[OfNode]) = match state.clients[c].stage {
                Stage::Idle => (&[Step::Begin], &[]),
                Stage::Taking { .. } => (
                    &[Step::Propose, Step::GiveUp],
                    &[Step::Take, Step::TakeUnheard, Step::TakeLate],
                ),
                Stage::Raising { .. } => (&[Step::GiveUp], &[Step::Raise, Step::RaiseUnheard]),
                Stage::Ready { .. } => (&[Step::Grant, Step::GiveUp], &[]),
                Stage::Holding => (
                    &[Step::Unlock, Step::Renew],
                    &[Step::Extend, Step::ExtendUnheard, Step::ExtendLate],
                ),
            };
            steps.extend(own.iter().map(|step| step(c)));
            for n in 0..NODES {
                steps.extend(each.iter().map(|step| step(c, n)));
                steps.push(Step::Release(c, n));
            }
        }
        for n in 0..NODES {
            steps.extend([Step::End(n), Step::Restart(n), Step::Jump(n)]);
            steps.extend([Step::ApplyLate(n), Step::DropLate(n)]);
        }
    }

    fn take(next: &mut Next<'_, Self>, step: Step) -> Option<()> {
        next.take(step)
    }
}
