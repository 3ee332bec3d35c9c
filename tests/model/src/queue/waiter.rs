//! The steps of a waiter, with the rules that decide them.
//!
//! The model and the [replay](super::replay) of a trace both take them. They depend on the waiter's
//! own knowledge alone, for any number of clients and keys.

use super::{
    rules::Rule,
    state::{Stage, View, Wait},
};

/// The outcome of a step that may end the waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn<V: View> {
    Waits(Stage<V>),
    /// The lock is granted, unless the deadline has passed.
    Granted(Wait<V>),
    /// Its key is deleted.
    Evicted(V::Number),
}

impl<V: View> Wait<V> {
    /// Returns what a client knows that has read the queue.
    pub(super) fn read(own: V::Number, view: V) -> Self {
        let (ahead, first) = nearest(view, own);
        Self { own, ahead, first, seen: true, view }
    }

    /// Returns what a client knows whose request to join has created its key. `last` joined just
    /// before. The reply names `last` by its number alone, so it may be deleted.
    pub(super) fn joined(own: V::Number, last: Option<V::Number>, view: V) -> Self {
        let (nearest, first) = nearest(view, own);
        Self { own, ahead: nearest.and(last), first, seen: false, view }
    }
}

fn nearest<V: View>(view: V, own: V::Number) -> (Option<V::Number>, bool) {
    view.nearest_ahead_of(own).map_or((None, false), |(ahead, first)| (Some(ahead), first))
}

impl<V: View> Stage<V> {
    pub(super) fn wait(self) -> Option<Wait<V>> {
        match self {
            Self::Joined(wait) | Self::Behind(wait) => Some(wait),
            Self::Watching(wait) | Self::Woken(wait) => Some(wait),
            _ => None,
        }
    }

    /// The reply to the request to join arrives.
    pub(super) fn answered(self) -> Option<Turn<V>> {
        let Self::Joined(wait) = self else { return None };
        Some(match wait.ahead {
            None => Turn::Granted(wait),
            Some(_) => Turn::Waits(Self::Behind(wait)),
        })
    }

    /// The client watches its predecessor.
    pub(super) fn watches(self, on: impl Fn(Rule) -> bool) -> Option<Self> {
        let Self::Behind(mut wait) = self else { return None };
        let there = wait.ahead.is_some_and(|ahead| wait.view.has(ahead));
        wait.seen |= there;
        let waits = there || !on(Rule::MissingReported);
        Some(if waits { Self::Watching(wait) } else { Self::Woken(wait) })
    }

    /// The client's server catches up to `now`, and sends the events of its watches.
    pub(super) fn catches_up(self, now: V) -> Option<Self> {
        let mut wait = self.wait()?;
        if matches!(self, Self::Joined(_)) || wait.view == now {
            return None;
        }
        let gone = wait.ahead.is_some_and(|ahead| wait.view.has(ahead) && !now.has(ahead));
        wait.view = now;
        Some(match self {
            Self::Behind(_) => Self::Behind(wait),
            Self::Watching(_) if !gone => Self::Watching(wait),
            _ => Self::Woken(wait),
        })
    }

    /// The client reads the two keys, or the queue.
    pub(super) fn looks(self, on: impl Fn(Rule) -> bool) -> Option<Turn<V>> {
        let Self::Woken(wait) = self else { return None };
        let Wait { own, ahead, view, .. } = wait;
        if !view.has(own) && on(Rule::OwnKey) {
            return Some(Turn::Evicted(own));
        }
        // Both keys are enough to grant if no key was ahead of the predecessor.
        let first = wait.first || !on(Rule::First);
        let seen = wait.seen || !on(Rule::Seen);
        let enough = first && seen && ahead.is_some_and(|ahead| !view.has(ahead));
        // Otherwise the whole queue is read.
        Some(match view.nearest_ahead_of(own) {
            Some(_) if !enough => Turn::Waits(Self::Behind(Wait::read(own, view))),
            _ => Turn::Granted(wait),
        })
    }

    /// The client reads the queue periodically. This finds what no watch reports: that its own key
    /// is deleted.
    pub(super) fn rechecks(self) -> Option<Turn<V>> {
        let Self::Watching(wait) = self else { return None };
        (!wait.view.has(wait.own)).then_some(Turn::Evicted(wait.own))
    }
}

// The session, in any unit of time.

/// Returns `true` if a client with this much time until its deadline may be granted the lock.
pub(super) fn may_be_granted(left: u64, on: impl Fn(Rule) -> bool) -> bool {
    left > 0 || !on(Rule::ProvedGrant)
}

/// Returns `true` if a holder with this much time until its deadline has lost the lock.
pub(super) fn has_lapsed(left: u64, on: impl Fn(Rule) -> bool) -> bool {
    left == 0 && on(Rule::EndsAtDeadline)
}

/// Returns `true` if the store may end a session that it keeps for at least this much time.
pub(super) fn may_expire(left: u64) -> bool {
    left == 0
}
