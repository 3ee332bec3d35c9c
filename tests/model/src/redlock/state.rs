//! What there is at one moment: the nodes, and the clients. Nodes are alike, so that they are kept
//! in order of what they have; what a client knows of a node is kept with that.

use super::model::Bounds;

pub(crate) const CLIENTS: usize = 2;
pub(crate) const NODES: usize = 3;

/// An attempt of a client, whose value no other one writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) client: usize,
    pub(crate) attempt: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) value: Option<Key>,
    /// For how many ticks that is kept, if its clock does not run faster.
    pub(crate) left: u8,
    pub(crate) counter: u8,
    /// For how many ticks it does not count.
    pub(crate) spoiled: u8,
    /// A request that may be applied yet.
    pub(crate) late: Option<Late>,
    /// The value came by such a one.
    pub(crate) stray: bool,
    pub(crate) seen: [Seen; CLIENTS],
}

/// What one client knows of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    /// Asked in the present phase.
    pub(crate) asked: bool,
    pub(crate) yes: bool,
    /// Asked to renew.
    pub(crate) renewed: bool,
    pub(crate) kept: bool,
    /// The value of this attempt is to be deleted there.
    pub(crate) releasing: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Late {
    Take(Key),
    /// And takes what is gone.
    Renew(Key),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It wants nothing.
    Idle,
    /// It asks the nodes, of which the highest number that any has told is this.
    Taking { highest: u8 },
    /// It has the nodes raise their counters.
    Raising { token: u8 },
    /// A majority has confirmed it; the clock has not been looked at.
    Ready { token: u8 },
    /// It has the lock.
    Holding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    pub(crate) attempt: u8,
    /// For how many ticks its lock is certain to be kept.
    pub(crate) deadline: u8,
    /// For how many it is if the renewal that was sent last counts.
    pub(crate) renewing: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) left: Bounds,
    /// The highest token that was proposed: what the clocks are above.
    pub(crate) given: u8,
    /// The highest one of a grant.
    pub(crate) granted: u8,
    pub(crate) falling: bool,
    /// Somebody was too late to be granted.
    pub(crate) too_late: bool,
}

impl State {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let client = Client { stage: Stage::Idle, attempt: 0, deadline: 0, renewing: None };
        Self {
            nodes: [Node::default(); NODES],
            clients: [client; CLIENTS],
            left: bounds,
            given: 0,
            granted: 0,
            falling: false,
            too_late: false,
        }
    }

    pub(crate) fn key(&self, client: usize) -> Key {
        Key { client, attempt: self.clients[client].attempt }
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = usize> {
        (0..CLIENTS).filter(|client| self.clients[*client].stage == Stage::Holding)
    }
}
