//! How long a session is known to live, and the signal that it does not.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    clock,
    guard::LostReason,
    rig::{Bug, planted},
};

/// The deadline of one session.
///
/// It is moved only by proof: a request that the store confirmed counts from the time it was *sent*, less a tenth for clocks
/// that run at different speeds. A late or lost reply extends nothing, and what has once run out never comes back to life.
#[derive(Debug)]
pub(crate) struct Life {
    ttl: Duration,
    state: Mutex<State>,
    lost: watch::Sender<Option<LostReason>>,
}

#[derive(Debug)]
struct State {
    /// When the newest proof was sent.
    proved: Duration,
    /// Until when guards are valid.
    deadline: Duration,
    /// Until when waiters put up with a deadline that had run out, harmlessly, before they came.
    patience: Duration,
    held: usize,
    awaited: usize,
    lost: Option<LostReason>,
}

/// The answer to [`Life::grant`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    Granted,
    /// The deadline has passed with nothing held: a proof is needed first.
    Stale,
    Lost(LostReason),
}

/// What is said of a session at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vitals {
    pub(crate) now: Duration,
    pub(crate) proved: Duration,
    pub(crate) busy: bool,
    /// When the session is to be given up if no proof comes. `None` while it is idle.
    pub(crate) lapses: Option<Duration>,
}

impl Life {
    /// A session whose opening was sent at `sent` and confirmed for `ttl`.
    pub(crate) fn new(sent: Duration, ttl: Duration) -> Self {
        let deadline = sent + certain(ttl);
        let state = State { proved: sent, deadline, patience: Duration::ZERO, held: 0, awaited: 0, lost: None };
        Self { ttl, state: Mutex::new(state), lost: watch::Sender::new(None) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked; were it to, the state is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles what the clock has decided. Every decision goes through here first.
    fn settled(&self) -> (MutexGuard<'_, State>, Duration) {
        let mut state = self.state();
        let now = clock::now();
        if state.lost.is_none() && state.lapses().is_some_and(|at| now >= at) {
            state.lost = Some(LostReason::DeadlinePassed);
            self.lost.send_replace(state.lost);
        }
        (state, now)
    }

    /// The store confirmed a request sent at `sent`, and the session for `granted` from then on.
    pub(crate) fn renewed(&self, sent: Duration, granted: Duration) {
        let (mut state, now) = self.settled();
        let sent = if planted(Bug::DeadlineFromReply) { now } else { sent };
        if planted(Bug::LostGuardRevives) {
            state.lost = None;
        }
        if state.lost.is_none() {
            state.proved = state.proved.max(sent);
            state.deadline = state.deadline.max(sent + certain(granted));
        }
    }

    /// The session is over. The first reason stays.
    pub(crate) fn lose(&self, reason: LostReason) {
        let (mut state, _) = self.settled();
        if state.lost.is_none() {
            state.lost = Some(reason);
            self.lost.send_replace(state.lost);
        }
    }

    pub(crate) fn vitals(&self) -> Vitals {
        let (state, now) = self.settled();
        Vitals { now, proved: state.proved, busy: state.held + state.awaited > 0, lapses: state.lapses() }
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        self.settled().0.lost
    }

    /// How much longer guards are valid: looks at the clock, not at a flag that a timer would have to set.
    pub(crate) fn remaining(&self) -> Duration {
        if planted(Bug::StoresWordOnly) || planted(Bug::FlagSetByTimer) {
            return if self.lost.borrow().is_some() { Duration::ZERO } else { self.ttl };
        }
        let (state, now) = self.settled();
        if state.lost.is_some() { Duration::ZERO } else { state.deadline.saturating_sub(now) }
    }

    /// Resolves when the session is over.
    pub(crate) async fn lost(&self) -> LostReason {
        let mut lost = self.lost.subscribe();
        loop {
            if let Some(reason) = *lost.borrow_and_update() {
                return reason;
            }
            // The sender is a field of `self`, so it outlives this borrow.
            if lost.changed().await.is_err() {
                return LostReason::ClientClosed;
            }
        }
    }

    /// A waiter came.
    pub(crate) fn enter(&self) {
        let (mut state, now) = self.settled();
        if state.held + state.awaited == 0 {
            state.patience = now + self.ttl;
        }
        state.awaited += 1;
    }

    /// A waiter wants to become a holder.
    pub(crate) fn grant(&self) -> Grant {
        let (mut state, now) = self.settled();
        if let Some(reason) = state.lost {
            return Grant::Lost(reason);
        }
        if now >= state.deadline && !planted(Bug::GrantWithoutProof) {
            return Grant::Stale;
        }
        state.awaited -= 1;
        state.held += 1;
        Grant::Granted
    }

    /// A holder lets go. Until its key is known to be gone it counts as a waiter: the session is still needed.
    pub(crate) fn retire(&self) {
        let (mut state, _) = self.settled();
        state.held -= 1;
        state.awaited += 1;
    }

    /// A waiter's key is gone.
    pub(crate) fn leave(&self) {
        self.settled().0.awaited -= 1;
    }
}

impl State {
    fn lapses(&self) -> Option<Duration> {
        match (self.lost, self.held, self.awaited) {
            (Some(_), ..) | (None, 0, 0) => None,
            _ if planted(Bug::StoresWordOnly) => None,
            (None, 0, _) => Some(self.deadline.max(self.patience)),
            (None, ..) => Some(self.deadline),
        }
    }
}

/// The part of `granted` that holds even if this machine's clock runs slow against the server's.
fn certain(granted: Duration) -> Duration {
    granted - granted / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    #[test]
    fn the_deadline_counts_from_sending() {
        let sent = clock::now();
        let life = Life::new(sent, TTL);
        life.renewed(sent + TTL / 2, TTL);
        assert!(life.remaining() <= TTL / 2 + TTL * 9 / 10);
        // An older proof that arrives late takes nothing away.
        life.renewed(sent, TTL);
        assert!(life.remaining() > TTL);
    }

    #[test]
    fn what_ran_out_while_held_never_comes_back() {
        let life = Life::new(clock::now(), TTL);
        life.enter();
        assert_eq!(life.grant(), Grant::Granted);
        life.state().deadline = clock::now();
        assert_eq!(life.remaining(), Duration::ZERO);
        life.renewed(clock::now(), TTL);
        assert_eq!(life.lost_reason(), Some(LostReason::DeadlinePassed));
        assert_eq!(life.remaining(), Duration::ZERO);
    }

    #[test]
    fn what_ran_out_while_idle_wants_a_proof() {
        let life = Life::new(clock::now().saturating_sub(TTL * 2), TTL);
        assert_eq!(life.lost_reason(), None);
        life.enter();
        assert_eq!(life.grant(), Grant::Stale);
        life.renewed(clock::now(), TTL);
        assert_eq!(life.grant(), Grant::Granted);
    }

    #[test]
    fn waiters_give_up_when_their_patience_ends() {
        let life = Life::new(clock::now(), TTL);
        life.enter();
        let past = clock::now();
        life.state().deadline = past;
        assert_eq!(life.lost_reason(), None);
        life.state().patience = past;
        assert_eq!(life.lost_reason(), Some(LostReason::DeadlinePassed));
    }
}
