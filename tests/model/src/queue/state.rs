//! The state at one moment: the store, the clients, and the messages between them.

use std::{fmt::Debug, hash::Hash};

use super::model::Bounds;

/// The number of clients.
pub(crate) const CLIENTS: usize = 3;

/// The keys of a queue at one moment, as far as a waiter's rules read them.
pub(crate) trait View: Copy + Eq + Hash + Debug {
    /// The number of a key.
    type Number: Copy + Eq + Hash + Debug;

    fn has(self, key: Self::Number) -> bool;

    /// Returns the nearest key that joined before this one, and whether it is the only one.
    fn nearest_ahead_of(self, key: Self::Number) -> Option<(Self::Number, bool)>;
}

/// A set of key numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Keys(u8);

impl View for Keys {
    type Number = u8;

    fn has(self, key: u8) -> bool {
        self.0 & (1 << key) != 0
    }

    fn nearest_ahead_of(self, key: u8) -> Option<(u8, bool)> {
        let ahead = self.ahead_of(key);
        ahead.nearest().map(|nearest| (nearest, ahead.len() == 1))
    }
}

impl Keys {
    pub(crate) fn with(self, n: u8) -> Self {
        Self(self.0 | 1 << n)
    }

    /// Returns the keys that joined before this one.
    pub(crate) fn ahead_of(self, n: u8) -> Self {
        Self(self.0 & ((1 << n) - 1))
    }

    /// Returns what a look from this key's place may see: the keys ahead, and this key.
    pub(crate) fn up_to(self, n: u8) -> Self {
        Self(self.0 & (self.ahead_of(n).0 | 1 << n))
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    fn nearest(self) -> Option<u8> {
        (1..8).rev().find(|n| self.has(*n))
    }
}

/// A key in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The store's own count: its revision, its place and its fencing token.
    pub(crate) n: u8,
    pub(crate) client: usize,
    pub(crate) attempt: u8,
}

/// A client that has joined and is not granted, with what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wait<V: View = Keys> {
    pub(crate) own: V::Number,
    /// The predecessor.
    pub(crate) ahead: Option<V::Number>,
    /// No key was ahead of the predecessor.
    pub(crate) first: bool,
    /// The predecessor was seen after this client joined.
    pub(crate) seen: bool,
    /// The view of its reads: the queue at some moment since it joined.
    pub(crate) view: V,
}

/// The stage of a client's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage<V: View = Keys> {
    /// It has no attempt.
    Idle,
    /// A request to join has an unknown outcome.
    Doubt,
    /// It has joined; the reply is under way.
    Joined(Wait<V>),
    /// It knows its predecessor, and is about to watch it.
    Behind(Wait<V>),
    /// It is notified when the predecessor's key is deleted.
    Watching(Wait<V>),
    /// It was notified, or has another reason to look.
    Woken(Wait<V>),
    /// It believes that it holds the lock. `waited`: it was not granted at once.
    Holding { own: V::Number, waited: bool },
    /// A request to leave has an unknown outcome. `None`: it does not know its key.
    Leaving(Option<V::Number>),
    /// It knows that its session has ended.
    Over,
}

/// A client with one session, and the store's state of that session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    /// The number of the current attempt, or the last one.
    pub(crate) attempt: u8,
    /// A request of the current attempt has an unknown outcome.
    pub(crate) doubtful: bool,
    /// The remaining ticks for which the store keeps the session at least.
    pub(crate) lease: u8,
    /// The store has ended it.
    pub(crate) expired: bool,
    /// The ticks for which the client knows that the store keeps it.
    pub(crate) deadline: u8,
    /// The reply to a keepalive is under way.
    pub(crate) renewing: bool,
    /// The attempt of a late request to join that may still be applied.
    pub(crate) late: Option<u8>,
    /// The ended attempt whose keys are still searched for.
    pub(crate) again: Option<u8>,
    /// An operator has deleted its key while it held, or after the look that granted.
    pub(crate) evicted_while_held: bool,
}

/// How a step has broken a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// It was granted while a key was ahead.
    Early,
    /// It was granted after a client that joined later.
    Order,
    /// It learnt that its key is deleted, but the key exists.
    FalseAlarm,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// In the order in which they joined.
    pub(crate) queue: Vec<Key>,
    /// The number of the newest key so far.
    pub(crate) newest: u8,
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) left: Bounds,
    /// The highest token of a grant.
    pub(crate) granted: u8,
    /// A late write was found and deleted.
    pub(crate) cleaned: bool,
    pub(crate) broken: Option<Broken>,
}

impl State {
    pub(crate) fn keys(&self) -> Keys {
        self.queue.iter().fold(Keys::default(), |keys, key| keys.with(key.n))
    }

    /// Returns the first key of an attempt.
    pub(crate) fn key_of(&self, client: usize, attempt: u8) -> Option<u8> {
        let of = |key: &&Key| key.client == client && key.attempt == attempt;
        self.queue.iter().find(of).map(|key| key.n)
    }

    pub(crate) fn holds(&self, client: usize) -> bool {
        matches!(self.clients[client].stage, Stage::Holding { .. })
    }
}

impl Client {
    /// Returns an idle client. Its session is kept alive and has no key, as if it had just been
    /// opened or renewed.
    pub(crate) fn idle(lease: u8) -> Self {
        Self {
            stage: Stage::Idle,
            attempt: 0,
            doubtful: false,
            lease,
            expired: false,
            deadline: lease,
            renewing: false,
            late: None,
            again: None,
            evicted_while_held: false,
        }
    }

    /// Returns the key that it knows as its own.
    pub(crate) fn own(&self) -> Option<u8> {
        match self.stage {
            Stage::Holding { own, .. } => Some(own),
            Stage::Leaving(own) => own,
            _ => self.stage.wait().map(|wait| wait.own),
        }
    }

    /// Returns `true` if time matters to it.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Over)
    }
}
