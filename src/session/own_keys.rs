//! What a session knows of its own places in the queues, so that one of them can follow another
//! without asking the store.

use std::{
    collections::{HashMap, VecDeque},
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    backend::{Entry, LeaveOutcome, Predecessor, SequencePoint},
    lost::LostReason,
    runtime::{
        OnDrop,
        clock::{self, timeout},
        mutex::{Mutex, MutexGuard},
    },
    telemetry::Slot,
};

/// How many places are remembered after their end, for those who joined behind one just as it ended
/// and hear of it a moment later.
const REMEMBERED: usize = 256;

/// How long to wait for one who joined before, but perhaps in another process.
const PATIENCE: Duration = Duration::from_millis(2);

/// The places of one session, by their keys.
#[derive(Debug, Default)]
pub(crate) struct OwnKeys {
    known: Mutex<Known>,
    joining: AtomicUsize,
    /// There is one more.
    added: Notify,
}

#[derive(Debug, Default)]
struct Known {
    own_keys: HashMap<Arc<str>, Arc<OwnKey>>,
    ended: VecDeque<Arc<OwnKey>>,
}

impl OwnKeys {
    /// `repeats`: see [`OwnKey`].
    pub(crate) fn add(
        &self,
        entry: Entry,
        joined: SequencePoint,
        sent: Duration,
        repeats: bool,
    ) -> Arc<OwnKey> {
        let key = Arc::clone(&entry.key);
        let (state, changed, account) = Default::default();
        let own_key = Arc::new(OwnKey { entry, joined, sent, repeats, state, changed, account });
        self.known.lock().own_keys.insert(key, Arc::clone(&own_key));
        self.added.notify_waiters();
        own_key
    }

    /// The same as [`find`](Self::find); waits a little for one that may have joined before, but
    /// has not heard of it yet: answers that came in one order are looked at in another.
    pub(crate) async fn find_soon(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        let found = self.find(entry);
        if found.is_some() || self.joining.load(Ordering::Relaxed) == 0 {
            return found;
        }
        let found = async {
            loop {
                // From here on it is told, also of what comes before it waits.
                let added = self.added.notified();
                if let Some(found) = self.find(entry) {
                    return found;
                }
                added.await;
            }
        };
        timeout(PATIENCE, found).await.ok()
    }

    /// Counts those who are about to join.
    pub(crate) fn joins(&self) -> OnDrop<impl Fn()> {
        self.joining.fetch_add(1, Ordering::Relaxed);
        OnDrop(|| {
            self.joining.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// The place that an entry stands for.
    pub(crate) fn find(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        let own_key = self.known.lock().own_keys.get(&entry.key).map(Arc::clone)?;
        own_key.is(entry).then_some(own_key)
    }

    /// A key is lost, though the session lives on; `false`: it is none of these yet.
    pub(crate) fn lose(&self, key: &str, reason: LostReason) -> bool {
        // Without the lock: a waker is the caller's code.
        let own_key = self.known.lock().own_keys.get(key).map(Arc::clone);
        own_key.is_some_and(|own_key| {
            own_key.lose(reason);
            true
        })
    }

    /// The key is no more; the one that waits for that is told how it ended.
    pub(crate) fn end(&self, own_key: &Arc<OwnKey>, end: End) {
        own_key.state.lock().phase = Phase::Ended(end);
        own_key.changed.notify_waiters();
        let mut known = self.known.lock();
        known.ended.push_back(Arc::clone(own_key));
        if known.ended.len() > REMEMBERED
            && let Some(oldest) = known.ended.pop_front()
            && known
                .own_keys
                .get(&oldest.entry.key)
                .is_some_and(|own_key| Arc::ptr_eq(own_key, &oldest))
        {
            known.own_keys.remove(&oldest.entry.key);
        }
    }
}

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

    /// Lets it be held no longer than until then.
    pub(crate) fn hold_until(&self, until: Duration) {
        self.state.lock().until = Some(until);
    }

    /// Until when it may be held.
    pub(crate) fn holds_until(&self) -> Option<Duration> {
        self.state.lock().until
    }

    /// Another key is about to be put into its place: from here on its end is not for
    /// [`expire`](Self::expire) to bring about.
    pub(crate) fn replace(&self) {
        self.state.lock().replaced = true;
    }

    /// Notifies the holder that its time is over. Returns `true` if the caller has to delete the
    /// key afterwards, and `false` if the key is no longer held or is being replaced.
    pub(crate) fn expire(&self) -> bool {
        let state = self.settled();
        let over = state.lost == Some(LostReason::HeldTooLong) && !state.replaced;
        drop(state);
        over && self.leave()
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
        let mut state = self.state.lock();
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
        let waits = matches!(successor.state.lock().phase, Phase::Waiting);
        waits.then_some(successor)
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
            return End::Passed {
                at,
                successor: successor.map(Arc::downgrade).unwrap_or_default(),
                there,
            };
        }
        let predecessor = self.state.lock().predecessor.take();
        predecessor.map_or(End::Unclear, |predecessor| End::Left { at, predecessor })
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

#[cfg(test)]
mod tests;
