//! The keys of the locks that a session holds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::{
    runtime::{
        self,
        clock::{Instant, sleep_until},
        mutex::Mutex,
    },
    session::{claims::Claims, own_keys::OwnKey, watch_budget::NO_ROOM},
};

/// The places that are looked after.
#[derive(Debug, Default)]
pub(super) struct HeldKeys {
    state: Mutex<State>,
    /// The next look at all of them may be due at another time.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    own_keys: BTreeMap<Arc<str>, Arc<OwnKey>>,
    /// How many of them there is no room to watch.
    unwatched: usize,
}

impl HeldKeys {
    pub(super) fn add<'a>(&'a self, own_key: &'a Arc<OwnKey>) -> HeldKey<'a> {
        self.state.lock().own_keys.insert(Arc::clone(&own_key.entry.key), Arc::clone(own_key));
        self.changed.notify_one();
        HeldKey { held_keys: self, own_key }
    }

    pub(super) fn add_unwatched(&self) -> Unwatched<'_> {
        self.state.lock().unwatched += 1;
        self.changed.notify_one();
        Unwatched(self)
    }

    pub(super) fn own_keys(&self) -> Vec<Arc<OwnKey>> {
        self.state.lock().own_keys.values().map(Arc::clone).collect()
    }

    /// Returns when it is time to recheck all own keys. There is at least one, or was a moment ago,
    /// or there may be keys that belong to no attempt.
    pub(super) async fn due(&self, recheck: Duration, claims: &Claims) {
        let mut since = None;
        // A quarter of the time may be added, so that not all clients look at once.
        let late = runtime::late();
        loop {
            let (none, unwatched) = {
                let state = self.state.lock();
                let none = state.own_keys.is_empty() && !claims.is_in_doubt();
                (none, state.unwatched > 0)
            };
            let interval = if unwatched { recheck.min(NO_ROOM) } else { recheck };
            let due = since.map(|since: Instant| since + interval.mul_f64(late));
            match due {
                None if none => self.changed.notified().await,
                None => since = Some(Instant::now()),
                Some(due) => tokio::select! {
                    biased;
                    () = sleep_until(due) => return,
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

/// Is among the held keys as long as it lives.
pub(super) struct HeldKey<'a> {
    held_keys: &'a HeldKeys,
    own_key: &'a Arc<OwnKey>,
}

impl Drop for HeldKey<'_> {
    fn drop(&mut self) {
        let mut state = self.held_keys.state.lock();
        let key = &self.own_key.entry.key;
        // A key may come again.
        if state.own_keys.get(key).is_some_and(|own_key| Arc::ptr_eq(own_key, self.own_key)) {
            state.own_keys.remove(key);
        }
    }
}

/// Counts among the unwatched as long as it lives.
pub(super) struct Unwatched<'a>(&'a HeldKeys);

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwatched -= 1;
    }
}
