//! The steps, and when each is possible.

use stateright::Property;

use super::{
    history, properties,
    rules::Rule,
    state::{CLIENTS, SERVERS, Stage, State},
};
use crate::check::{Checked, Histories, Next};

/// How many of each may still happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(crate) servers: usize,
    /// The TTL of a session in ticks.
    pub(crate) ttl: u8,
    pub(crate) attempts: u8,
    /// Sessions opened later.
    pub(crate) sessions: u8,
    pub(crate) beats: u8,
    /// Promotions of a replica to a primary.
    pub(crate) promotions: u8,
    /// Primaries that become replicas of another server.
    pub(crate) follows: u8,
    /// Restarts of a server without data.
    pub(crate) wipes: u8,
    /// Restarts of a server without its last writes.
    pub(crate) forgets: u8,
}

/// A primary with its replicas.
pub(crate) struct Failover;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Tick,
    /// A client opens its session on a server.
    Open(usize, usize),
    /// It connects to another server.
    Move(usize, usize),
    Join(usize),
    Look(usize),
    Beat(usize),
    /// It learns that enough replicas have its keepalive.
    Proved(usize),
    Leave(usize),
    Replicate(usize),
    Promote(usize),
    Follow(usize, usize),
    Wipe(usize),
    Forget(usize),
}

pub(super) const SMALL: Bounds = Bounds {
    servers: 2,
    ttl: 2,
    attempts: 1,
    sessions: 0,
    beats: 3,
    promotions: 1,
    follows: 0,
    wipes: 0,
    forgets: 0,
};

const FOLLOWS: Bounds = Bounds { follows: 1, ..SMALL };
const WIPES: Bounds = Bounds { promotions: 0, sessions: 1, wipes: 1, ..SMALL };
/// A server is promoted for the second time, after it has followed the other one.
const TWICE: Bounds = Bounds { promotions: 2, follows: 2, forgets: 1, ..SMALL };
const FORGETS: Bounds = Bounds { forgets: 1, ..SMALL };

impl Checked for Failover {
    type State = State;
    type Step = Step;
    type Bounds = Bounds;
    type Rule = Rule;

    const BOUNDS: &'static [Bounds] = &[SMALL, FOLLOWS, WIPES, FORGETS];
    const LARGE: &'static [Bounds] = &[
        Bounds { beats: 4, follows: 2, ..SMALL },
        Bounds { servers: 3, follows: 1, ..SMALL },
        Bounds { beats: 4, follows: 1, forgets: 1, ..SMALL },
        TWICE,
    ];
    const SPARE: &'static [Rule] = &[Rule::AckedGrants, Rule::SameServer];

    fn bounds_without(rule: Rule) -> Bounds {
        match rule {
            Rule::SentSince => SMALL,
            Rule::AckedBeats => FOLLOWS,
            Rule::AllReplicas => Bounds { servers: 3, follows: 1, beats: 2, ..SMALL },
            Rule::PromotedEmpty => Bounds { sessions: 1, follows: 2, beats: 2, ..SMALL },
            Rule::EachTime => Bounds { beats: 1, ..TWICE },
            Rule::AckedGrants | Rule::SameServer => FOLLOWS,
            Rule::Quarantine | Rule::WholeTtl | Rule::LostWrites => FORGETS,
            Rule::OneTtl | Rule::YoungEmpty | Rule::ClockTokens => WIPES,
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

    fn steps(bounds: Bounds, state: &State, steps: &mut Vec<Step>) {
        steps.push(Step::Tick);
        for c in 0..CLIENTS {
            let own: &[fn(usize) -> Step] = match state.clients[c].stage {
                Stage::Over => {
                    steps.extend((0..SERVERS).map(|s| Step::Open(c, s)));
                    continue;
                }
                Stage::Idle => &[Step::Join],
                Stage::Waiting { .. } | Stage::Unblocked { .. } => &[Step::Look, Step::Leave],
                Stage::Holding { .. } => &[Step::Leave],
            };
            steps.extend(own.iter().map(|step| step(c)));
            steps.extend([Step::Beat(c), Step::Proved(c)]);
            steps.extend((0..SERVERS).map(|s| Step::Move(c, s)));
        }
        for s in 0..bounds.servers {
            steps.extend([Step::Replicate(s), Step::Promote(s)]);
            steps.extend([Step::Wipe(s), Step::Forget(s)]);
            steps.extend((0..bounds.servers).map(|to| Step::Follow(s, to)));
        }
    }

    fn take(next: &mut Next<'_, Self>, step: Step) -> Option<()> {
        next.take(step)
    }
}
