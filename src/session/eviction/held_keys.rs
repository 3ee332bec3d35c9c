//! The keys of a session's held locks.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::sync::Notify;

use crate::{
    runtime::{
        self, OnDrop,
        clock::{Instant, sleep_until},
        mutex::Mutex,
    },
    session::{claims::Claims, eviction::AT_ONCE, own_key::OwnKey, watch_budget::NO_ROOM},
};

/// The keys that are watched for evictions.
#[derive(Debug, Default)]
pub(super) struct HeldKeys {
    state: Mutex<State>,
    /// Notifies when the time of the next recheck may have changed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    own_keys: BTreeMap<Arc<str>, Arc<OwnKey>>,
    /// The number of keys for which there is no room to watch them.
    unwatched: usize,
}

impl HeldKeys {
    /// Adds a key until the returned value is dropped.
    pub(super) fn add<'a>(&'a self, own_key: &'a Arc<OwnKey>) -> OnDrop<impl Fn() + 'a> {
        let key = &own_key.entry.key;
        self.state.lock().own_keys.insert(Arc::clone(key), Arc::clone(own_key));
        self.changed.notify_one();
        OnDrop(move || {
            let mut state = self.state.lock();
            // The same key may be created again.
            if state.own_keys.get(key).is_some_and(|known| Arc::ptr_eq(known, own_key)) {
                state.own_keys.remove(key);
            }
        })
    }

    /// Returns `true` if all of their watches can be started at once.
    pub(super) fn are_few(&self) -> bool {
        self.state.lock().own_keys.len() <= AT_ONCE
    }

    /// Counts one more unwatched key until the returned value is dropped.
    pub(super) fn add_unwatched(&self) -> OnDrop<impl Fn()> {
        self.state.lock().unwatched += 1;
        self.changed.notify_one();
        OnDrop(|| self.state.lock().unwatched -= 1)
    }

    pub(super) fn own_keys(&self) -> Vec<Arc<OwnKey>> {
        self.state.lock().own_keys.values().map(Arc::clone).collect()
    }

    /// Returns when it is time to recheck all own keys.
    ///
    /// At that time there is a key, or there was one during the interval, or there may be keys that
    /// belong to no attempt.
    pub(super) async fn due(&self, recheck: Duration, claims: &Claims) {
        let mut since = None;
        // Adds up to a quarter to the interval, so that clients recheck at different times.
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
