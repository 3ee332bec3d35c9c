//! The steps, and when each is possible.

use stateright::Property;

use super::{
    history, properties,
    rules::Rule,
    state::{CLIENTS, Client, Stage, State},
};
use crate::check::{Checked, Histories, Next};

/// How many of each may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// The TTL of a session in ticks.
    pub(crate) ttl: u8,
    pub(crate) attempts: u8,
    /// Requests and replies that are lost or late.
    pub(crate) faults: u8,
    /// Deletions by an operator.
    pub(crate) deletes: u8,
    pub(crate) renewals: u8,
}

/// A lock on a store that keeps a queue.
pub(crate) struct Lock;

/// One of each.
pub(super) const EVERYTHING: Bounds =
    Bounds { ttl: 2, attempts: 3, faults: 1, deletes: 1, renewals: 1 };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Join(usize),
    /// The request to join is delayed, and may be applied later or never.
    JoinLate(usize),
    ApplyLate(usize),
    DropLate(usize),
    LoseReply(usize),
    JoinAnswered(usize),
    Watch(usize),
    CatchUp(usize),
    Look(usize),
    Recheck(usize),
    Leave(usize),
    LoseLeave(usize),
    LookAgain(usize),
    Renew(usize),
    RenewalAnswered(usize),
    EvictionNoticed(usize),
    GiveUp(usize),
    Expire(usize),
    Delete(u8),
    Tick,
}

impl Checked for Lock {
    type State = State;
    type Step = Step;
    type Bounds = Bounds;
    type Rule = Rule;

    const BOUNDS: &'static [Bounds] = &[
        EVERYTHING,
        Bounds { ttl: 2, attempts: 4, faults: 1, deletes: 0, renewals: 0 },
        Bounds { ttl: 2, attempts: 4, faults: 0, deletes: 1, renewals: 0 },
        Bounds { ttl: 2, attempts: 3, faults: 2, deletes: 0, renewals: 0 },
        Bounds { ttl: 2, attempts: 3, faults: 0, deletes: 1, renewals: 2 },
    ];
    const LARGE: &'static [Bounds] = Self::BOUNDS;
    const SPARE: &'static [Rule] = &[];

    fn bounds_without(_: Rule) -> Bounds {
        EVERYTHING
    }

    fn properties() -> Vec<Property<Histories<Self>>> {
        properties::all()
    }

    fn describe(before: &State, step: Step, after: &State) -> String {
        history::describe(before, step, after)
    }

    fn sum_up(state: &State) -> String {
        format!("{:14} {}", history::queue(state), history::holders(state))
    }

    fn first(bounds: Bounds) -> State {
        let clients = [Client::idle(bounds.ttl); CLIENTS];
        let (queue, left) = (Vec::new(), bounds);
        State { queue, newest: 0, clients, left, granted: 0, cleaned: false, broken: None }
    }

    fn steps(_: Bounds, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for (c, client) in state.clients.iter().enumerate() {
            let own: &[fn(usize) -> Step] = match client.stage {
                Stage::Idle => &[Step::Join, Step::JoinLate],
                Stage::Doubt => &[Step::Join, Step::Leave, Step::LoseLeave],
                Stage::Joined(_) => &[Step::LoseReply, Step::JoinAnswered],
                Stage::Behind(_) => &[Step::Watch, Step::CatchUp, Step::Leave, Step::LoseLeave],
                Stage::Watching(_) => &[Step::CatchUp, Step::Recheck, Step::Leave, Step::LoseLeave],
                Stage::Woken(_) => &[Step::Look, Step::CatchUp, Step::Leave, Step::LoseLeave],
                Stage::Holding { .. } => &[Step::EvictionNoticed, Step::Leave, Step::LoseLeave],
                Stage::Leaving(_) => &[Step::Leave],
                Stage::Over => &[],
            };
            steps.extend(own.iter().map(|step| step(c)));
            if client.is_busy() {
                steps
                    .extend([Step::Renew, Step::RenewalAnswered, Step::GiveUp].map(|step| step(c)));
            }
            steps.push(Step::Expire(c));
            if client.late.is_some() {
                steps.extend([Step::ApplyLate(c), Step::DropLate(c)]);
            }
            if client.again.is_some() {
                steps.push(Step::LookAgain(c));
            }
        }
        if state.left.deletes > 0 {
            steps.extend(state.queue.iter().map(|key| Step::Delete(key.n)));
        }
    }

    fn take(next: &mut Next<'_, Self>, step: Step) -> Option<()> {
        next.take(step)
    }
}
