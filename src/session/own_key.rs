//! One of a session's own entries in the queues, and how it ends.

use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    backend::{Entry, LeaveOutcome, Predecessor, SequencePoint},
    lost::LostReason,
    runtime::{
        clock,
        mutex::{Mutex, MutexGuard},
    },
    telemetry::Slot,
};

/// A key of this session, from its confirmed creation to its confirmed deletion.
#[derive(Debug)]
pub(crate) struct OwnKey {
    pub(crate) entry: Entry,
    /// When the store created the key, in the store's order.
    pub(crate) joined: SequencePoint,
    /// When the request to create it was sent, by the local clock.
    pub(crate) sent: Duration,
    /// A join request may still be applied, and would create a key of this name again after the
    /// deletion of this one. The existence of the name therefore proves nothing.
    pub(crate) repeats: bool,
    state: Mutex<State>,
    changed: Notify,
    /// The telemetry record of the lock held by this key.
    pub(crate) account: Slot,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Why only this lock was lost. The session may still be alive.
    lost: Option<LostReason>,
    /// The holder has released the lock before it was lost.
    released: bool,
    /// When the maximum hold time ends, by the local clock.
    until: Option<Duration>,
    /// Another key is replacing this one.
    replaced: bool,
    /// A task waits for the end of the hold.
    watched: bool,
    /// The entry for which this one waits.
    predecessor: Option<Predecessor>,
    /// The entry that waits for the end of this one.
    successor: Weak<OwnKey>,
}

impl State {
    /// Returns `true` if the hold is overdue and its holder is not yet notified.
    fn is_overdue(&self) -> bool {
        let over = || self.until.is_some_and(|until| clock::now() >= until);
        self.lost.is_none() && matches!(self.phase, Phase::Held) && over()
    }
}

#[derive(Clone, Debug, Default)]
enum Phase {
    #[default]
    Waiting,
    Held,
    /// The key is being deleted.
    LeaveRequest,
    Ended(End),
}

/// How an entry ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The key of a holder was deleted, at this sequence point.
    Passed {
        at: SequencePoint,
        /// The entry whose key was read in the same transaction.
        successor: Weak<OwnKey>,
        /// That key existed.
        there: bool,
    },
    /// A waiter has left. Its successor now waits for this predecessor.
    Left { at: SequencePoint, predecessor: Predecessor },
    /// It ended in another way: the successor has to read the queue.
    Unclear,
}

impl OwnKey {
    pub(super) fn new(entry: Entry, joined: SequencePoint, sent: Duration, repeats: bool) -> Self {
        let (state, changed, account) = Default::default();
        Self { entry, joined, sent, repeats, state, changed, account }
    }

    /// Returns `true` if the entry is this key.
    ///
    /// Another key may have had the same name before, or may have it now. Where the store reports
    /// the creation revision, the revision decides.
    pub(crate) fn is(&self, entry: &Entry) -> bool {
        entry.key == self.entry.key
            && (entry.revision == 0 || entry.revision == self.entry.revision)
    }

    pub(crate) fn hold(&self) {
        self.state.lock().phase = Phase::Held;
    }

    pub(crate) fn is_held(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Held)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Waiting)
    }

    /// Sets when the maximum hold time ends.
    pub(crate) fn hold_until(&self, until: Duration) {
        self.state.lock().until = Some(until);
    }

    /// Returns when the maximum hold time ends.
    pub(crate) fn holds_until(&self) -> Option<Duration> {
        self.state.lock().until
    }

    /// Marks the key as being replaced: [`expire`](Self::expire) no longer ends it, and its absence
    /// is no eviction.
    ///
    /// Returns `false` if the key is no longer held and must not be replaced.
    pub(crate) fn replace(&self) -> bool {
        let mut state = self.state.lock();
        state.replaced = matches!(state.phase, Phase::Held);
        state.replaced
    }

    /// Returns `true` if the holder loses the lock without this key: it is held, and not being
    /// replaced.
    pub(crate) fn is_needed(&self) -> bool {
        let state = self.state.lock();
        matches!(state.phase, Phase::Held) && !state.replaced
    }

    /// Notifies the holder that its time is over.
    ///
    /// Returns `true` if the caller has to delete the key afterwards, and `false` if the key is no
    /// longer held, was lost for another reason, or is being replaced.
    pub(crate) fn expire(&self) -> bool {
        let state = self.settled();
        let over = state.lost == Some(LostReason::HeldTooLong) && !state.replaced;
        over && self.leave_from(state)
    }

    /// Applies what the clock has decided about the maximum hold time.
    fn settled(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        if !state.is_overdue() {
            return state;
        }
        drop(state);
        self.lose(LostReason::HeldTooLong);
        self.state.lock()
    }

    /// Returns the remaining time that this key allows; zero if it is lost or left.
    pub(crate) fn remaining(&self) -> Duration {
        let state = self.settled();
        if state.lost.is_some() || !matches!(state.phase, Phase::Held) {
            return Duration::ZERO;
        }
        state.until.map_or(Duration::MAX, |until| until.saturating_sub(clock::now()))
    }

    /// Records that the lock is not lost by anything that happens to its session from now on.
    pub(crate) fn released(&self) {
        let mut state = self.state.lock();
        state.released = state.lost.is_none();
    }

    /// Returns why the lock is no longer held, if that has nothing to do with its session.
    pub(crate) fn end_of_hold(&self) -> Option<LostReason> {
        let state = self.settled();
        state.lost.or_else(|| state.released.then_some(LostReason::Released))
    }

    /// Marks the key as being deleted. Returns `true` if the lock was held.
    pub(crate) fn leave(&self) -> bool {
        self.leave_from(self.state.lock())
    }

    fn leave_from(&self, mut state: MutexGuard<'_, State>) -> bool {
        let held = matches!(state.phase, Phase::Held);
        state.phase = Phase::LeaveRequest;
        let watched = state.watched;
        drop(state);
        if watched {
            self.changed.notify_waiters();
        }
        held
    }

    /// Returns the entry that waits for the end of this one.
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        let successor = self.state.lock().successor.upgrade()?;
        successor.is_waiting().then_some(successor)
    }

    /// Returns how the entry ended. `own` becomes its successor.
    pub(crate) async fn ended(&self, own: &Arc<Self>) -> End {
        self.changes(|state| {
            if let Phase::Ended(end) = &state.phase {
                return Some(end.clone());
            }
            state.successor = Arc::downgrade(own);
            // A holder whose key is gone may not notice for some time.
            state.lost.map(|_| End::Unclear)
        })
        .await
    }

    pub(crate) fn wait_for(&self, predecessor: &Predecessor) {
        self.state.lock().predecessor = Some(predecessor.clone());
    }

    /// Returns how this entry ends, according to the store's reply.
    pub(crate) fn end(&self, held: bool, left: LeaveOutcome, successor: Option<&Arc<Self>>) -> End {
        let LeaveOutcome { existed, successor: there, at } = left;
        if !existed {
            return End::Unclear;
        }
        if held {
            let successor = successor.map(Arc::downgrade).unwrap_or_default();
            return End::Passed { at, successor, there };
        }
        let predecessor = self.state.lock().predecessor.take();
        predecessor.map_or(End::Unclear, |predecessor| End::Left { at, predecessor })
    }

    /// Ends the entry and notifies its successor.
    pub(super) fn finish(&self, end: End) {
        self.state.lock().phase = Phase::Ended(end);
        self.changed.notify_waiters();
    }

    /// Returns when the hold has ended.
    pub(crate) async fn left(&self) {
        self.changes(|state| {
            state.watched = true;
            (!matches!(state.phase, Phase::Held)).then_some(())
        })
        .await;
    }

    /// Returns when the hold has ended or its holder is notified of the loss.
    pub(crate) async fn over(&self) {
        self.changes(|state| {
            state.watched = true;
            (!matches!(state.phase, Phase::Held) || state.lost.is_some()).then_some(())
        })
        .await;
    }

    /// Records that the key is gone.
    ///
    /// This is no loss for a holder that has released the lock, or whose downgrade replaces the
    /// key. A release is recorded before the key is deleted. A downgrade deletes the key in the
    /// transaction that creates the next one, and reports an eviction itself.
    pub(crate) fn evicted(&self) {
        if self.is_needed() {
            self.lose(LostReason::Evicted);
        }
    }

    pub(crate) fn lose(&self, reason: LostReason) {
        self.state.lock().lost.get_or_insert(reason);
        self.account.lose(reason);
        self.changed.notify_waiters();
    }

    pub(crate) fn lost_reason(&self) -> Option<LostReason> {
        self.settled().lost
    }

    pub(crate) async fn lost(&self) -> LostReason {
        self.changes(|state| state.lost).await
    }

    async fn changes<T>(&self, mut wanted: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changed = pin!(self.changed.notified());
        loop {
            // From here on, no change is missed.
            changed.as_mut().enable();
            if let Some(found) = wanted(&mut self.state.lock()) {
                return found;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }
}
