//! The state at one moment: the nodes and the clients. Nodes are alike, so they are sorted by their
//! data; what a client knows of a node is stored with the node.

use super::model::Bounds;

pub(crate) const CLIENTS: usize = 2;
pub(crate) const NODES: usize = 3;

/// An attempt of a client. Its value is unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) client: usize,
    pub(crate) attempt: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    pub(crate) value: Option<Key>,
    /// The remaining ticks for which the value is kept, unless the node's clock runs faster.
    pub(crate) left: u8,
    pub(crate) counter: u8,
    /// The remaining ticks for which the node does not count.
    pub(crate) spoiled: u8,
    /// A request that may still be applied.
    pub(crate) late: Option<Late>,
    /// A late request wrote the value.
    pub(crate) stray: bool,
    pub(crate) seen: [Seen; CLIENTS],
}

/// What one client knows of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    /// Asked in the current phase.
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
    /// Also takes a value that has expired.
    Renew(Key),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It has no attempt.
    Idle,
    /// It asks the nodes; this is the highest number that any of them has returned.
    Taking { highest: u8 },
    /// It has the nodes raise their counters.
    Raising { token: u8 },
    /// A majority has confirmed the token; the deadline is not yet checked.
    Ready { token: u8 },
    /// It has the lock.
    Holding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    pub(crate) attempt: u8,
    /// The ticks for which its lock is certainly kept.
    pub(crate) deadline: u8,
    /// The ticks for which it is kept if the last renewal counts.
    pub(crate) renewing: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) nodes: [Node; NODES],
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) left: Bounds,
    /// The highest token that was proposed; all clocks are above it.
    pub(crate) given: u8,
    /// The highest token of a grant.
    pub(crate) granted: u8,
    pub(crate) falling: bool,
    /// A client was too late to be granted.
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
