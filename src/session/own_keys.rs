//! What a session knows of its own places in the queues, so that one of them can follow another
//! without asking the store.

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

/// How many places are remembered after their end, for those who joined behind one just as it ended
/// and hear of it a moment later.
const REMEMBERED: usize = 256;

/// How long to wait for one who joined before, but perhaps in another process.
const PATIENCE: Duration = Duration::from_millis(2);

/// The places of one session, by their keys.
#[derive(Debug, Default)]
pub(crate) struct OwnKeys {
    known: Mutex<Known>,
    /// There is one more.
    added: Notify,
}

#[derive(Debug, Default)]
struct Known {
    own_keys: HashMap<Arc<str>, Arc<OwnKey>>,
    ended: VecDeque<Arc<OwnKey>>,
    /// How many are about to join.
    joining: usize,
}

impl Known {
    /// The place that an entry stands for.
    fn find(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        self.own_keys.get(&entry.key).filter(|own_key| own_key.is(entry)).map(Arc::clone)
    }
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
        let own_key = Arc::new(OwnKey::new(entry, joined, sent, repeats));
        self.known.lock().own_keys.insert(key, Arc::clone(&own_key));
        self.added.notify_waiters();
        own_key
    }

    /// The same as [`find`](Self::find); waits a little for one that may have joined before, but
    /// has not heard of it yet: answers that came in one order are looked at in another.
    pub(crate) async fn find_soon(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        // At one moment: one that joined before is known by then, or still counted.
        let (found, joining) = {
            let known = self.known.lock();
            (known.find(entry), known.joining)
        };
        if found.is_some() || joining == 0 {
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
        self.known.lock().joining += 1;
        OnDrop(|| self.known.lock().joining -= 1)
    }

    /// The place that an entry stands for.
    pub(crate) fn find(&self, entry: &Entry) -> Option<Arc<OwnKey>> {
        self.known.lock().find(entry)
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
