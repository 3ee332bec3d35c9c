//! What there is at one moment: the store, the clients, and what is under way between them.

use super::model::Bounds;

/// How many clients there are.
pub(crate) const CLIENTS: usize = 3;

/// A set of keys' numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Keys(u8);

impl Keys {
    pub(crate) fn has(self, n: u8) -> bool {
        self.0 & (1 << n) != 0
    }

    pub(crate) fn with(self, n: u8) -> Self {
        Self(self.0 | 1 << n)
    }

    /// Those that joined before this one.
    pub(crate) fn ahead_of(self, n: u8) -> Self {
        Self(self.0 & ((1 << n) - 1))
    }

    /// What one that looks from this key's place may see: those ahead, and itself.
    pub(crate) fn up_to(self, n: u8) -> Self {
        Self(self.0 & (self.ahead_of(n).0 | 1 << n))
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn nearest(self) -> Option<u8> {
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

/// One that has joined and is not in, with what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wait {
    pub(crate) own: u8,
    /// The predecessor; 0: there is none.
    pub(crate) ahead: u8,
    /// Nobody was ahead of that one.
    pub(crate) first: bool,
    /// It was seen there after we joined.
    pub(crate) seen: bool,
    /// What its reads are answered from: the queue at some moment since it joined.
    pub(crate) view: Keys,
}

/// How far a client's attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It wants nothing.
    Idle,
    /// A request to join was not answered.
    Doubt,
    /// It has joined; the reply is under way.
    Joined(Wait),
    /// It knows its predecessor, and is about to watch it.
    Behind(Wait),
    /// It is told when the predecessor's key goes.
    Watching(Wait),
    /// It was told, or has other reasons to look.
    Woken(Wait),
    /// It believes that it holds the lock. `waited`: it was not in at once.
    Holding { own: u8, waited: bool },
    /// A request to leave was not answered. 0: it does not know its key.
    Leaving(u8),
    /// Its session is over, as it knows.
    Over,
}

/// A client with one session, and the store's side of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    /// The number of the present attempt, or the last one.
    pub(crate) attempt: u8,
    /// A request of the present attempt was not answered.
    pub(crate) doubtful: bool,
    /// For how many ticks the store keeps the session at least.
    pub(crate) lease: u8,
    /// The store has ended it.
    pub(crate) expired: bool,
    /// For how many ticks the client knows that the store keeps it.
    pub(crate) deadline: u8,
    /// The reply to a keepalive is under way.
    pub(crate) renewing: bool,
    /// A request to join, of this attempt, that may be applied yet.
    pub(crate) late: Option<u8>,
    /// The attempt that is over, and whose keys are looked for again.
    pub(crate) again: Option<u8>,
    /// An operator has deleted its key while it held, or after the look that granted.
    pub(crate) robbed: bool,
}

/// A step after which a property does not hold any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Broken {
    /// It was granted while somebody stood ahead.
    Early,
    /// It was granted after one that joined later.
    Order,
    /// It was told that its key is gone, which is there.
    FalseAlarm,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// In the order in which they joined.
    pub(crate) queue: Vec<Key>,
    /// The number of the newest key that ever was.
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

    /// The nearest key of an attempt.
    pub(crate) fn key_of(&self, client: usize, attempt: u8) -> Option<u8> {
        let of = |key: &&Key| key.client == client && key.attempt == attempt;
        self.queue.iter().find(of).map(|key| key.n)
    }

    pub(crate) fn holds(&self, client: usize) -> bool {
        matches!(self.clients[client].stage, Stage::Holding { .. })
    }
}

impl Client {
    /// A client that wants nothing. The session of such a one is kept alive and has no key: it
    /// might as well have been opened or renewed just now.
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
            robbed: false,
        }
    }

    pub(crate) fn wait(&self) -> Option<Wait> {
        match self.stage {
            Stage::Joined(wait) | Stage::Behind(wait) => Some(wait),
            Stage::Watching(wait) | Stage::Woken(wait) => Some(wait),
            _ => None,
        }
    }

    /// The key that it knows for its own.
    pub(crate) fn own(&self) -> Option<u8> {
        match self.stage {
            Stage::Holding { own, .. } | Stage::Leaving(own) => Some(own).filter(|own| *own > 0),
            _ => self.wait().map(|wait| wait.own),
        }
    }

    /// Whether time matters to it.
    pub(crate) fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle | Stage::Over)
    }
}
