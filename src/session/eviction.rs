//! Looks after the keys of the locks that a session holds, so that a holder learns when somebody
//! deletes one.
//!
//! Two ways lead to that. Each key is watched, which tells at once; and now and then the store is
//! asked for all keys of the session in one request, as servers do lose watch events, and as there
//! may be no room for all the watches. Neither is a conclusion: a key that may be gone is looked
//! at.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Notify, Semaphore};

use crate::{
    backend::{Standing, Store, error::StoreError},
    lost::LostReason,
    runtime::{
        self, Backoff, Runtime,
        clock::{Instant, sleep, sleep_until},
        mutex::Mutex,
    },
    session::{
        deadline::Deadline,
        own_keys::OwnKey,
        watch_budget::{NO_ROOM, WatchBudget},
    },
    telemetry::Telemetry,
};

/// How long a lock is held before its own key is looked after: a shorter hold need not pay for
/// that, and a deletion by an operator is still noticed within a second.
pub(crate) const WATCH_AFTER: Duration = Duration::from_millis(400);

/// How many watches are begun at once: thousands together would take the memory of thousands of
/// requests.
const AT_ONCE: usize = 32;

/// A handle on the session's one task for this, however many locks it holds.
#[derive(Debug)]
pub(crate) struct EvictionWatch {
    granted_keys: Arc<Granted>,
}

/// Who has been granted, and when, the oldest first. Most are gone again before it is their time to
/// be looked after.
#[derive(Debug, Default)]
struct Granted {
    own_keys: Mutex<VecDeque<(Instant, Weak<OwnKey>)>>,
    first: Notify,
}

impl Granted {
    /// Waits for a key whose time has come.
    async fn due(&self) -> Arc<OwnKey> {
        loop {
            let oldest = self.oldest();
            let Some((granted, own_key)) = oldest else {
                self.first.notified().await;
                continue;
            };
            let due = granted + WATCH_AFTER;
            if due <= Instant::now() {
                self.own_keys.lock().pop_front();
                return own_key;
            }
            drop(own_key);
            sleep_until(due).await;
        }
    }

    /// The first of those that are still held: nobody wakes up for the others.
    fn oldest(&self) -> Option<(Instant, Arc<OwnKey>)> {
        let mut own_keys = self.own_keys.lock();
        loop {
            let (granted, own_key) = own_keys.front()?;
            match own_key.upgrade().filter(|own_key| own_key.is_held()) {
                Some(own_key) => return Some((*granted, own_key)),
                None => drop(own_keys.pop_front()),
            }
        }
    }
}

impl EvictionWatch {
    /// `recheck`: how long to trust in the watches alone.
    pub(crate) fn start(
        runtime: &Runtime,
        store: Arc<dyn Store>,
        deadline: Arc<Deadline>,
        watch_budget: Arc<WatchBudget>,
        recheck: Duration,
        telemetry: Telemetry,
    ) -> Self {
        let granted_keys = Arc::<Granted>::default();
        let (watch_permits, held_keys) = (Semaphore::new(AT_ONCE), HeldKeys::default());
        let work =
            Work { store, deadline, watch_budget, recheck, watch_permits, held_keys, telemetry };
        runtime.spawn(work.run(Arc::clone(&granted_keys)));
        Self { granted_keys }
    }

    /// Takes on a lock that was just granted.
    pub(crate) fn watch(&self, own_key: &Arc<OwnKey>) {
        let mut own_keys = self.granted_keys.own_keys.lock();
        own_keys.push_back((Instant::now(), Arc::downgrade(own_key)));
        // While there are others it will wake for them.
        if own_keys.len() == 1 {
            self.granted_keys.first.notify_one();
        }
    }
}

/// The places that are looked after.
#[derive(Debug, Default)]
struct HeldKeys {
    state: Mutex<State>,
    /// The next look at all of them may be due at another time.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    own_keys: BTreeMap<Arc<str>, Arc<OwnKey>>,
    /// How many of them there is no room to watch.
    unwatched: usize,
}

impl HeldKeys {
    fn add<'a>(&'a self, own_key: &'a Arc<OwnKey>) -> HeldKey<'a> {
        self.state.lock().own_keys.insert(Arc::clone(&own_key.entry.key), Arc::clone(own_key));
        self.changed.notify_one();
        HeldKey { held_keys: self, own_key }
    }

    fn add_unwatched(&self) -> Unwatched<'_> {
        self.state.lock().unwatched += 1;
        self.changed.notify_one();
        Unwatched(self)
    }

    fn own_keys(&self) -> Vec<Arc<OwnKey>> {
        self.state.lock().own_keys.values().map(Arc::clone).collect()
    }

    /// Returns when it is time to look at all of them. There is at least one, or was a moment ago.
    async fn due(&self, recheck: Duration) {
        let mut since = None;
        // A quarter of the time may be added, so that not all clients look at once.
        let late = runtime::late();
        loop {
            let (none, unwatched) = {
                let state = self.state.lock();
                (state.own_keys.is_empty(), state.unwatched > 0)
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
struct HeldKey<'a> {
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
struct Unwatched<'a>(&'a HeldKeys);

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwatched -= 1;
    }
}

/// What the task works with.
struct Work {
    store: Arc<dyn Store>,
    deadline: Arc<Deadline>,
    watch_budget: Arc<WatchBudget>,
    recheck: Duration,
    /// Turns at beginning a watch.
    watch_permits: Semaphore,
    held_keys: HeldKeys,
    telemetry: Telemetry,
}

impl Work {
    async fn run(self, granted_keys: Arc<Granted>) {
        let mut watches = FuturesUnordered::new();
        let mut rechecks = pin!(self.recheck());
        loop {
            tokio::select! {
                biased;
                _ = self.deadline.lost() => return,
                Some(()) = watches.next() => {}
                key = granted_keys.due() => watches.push(self.look_after(key)),
                () = &mut rechecks => return,
            }
        }
    }

    /// Returns when the lock is let go, or its holder told that it is lost.
    async fn look_after(&self, own_key: Arc<OwnKey>) {
        let _held = self.held_keys.add(&own_key);
        tokio::select! {
            biased;
            () = self.deleted(&own_key) => tell(&own_key),
            () = own_key.over() => {}
        }
    }

    /// Returns when the key is gone although the session lives. Without an answer nothing is
    /// decided here: the deadline does that, as it does for the session's end.
    async fn deleted(&self, own_key: &OwnKey) {
        let key = &own_key.entry.key;
        let dir = key.rsplit_once('/').map_or("", |(dir, _)| dir);
        let mut backoff = Backoff::default();
        loop {
            let leave = self.watch_budget.watch(dir, key);
            let pause = if leave.is_some() {
                if self.watched_until_deleted(own_key).await {
                    return;
                }
                backoff.next_pause()
            } else {
                NO_ROOM
            };
            let _unwatched = leave.is_none().then(|| self.held_keys.add_unwatched());
            // On the heap: it is seldom needed, and room for it would be kept for each lock.
            Box::pin(sleep(pause)).await;
        }
    }

    /// Waits until the key may be gone; tells whether it is.
    async fn watched_until_deleted(&self, own_key: &OwnKey) -> bool {
        // Never closed.
        let permit = self.watch_permits.acquire().await;
        let watched = self.store.watch(&own_key.entry, false).await;
        drop(permit);
        match watched {
            Ok(Some(watch)) => {
                if watch.await.is_err() {
                    return false;
                }
            }
            Ok(None) => {}
            Err(_) => return false,
        }
        self.is_deleted(own_key).await.unwrap_or(false)
    }

    /// Looks at one key. `None`: no answer.
    async fn is_deleted(&self, own_key: &OwnKey) -> Option<bool> {
        match self.store.standing(&own_key.entry).await {
            Ok(standing) => Some(standing == Standing::Evicted),
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    fn note(&self, error: &StoreError) {
        if let StoreError::SessionGone(reason) = error {
            self.deadline.lose(*reason);
        }
    }

    /// Looks at all keys now and then. Never returns.
    async fn recheck(&self) {
        loop {
            self.held_keys.due(self.recheck).await;
            self.look_at_all().await;
        }
    }

    async fn look_at_all(&self) {
        // Those that come while the store answers may be missing in the answer.
        let own_keys = self.held_keys.own_keys();
        if own_keys.is_empty() {
            return;
        }
        let keys: HashSet<_> = match self.store.own_keys().await {
            Ok(keys) => keys.into_iter().collect(),
            Err(error) => return self.note(&error),
        };
        let is_open = |own: &&Arc<OwnKey>| own.repeats || !keys.contains(&own.entry.key);
        for own_key in own_keys.iter().filter(is_open) {
            match self.is_deleted(own_key).await {
                Some(true) => {
                    if own_key.is_held() {
                        self.telemetry.recheck_found("hold");
                    }
                    tell(own_key);
                }
                Some(false) => {}
                // The others would hardly get one; there is another time.
                None => return,
            }
        }
    }
}

/// The key is gone. Who lets go of a lock says so before the key is deleted, so that the holder
/// that is one still has not done it.
fn tell(own_key: &OwnKey) {
    if own_key.is_held() {
        own_key.lose(LostReason::KeyDeleted);
    }
}

#[cfg(test)]
mod tests;
