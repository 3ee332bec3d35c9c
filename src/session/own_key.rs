//! One of a session's own places in the queues, and how it ends.

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

/// A key of this session's, from the store's word that it was created to the store's word that it
/// is gone.
#[derive(Debug)]
pub(crate) struct OwnKey {
    pub(crate) entry: Entry,
    /// When the store created the key.
    pub(crate) joined: SequencePoint,
    /// When it was asked to, by this machine's clock.
    pub(crate) sent: Duration,
    /// A request to join that may be applied yet would put a key of this name once more, were this
    /// one deleted: that the name is there shows nothing.
    pub(crate) repeats: bool,
    state: Mutex<State>,
    changed: Notify,
    /// Of what is held by it.
    pub(crate) account: Slot,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Why this lock alone was lost; the session may live on.
    lost: Option<LostReason>,
    /// It may be held no longer than until then, by this machine's clock.
    until: Option<Duration>,
    /// Another key is put into its place.
    replaced: bool,
    /// Somebody watches the key.
    watched: bool,
    /// The one that it waits for.
    predecessor: Option<Predecessor>,
    /// Who waits for this one to end.
    successor: Weak<OwnKey>,
}

impl State {
    /// Returns `true` if the key is still held after its time, and its holder is not yet notified.
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
    /// Its key is being deleted.
    LeaveRequest,
    Ended(End),
}

/// How a place ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The key of one who held the lock was deleted, at that moment.
    Passed {
        at: SequencePoint,
        /// Whose key was asked for in the same transaction.
        successor: Weak<OwnKey>,
        /// It was there.
        there: bool,
    },
    /// It waited behind this one, and has gone: its successor waits for this one now.
    Left { at: SequencePoint, predecessor: Predecessor },
    /// Otherwise: its successor has to look.
    Unclear,
}

impl OwnKey {
    pub(super) fn new(entry: Entry, joined: SequencePoint, sent: Duration, repeats: bool) -> Self {
        let (state, changed, account) = Default::default();
        Self { entry, joined, sent, repeats, state, changed, account }
    }

    /// Whether an entry is this key. Another one may have had its name before, or have it since;
    /// where the store tells when it was created, that counts.
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

    /// Lets it be held no longer than until then.
    pub(crate) fn hold_until(&self, until: Duration) {
        self.state.lock().until = Some(until);
    }

    /// Until when it may be held.
    pub(crate) fn holds_until(&self) -> Option<Duration> {
        self.state.lock().until
    }

    /// Another key is about to be put into its place: from here on its end is not for
    /// [`expire`](Self::expire) to bring about. Returns `false` if it is no longer held: then its
    /// place is not to be taken.
    pub(crate) fn replace(&self) -> bool {
        let mut state = self.state.lock();
        state.replaced = matches!(state.phase, Phase::Held);
        state.replaced
    }

    /// Notifies the holder that its time is over. Returns `true` if the caller has to delete the
    /// key afterwards, and `false` if the key is no longer held or is being replaced.
    pub(crate) fn expire(&self) -> bool {
        let state = self.settled();
        let over = state.lost == Some(LostReason::HeldTooLong) && !state.replaced;
        over && self.leave_from(state)
    }

    /// Settles what the clock has decided of the time for which it may be held.
    fn settled(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        if !state.is_overdue() {
            return state;
        }
        drop(state);
        self.lose(LostReason::HeldTooLong);
        self.state.lock()
    }

    /// How much longer it is held, as far as this key alone decides: zero if it is lost or left.
    pub(crate) fn remaining(&self) -> Duration {
        let state = self.settled();
        if state.lost.is_some() || !matches!(state.phase, Phase::Held) {
            return Duration::ZERO;
        }
        state.until.map_or(Duration::MAX, |until| until.saturating_sub(clock::now()))
    }

    /// The key is about to be deleted. Tells whether the lock was held.
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

    /// Who waits for this place to end.
    pub(crate) fn successor(&self) -> Option<Arc<Self>> {
        let successor = self.state.lock().successor.upgrade()?;
        successor.is_waiting().then_some(successor)
    }

    /// Returns how the place ended; `own`, which waits for that, becomes its successor.
    pub(crate) async fn ended(&self, own: &Arc<Self>) -> End {
        self.changes(|state| {
            if let Phase::Ended(end) = &state.phase {
                return Some(end.clone());
            }
            state.successor = Arc::downgrade(own);
            // A holder whose key is gone may take its time to notice.
            state.lost.map(|_| End::Unclear)
        })
        .await
    }

    pub(crate) fn wait_for(&self, predecessor: &Predecessor) {
        self.state.lock().predecessor = Some(predecessor.clone());
    }

    /// How this place ends, which was held or not, by the store's word.
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

    /// It is no more; the one that waits for that is told how it ended.
    pub(super) fn finish(&self, end: End) {
        self.state.lock().phase = Phase::Ended(end);
        self.changed.notify_waiters();
    }

    /// Returns when the lock is not held any more by this place.
    pub(crate) async fn left(&self) {
        self.changes(|state| {
            state.watched = true;
            (!matches!(state.phase, Phase::Held)).then_some(())
        })
        .await;
    }

    /// Returns when the lock is not held any more by this place, or its holder is told that it is
    /// lost.
    pub(crate) async fn over(&self) {
        self.changes(|state| {
            state.watched = true;
            (!matches!(state.phase, Phase::Held) || state.lost.is_some()).then_some(())
        })
        .await;
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
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(found) = wanted(&mut self.state.lock()) {
                return found;
            }
            changed.as_mut().await;
            changed.set(self.changed.notified());
        }
    }
}
