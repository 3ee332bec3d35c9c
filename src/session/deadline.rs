//! How long a session is known to live, and the notification of its loss.

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
/// Only a confirmed request extends the deadline. The granted time counts from the moment when the
/// request was *sent*, and is reduced by a tenth in case the clocks run at different speeds. A lost
/// reply extends nothing. If the deadline passes while a lock is held, the session is lost, and a
/// later reply does not revive it. An idle session can still be renewed after its deadline.
#[derive(Debug)]
pub(crate) struct Deadline {
    /// The process that owns the session. In a forked child the session is lost, because no keeper
    /// renews it there.
    process: Process,
    pub(crate) timing: Timing,
    /// How long it took to open the session.
    opening: Duration,
    state: Mutex<State>,
    lost: watch::Sender<Option<LostReason>>,
    /// Notifies when the last holder has released its lock.
    let_go: Notify,
    /// The telemetry records of the session's holds.
    pub(crate) accounts: Accounts,
}

#[derive(Debug)]
struct State {
    /// When the most recent confirmed request was sent.
    proved: Duration,
    /// For how long from then on the store keeps the session.
    granted: Duration,
    /// When guards stop being valid.
    deadline: Duration,
    /// Until when the store is certain to keep the session.
    ends: Duration,
    /// The process stalls that make a renewal count for less.
    process_stalls: ProcessStalls,
    /// Until when waiters tolerate a deadline that passed while the session was idle.
    patience: Duration,
    held: usize,
    awaited: usize,
    /// How many of the awaited are releases of locks that were held.
    releasing: usize,
    lost: Option<LostReason>,
}

/// Why a waiter did not become a holder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotGranted {
    /// The deadline has passed while no lock was held, or would pass before a renewal counts: a
    /// renewal is needed first.
    Unconfirmed,
    Lost(LostReason),
}

/// The state of a session at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vitals {
    pub(crate) now: Duration,
    pub(crate) proved: Duration,
    pub(crate) granted: Duration,
    pub(crate) busy: bool,
    /// When the session is lost unless it is renewed; `None` if it is idle or lost.
    pub(crate) lapses: Option<Duration>,
    /// Renewals that are sent before this future moment count for less than usual.
    pub(crate) counts_from: Option<Duration>,
}

impl Deadline {
    /// Starts the deadline of a session, opened at `sent` and confirmed for `ttl`.
    ///
    /// `relayed`: see `Facts::relays_renewals`.
    pub(crate) fn new(sent: Duration, ttl: Duration, relayed: bool) -> Self {
        let timing = Timing { ttl, relayed };
        let state = State {
            proved: sent,
            granted: ttl,
            deadline: sent + Timing::certain(ttl),
            ends: sent + ttl,
            // The process may have been paused while the session was opened.
            process_stalls: ProcessStalls::new(timing, sent),
            patience: Duration::ZERO,
            held: 0,
            awaited: 0,
            releasing: 0,
            lost: None,
        };
        Self {
            process: Process::current(),
            timing,
            opening: clock::now().saturating_sub(sent),
            state: Mutex::new(state),
            lost: watch::Sender::new(None),
            let_go: Notify::new(),
            accounts: Accounts::default(),
        }
    }

    /// Returns `true` if the session belongs to the parent of this forked process.
    ///
    /// The child must not lock any of its mutexes: another thread of the parent may have held them.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.process.is_current()
    }

    /// Applies what the clock has decided. Every decision calls this first.
    fn settled(&self) -> (MutexGuard<'_, State>, Duration) {
        let mut state = self.state.lock();
        let now = clock::now();
        state.process_stalls.listen(now);
        if state.lost.is_none() && state.lapses().is_some_and(|at| now >= at) {
            state = self.end(state, LostReason::DeadlinePassed);
        }
        (state, now)
    }

    /// Marks the session as lost, and notifies without holding the lock.
    ///
    /// Wakers and telemetry are the caller's code, which may query the session.
    fn end<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        reason: LostReason,
    ) -> MutexGuard<'a, State> {
        // Also notifies if a recorder or subscriber panics.
        let notified = OnDrop(|| {
            self.lost.send_replace(Some(reason));
        });
        state.lost = Some(reason);
        drop(state);
        self.accounts.lose(reason);
        drop(notified);
        self.state.lock()
    }

    /// Records a confirmed request that was sent at `sent`.
    ///
    /// The store keeps the session for `granted` from then on.
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

    /// Returns the time until a new renewal counts in full, which is usually zero.
    pub(crate) fn until_proofs_count(&self) -> Duration {
        let (state, now) = self.settled();
        state.until_proofs_count(now)
    }

    /// Returns how long the store certainly keeps a session after its deadline.
    ///
    /// Until then, the store still applies requests of the session's holders that are in flight.
    /// The result is zero unless the deadline passed while a lock was held.
    pub(crate) fn margin(&self) -> Duration {
        let (state, now) = self.settled();
        match state.lost {
            Some(LostReason::DeadlinePassed) if state.held > 0 => state.ends.saturating_sub(now),
            _ => Duration::ZERO,
        }
    }

    /// Marks the session as lost. The first reason is kept.
    pub(crate) fn lose(&self, reason: LostReason) {
        if self.is_inherited() {
            return;
        }
        let (state, _) = self.settled();
        if state.lost.is_none() {
            drop(self.end(state, reason));
        }
    }

    /// Returns the state for the keeper. The call also proves that the keeper runs.
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

    /// Returns `true` if the session is known to be lost, without notifying any task.
    ///
    /// This method does not read the clock.
    pub(crate) fn is_over(&self) -> bool {
        self.is_inherited() || self.state.lock().lost.is_some()
    }

    /// Returns how long guards are still valid.
    ///
    /// This reads the clock and does not depend on a flag that a timer sets.
    pub(crate) fn remaining(&self) -> Duration {
        if self.is_inherited() {
            return Duration::ZERO;
        }
        let (state, now) = self.settled();
        if state.lost.is_some() { Duration::ZERO } else { state.deadline.saturating_sub(now) }
    }

    /// Resolves when the session is lost.
    pub(crate) async fn lost(&self) -> LostReason {
        if self.is_inherited() {
            return LostReason::Forked;
        }
        let mut lost = self.lost.subscribe();
        let reason = lost.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        // The sender is a field of `self`, so it outlives this borrow.
        reason.unwrap_or(LostReason::ClientClosed)
    }

    /// Adds a waiter. Returns `false` if the session is lost or not worth keeping.
    ///
    /// It is not worth keeping if it was idle and the process stalled, unless a new session would
    /// take longer to open than this one to be confirmed.
    pub(crate) fn enter(&self) -> bool {
        let (mut state, now) = self.settled();
        if state.lost.is_some() {
            return false;
        }
        if state.held + state.awaited == 0 {
            let usual = now + self.timing.usual();
            let whole = Proof { deadline: usual, ends: usual };
            let proof = state.process_stalls.limit(now, whole);
            if proof.deadline < now + self.timing.worth_keeping()
                && self.opening < state.until_proofs_count(now)
            {
                drop(self.end(state, LostReason::DeadlinePassed));
                return false;
            }
            state.patience = now + self.timing.ttl;
        }
        state.awaited += 1;
        true
    }

    /// Turns a waiter into a holder.
    pub(crate) fn grant(&self) -> Result<(), NotGranted> {
        let (mut state, now) = self.settled();
        if let Some(reason) = state.lost {
            return Err(NotGranted::Lost(reason));
        }
        if now >= state.deadline {
            return Err(NotGranted::Unconfirmed);
        }
        // After a stall, the deadline may pass before a renewal counts. The lock would then be lost
        // although the store confirms every renewal.
        let counts_from = state.process_stalls.counts_from(now);
        if counts_from.is_some_and(|from| from + self.timing.confirmation() >= state.deadline) {
            return Err(NotGranted::Unconfirmed);
        }
        state.awaited -= 1;
        state.held += 1;
        Ok(())
    }

    /// Turns a holder into a waiter when its lock is released.
    ///
    /// The session is needed until the key is known to be deleted. Returns `false` if the session
    /// was lost before.
    pub(crate) fn leave(&self) -> bool {
        let (mut state, _) = self.settled();
        state.held -= 1;
        state.awaited += 1;
        state.releasing += 1;
        state.lost.is_none()
    }

    /// Records that a release has a result.
    pub(crate) fn released(&self) {
        let (mut state, _) = self.settled();
        state.releasing -= 1;
        let unheld = state.held + state.releasing == 0;
        drop(state);
        if unheld {
            self.let_go.notify_waiters();
        }
    }

    /// Returns when no lock is held or being released, or the session is lost.
    pub(crate) async fn unheld(&self) {
        loop {
            let unheld = self.let_go.notified();
            {
                let (state, _) = self.settled();
                if state.held + state.releasing == 0 || state.lost.is_some() {
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

    /// Removes a waiter whose key is gone.
    pub(crate) fn left(&self) {
        self.settled().0.awaited -= 1;
    }
}

impl State {
    /// Returns the time until a new renewal counts in full, which is usually zero.
    fn until_proofs_count(&self, now: Duration) -> Duration {
        let counts_from = self.process_stalls.counts_from(now);
        counts_from.map_or(Duration::ZERO, |from| from.saturating_sub(now))
    }

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
