//! A session's own entries in the queues.
//!
//! If one of them follows another, it usually learns of its turn without a request to the store.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Notify;

use super::own_key::{End, OwnKey};
use crate::{
    backend::{Entry, SequencePoint},
    lost::LostReason,
    runtime::{OnDrop, clock::timeout, mutex::Mutex},
};

/// How many entries are remembered after their end. A client that joined behind one just before its
/// end learns of it a moment later.
const REMEMBERED: usize = 256;

/// How long to wait for a predecessor whose join may be in flight in this session. It may also be
/// in another process.
const PATIENCE: Duration = Duration::from_millis(2);

/// The entries of one session, by key.
#[derive(Debug, Default)]
pub(crate) struct OwnKeys {
    known: Mutex<Known>,
    /// Notifies when an entry is added.
    added: Notify,
}

#[derive(Debug, Default)]
struct Known {
    own_keys: HashMap<Arc<str>, Arc<OwnKey>>,
    ended: VecDeque<Arc<OwnKey>>,
    /// The number of joins in flight.
    joining: usize,
}

impl Known {
    /// Returns the own entry for a store entry.
    fn find(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        self.own_keys.get(&entry.key).filter(|own_key| own_key.is(entry)).map(Arc::clone)
    }
}

impl OwnKeys {
    /// Adds an entry. `repeats`: see [`OwnKey`].
    pub(crate) fn add(
        &self,
        entry: Entry,
        joined: SequencePoint,
        sent: Duration,
        repeats: bool,
    ) -> Arc<OwnKey> {
        let key = Arc::clone(&entry.key);
        let own_key = Arc::new(OwnKey::new(entry, joined, sent, repeats));
        self.known.lock().own_keys.insert(key, Arc::clone(&own_key));
        self.added.notify_waiters();
        own_key
    }

    /// Like [`find`](Self::find), but waits briefly for an entry that is still joining.
    ///
    /// Replies that arrive in one order may be processed in another.
    pub(crate) async fn find_soon(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        // Read together: an entry that joined before is known by then or still counted as in
        // flight.
        let (found, joining) = {
            let known = self.known.lock();
            (known.find(entry), known.joining)
        };
        if found.is_some() || joining == 0 {
            return found;
        }
        let found = async {
            loop {
                // From here on, no notification is missed, even before the wait begins.
                let added = self.added.notified();
                if let Some(found) = self.find(entry) {
                    return found;
                }
                added.await;
            }
        };
        timeout(PATIENCE, found).await.ok()
    }

    /// Counts a join in flight until the returned value is dropped.
    pub(crate) fn joins(&self) -> OnDrop<impl Fn()> {
        self.known.lock().joining += 1;
        OnDrop(|| self.known.lock().joining -= 1)
    }

    /// Returns the own entry for a store entry.
    pub(crate) fn find(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        self.known.lock().find(entry)
    }

    /// Marks a key as lost while the session lives. Returns `false` if the key is unknown.
    pub(crate) fn lose(&self, key: &str, reason: LostReason) -> bool {
        // Without the lock, because a waker is the caller's code.
        let own_key = self.known.lock().own_keys.get(key).map(Arc::clone);
        own_key.is_some_and(|own_key| {
            own_key.lose(reason);
            true
        })
    }

    /// Ends an entry and notifies its successor how.
    pub(crate) fn end(&self, own_key: &Arc<OwnKey>, end: End) {
        own_key.finish(end);
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

#[cfg(test)]
mod tests;
