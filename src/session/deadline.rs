//! How long a session is known to live, and the signal that it does not.

use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::{
    lost::LostReason,
    runtime::{
        OnDrop, clock,
        mutex::{Mutex, MutexGuard},
        process::Process,
    },
    session::{
        process_stall::{ProcessStalls, Proof},
        timing::Timing,
    },
    telemetry::Accounts,
};

/// The deadline of one session.
///
/// It is moved only by proof: a request that the store confirmed counts from the time it was
/// *sent*, less a tenth for clocks that run at different speeds. A late or lost reply extends
/// nothing, and what has once run out never comes back to life.
#[derive(Debug)]
pub(crate) struct Deadline {
    /// The process that has the session. In a forked child it is lost, as no keeper renews it
    /// there.
    process: Process,
    pub(crate) timing: Timing,
    state: Mutex<State>,
    lost: watch::Sender<Option<LostReason>>,
    /// The last holder has let go.
    let_go: Notify,
    /// Of what is held in the session.
    pub(crate) accounts: Accounts,
}

#[derive(Debug)]
struct State {
    /// When the newest proof was sent.
    proved: Duration,
    /// For how long from then on the store keeps the session.
    granted: Duration,
    /// Until when guards are valid.
    deadline: Duration,
    /// Until when the store keeps the session for certain.
    ends: Duration,
    /// Where a proof is worth less after a silence.
    process_stalls: ProcessStalls,
    /// Until when waiters put up with a deadline that had run out, harmlessly, before they came.
    patience: Duration,
    held: usize,
    awaited: usize,
    lost: Option<LostReason>,
}

/// Why a waiter does not become a holder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// The deadline has passed with nothing held: a proof is needed first.
    Unconfirmed,
    Lost(LostReason),
}

/// What is said of a session at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vitals {
    pub(crate) now: Duration,
    pub(crate) proved: Duration,
    pub(crate) granted: Duration,
    pub(crate) busy: bool,
    /// When the session is to be given up if no proof comes. `None` while it is idle.
    pub(crate) lapses: Option<Duration>,
    /// Proofs that were sent before this moment, which is yet to come, are worth less than usual.
    pub(crate) counts_from: Option<Duration>,
}

impl Deadline {
    /// A session whose opening was sent at `sent` and confirmed for `ttl`. `relayed`: what
    /// `Store::relays_renewals` says.
    pub(crate) fn new(sent: Duration, ttl: Duration, relayed: bool) -> Self {
        let timing = Timing { ttl, relayed };
        let state = State {
            proved: sent,
            granted: ttl,
            deadline: sent + Timing::certain(ttl),
            ends: sent + ttl,
            // The process may have stood still while the session was opened.
            process_stalls: ProcessStalls::new(timing, sent),
            patience: Duration::ZERO,
            held: 0,
            awaited: 0,
            lost: None,
        };
        Self {
            process: Process::current(),
            timing,
            state: Mutex::new(state),
            lost: watch::Sender::new(None),
            let_go: Notify::new(),
            accounts: Accounts::default(),
        }
    }

    /// Whether this process was forked from the one whose session it is. Nothing of it is touched
    /// then: another thread of the parent's may have had it locked.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// Settles what the clock has decided. Every decision goes through here first.
    fn settled(&self) -> (MutexGuard<'_, State>, Duration) {
        let mut state = self.state.lock();
        let now = clock::now();
        state.process_stalls.listen(now);
        if state.lost.is_none() && state.lapses().is_some_and(|at| now >= at) {
            state = self.end(state, LostReason::DeadlinePassed);
        }
        (state, now)
    }

    /// The session is over. Wakes those who want to know without the lock: a waker is the caller's
    /// code, and may look. So is what listens to telemetry.
    fn end<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        reason: LostReason,
    ) -> MutexGuard<'a, State> {
        // Also if a recorder or a subscriber panics.
        let notified = OnDrop(|| {
            self.lost.send_replace(Some(reason));
        });
        state.lost = Some(reason);
        drop(state);
        self.accounts.lose(reason);
        drop(notified);
        self.state.lock()
    }

    /// The store confirmed a request sent at `sent`, and the session for `granted` from then on.
    pub(crate) fn renewed(&self, sent: Duration, granted: Duration) {
        let (mut state, _) = self.settled();
        if state.lost.is_none() {
            let proof = Proof { deadline: sent + Timing::certain(granted), ends: sent + granted };
            let proof = state.process_stalls.limit(sent, proof);
            if sent >= state.proved {
                (state.proved, state.granted) = (sent, granted);
            }
            state.deadline = state.deadline.max(proof.deadline);
            state.ends = state.ends.max(proof.ends);
        }
    }

    /// How long until a proof that is asked for counts in full; zero almost always.
    pub(crate) fn until_proofs_count(&self) -> Duration {
        let (state, now) = self.settled();
        state
            .process_stalls
            .counts_from(now)
            .map_or(Duration::ZERO, |from| from.saturating_sub(now))
    }

    /// How long the store still keeps a session that was lost at its deadline, for certain: what
    /// its holders have under way is applied until then. Zero otherwise.
    pub(crate) fn margin(&self) -> Duration {
        let (state, now) = self.settled();
        match state.lost {
            Some(LostReason::DeadlinePassed) if state.held > 0 => state.ends.saturating_sub(now),
            _ => Duration::ZERO,
        }
    }

    /// The session is over. The first reason stays.
    pub(crate) fn lose(&self, reason: LostReason) {
        if self.is_inherited() {
            return;
        }
        let (state, _) = self.settled();
        if state.lost.is_none() {
            drop(self.end(state, reason));
        }
    }

    /// Asked by the session's keeper: that it asks is a sign of life.
    pub(crate) fn vitals(&self) -> Vitals {
        let (mut state, now) = self.settled();
        state.process_stalls.beat(now);
        let counts_from = state.process_stalls.counts_from(now);
        let busy = state.held + state.awaited > 0;
        let (proved, granted) = (state.proved, state.granted);
        Vitals { now, proved, granted, busy, lapses: state.lapses(), counts_from }
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        if self.is_inherited() { Some(LostReason::Forked) } else { self.settled().0.lost }
    }

    /// Whether it is known to be over: does not look at the clock, and so wakes nobody.
    pub(crate) fn is_over(&self) -> bool {
        self.is_inherited() || self.state.lock().lost.is_some()
    }

    /// How much longer guards are valid: looks at the clock, not at a flag that a timer would have
    /// to set.
    pub(crate) fn remaining(&self) -> Duration {
        if self.is_inherited() {
            return Duration::ZERO;
        }
        let (state, now) = self.settled();
        if state.lost.is_some() { Duration::ZERO } else { state.deadline.saturating_sub(now) }
    }

    /// Resolves when the session is over.
    pub(crate) async fn lost(&self) -> LostReason {
        if self.is_inherited() {
            return LostReason::Forked;
        }
        let mut lost = self.lost.subscribe();
        let reason = lost.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        // The sender is a field of `self`, so it outlives this borrow.
        reason.unwrap_or(LostReason::ClientClosed)
    }

    /// A waiter came. `false`: the session is over, or was idle and silent for so long that a new
    /// one is had sooner than proof that this one lives.
    pub(crate) fn enter(&self) -> bool {
        let (mut state, now) = self.settled();
        if state.lost.is_some() {
            return false;
        }
        if state.held + state.awaited == 0 {
            let usual = now + self.timing.usual();
            let whole = Proof { deadline: usual, ends: usual };
            let proof = state.process_stalls.limit(now, whole);
            if proof.deadline < now + self.timing.worth_keeping() {
                drop(self.end(state, LostReason::DeadlinePassed));
                return false;
            }
            state.patience = now + self.timing.ttl;
        }
        state.awaited += 1;
        true
    }

    /// A waiter wants to become a holder.
    pub(crate) fn grant(&self) -> Result<(), NotGranted> {
        let (mut state, now) = self.settled();
        if let Some(reason) = state.lost {
            return Err(NotGranted::Lost(reason));
        }
        if now >= state.deadline {
            return Err(NotGranted::Unconfirmed);
        }
        state.awaited -= 1;
        state.held += 1;
        Ok(())
    }

    /// A holder lets go. Until its key is known to be gone it counts as a waiter: the session is
    /// still needed.
    pub(crate) fn leave(&self) {
        let (mut state, _) = self.settled();
        state.held -= 1;
        state.awaited += 1;
        let unheld = state.held == 0;
        drop(state);
        if unheld {
            self.let_go.notify_waiters();
        }
    }

    /// Returns when there is no holder, or the session is over.
    pub(crate) async fn unheld(&self) {
        loop {
            let unheld = self.let_go.notified();
            {
                let (state, _) = self.settled();
                if state.held == 0 || state.lost.is_some() {
                    return;
                }
            }
            tokio::select! {
                biased;
                _ = self.lost() => return,
                () = unheld => {}
            }
        }
    }

    /// A waiter's key is gone.
    pub(crate) fn left(&self) {
        self.settled().0.awaited -= 1;
    }
}

impl State {
    fn lapses(&self) -> Option<Duration> {
        match (self.lost, self.held, self.awaited) {
            (Some(_), ..) | (None, 0, 0) => None,
            (None, 0, _) => Some(self.deadline.max(self.patience)),
            (None, ..) => Some(self.deadline),
        }
    }
}

#[cfg(test)]
mod tests;
