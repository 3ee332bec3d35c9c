//! Looks after the keys of the locks that a session holds, so that a holder learns when somebody
//! deletes one.
//!
//! Two ways lead to that. Each key is watched, which tells at once; and now and then the store is
//! asked for all keys of the session in one request, as servers do lose watch events, and as there
//! may be no room for all the watches. Neither is a conclusion: a key that may be gone is looked
//! at.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    backend::{Standing, Store, error::StoreError},
    lost::LostReason,
    rig::{Bug, planted},
    runtime::backoff,
    session::{
        deadline::Life,
        own_keys::Place,
        watch_budget::{NO_ROOM, Room},
    },
};

/// How long a lock is held before its own key is looked after: a shorter hold need not pay for
/// that, and a deletion by an operator is still noticed within a second.
pub(crate) const WATCH_AFTER: Duration = Duration::from_millis(400);

/// How many watches are begun at once: thousands together would take the memory of thousands of
/// requests.
const AT_ONCE: usize = 32;

/// A handle on the session's one task for this, however many locks it holds.
#[derive(Debug)]
pub(crate) struct Warden {
    held: Arc<Held>,
}

/// Who has been granted, and when, the oldest first. Most are gone again before it is their time to
/// be looked after.
#[derive(Debug, Default)]
struct Held {
    places: Mutex<VecDeque<(Instant, Weak<Place>)>>,
    first: Notify,
}

impl Held {
    fn places(&self) -> MutexGuard<'_, VecDeque<(Instant, Weak<Place>)>> {
        // Nothing panics while it is locked.
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place whose time has come.
    async fn due(&self) -> Option<Arc<Place>> {
        let next = loop {
            let first = self.places().front().map(|(granted, _)| *granted);
            match first {
                Some(granted) => break granted,
                None => self.first.notified().await,
            }
        };
        sleep_until(next + WATCH_AFTER).await;
        self.places()
            .pop_front()
            .and_then(|(_, place)| place.upgrade())
            .filter(|place| place.is_held())
    }
}

impl Warden {
    /// `recheck`: how long to trust in the watches alone.
    pub(crate) fn start(
        runtime: &Handle,
        store: Arc<dyn Store>,
        life: Arc<Life>,
        room: Arc<Room>,
        recheck: Duration,
    ) -> Self {
        let held = Arc::<Held>::default();
        let (turns, wards) = (Semaphore::new(AT_ONCE), Wards::default());
        let work = Work { store, life, room, recheck, turns, wards };
        if !planted(Bug::OwnKeyUnwatched) {
            runtime.spawn(work.run(Arc::clone(&held)));
        }
        Self { held }
    }

    /// Takes on a lock that was just granted.
    pub(crate) fn watch(&self, place: &Arc<Place>) {
        let mut places = self.held.places();
        places.push_back((Instant::now(), Arc::downgrade(place)));
        // While there are others it will wake for them.
        if places.len() == 1 {
            self.held.first.notify_one();
        }
    }
}

/// The places that are looked after.
#[derive(Debug, Default)]
struct Wards {
    state: Mutex<State>,
    /// The next look at all of them may be due at another time.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    places: HashMap<Arc<str>, Arc<Place>>,
    /// How many of them there is no room to watch.
    unwatched: usize,
}

impl Wards {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add<'a>(&'a self, place: &'a Arc<Place>) -> Ward<'a> {
        self.state().places.insert(Arc::clone(&place.entry.key), Arc::clone(place));
        self.changed.notify_one();
        Ward { wards: self, place }
    }

    fn add_unwatched(&self) -> Unwatched<'_> {
        self.state().unwatched += 1;
        self.changed.notify_one();
        Unwatched(self)
    }

    fn places(&self) -> Vec<Arc<Place>> {
        self.state().places.values().map(Arc::clone).collect()
    }

    /// Returns when it is time to look at all of them. There is at least one, or was a moment ago.
    async fn due(&self, recheck: Duration) {
        let mut since = None;
        // A quarter of the time may be added, so that not all clients look at once.
        let late = 1.0 + fastrand::f64() / 4.0;
        loop {
            let (none, unwatched) = {
                let state = self.state();
                (state.places.is_empty(), state.unwatched > 0)
            };
            let interval = if unwatched { recheck.min(NO_ROOM) } else { recheck };
            let due = since.map(|since: Instant| since + interval.mul_f64(late));
            match due {
                None if none => self.changed.notified().await,
                None => since = Some(Instant::now()),
                Some(due) => tokio::select! {
                    () = sleep_until(due) => return,
                    () = self.changed.notified() => {}
                },
            }
        }
    }
}

/// Is among the wards as long as it lives.
struct Ward<'a> {
    wards: &'a Wards,
    place: &'a Arc<Place>,
}

impl Drop for Ward<'_> {
    fn drop(&mut self) {
        let mut state = self.wards.state();
        let key = &self.place.entry.key;
        // A key may come again.
        if state.places.get(key).is_some_and(|place| Arc::ptr_eq(place, self.place)) {
            state.places.remove(key);
        }
    }
}

/// Counts among the unwatched as long as it lives.
struct Unwatched<'a>(&'a Wards);

impl Drop for Unwatched<'_> {
    fn drop(&mut self) {
        self.0.state().unwatched -= 1;
    }
}

/// What the task works with.
struct Work {
    store: Arc<dyn Store>,
    life: Arc<Life>,
    room: Arc<Room>,
    recheck: Duration,
    /// Turns at beginning a watch.
    turns: Semaphore,
    wards: Wards,
}

impl Work {
    async fn run(self, held: Arc<Held>) {
        let mut watches = FuturesUnordered::new();
        let mut rechecks = pin!(self.recheck());
        loop {
            tokio::select! {
                biased;
                _ = self.life.lost() => return,
                Some(()) = watches.next() => {}
                place = held.due() => watches.extend(place.map(|place| self.look_after(place))),
                () = &mut rechecks => return,
            }
        }
    }

    /// Returns when the lock is let go, or its holder told that it is lost.
    async fn look_after(&self, place: Arc<Place>) {
        let _ward = self.wards.add(&place);
        tokio::select! {
            () = self.deleted(&place) => tell(&place),
            () = place.over() => {}
        }
    }

    /// Returns when the key is gone although the session lives. Without an answer nothing is
    /// decided here: the deadline does that, as it does for the session's end.
    async fn deleted(&self, place: &Place) {
        let key = &place.entry.key;
        let dir = key.rsplit_once('/').map_or("", |(dir, _)| dir);
        let mut attempt = 0;
        loop {
            let leave = self.room.watch(dir, key);
            let pause = if leave.is_some() || planted(Bug::OwnWatchesUnbudgeted) {
                if self.watched_until_deleted(place).await {
                    return;
                }
                attempt += 1;
                backoff(attempt - 1)
            } else {
                NO_ROOM
            };
            let _unwatched = leave.is_none().then(|| self.wards.add_unwatched());
            // On the heap: it is seldom needed, and room for it would be kept for each lock.
            Box::pin(sleep(pause)).await;
        }
    }

    /// Waits until the key may be gone; tells whether it is.
    async fn watched_until_deleted(&self, place: &Place) -> bool {
        // Never closed.
        let turn = self.turns.acquire().await;
        let watched = self.store.watch(&place.entry, false).await;
        drop(turn);
        match watched {
            Ok(Some(watch)) => {
                if watch.await.is_err() {
                    return false;
                }
            }
            Ok(None) => {}
            Err(_) => return false,
        }
        self.is_deleted(place).await.unwrap_or(false)
    }

    /// Looks at one key. `None`: no answer.
    async fn is_deleted(&self, place: &Place) -> Option<bool> {
        match self.store.standing(&place.entry).await {
            Ok(standing) => Some(standing == Standing::Evicted),
            Err(error) => {
                self.note(&error);
                None
            }
        }
    }

    fn note(&self, error: &StoreError) {
        if let StoreError::SessionGone(reason) = error {
            self.life.lose(*reason);
        }
    }

    /// Looks at all keys now and then. Never returns.
    async fn recheck(&self) {
        loop {
            self.wards.due(self.recheck).await;
            if planted(Bug::OwnKeyUnrechecked) {
                continue;
            }
            self.look_at_all().await;
        }
    }

    async fn look_at_all(&self) {
        // Those that come while the store answers may be missing in the answer.
        let places = self.wards.places();
        if places.is_empty() {
            return;
        }
        let keys: HashSet<_> = match self.store.own_keys().await {
            Ok(keys) => keys.into_iter().collect(),
            Err(error) => return self.note(&error),
        };
        for place in places.iter().filter(|place| !keys.contains(&place.entry.key)) {
            match self.is_deleted(place).await {
                Some(true) => tell(place),
                Some(false) => {}
                // The others would hardly get one; there is another time.
                None => return,
            }
        }
    }
}

/// The key is gone. Who lets go of a lock says so before the key is deleted, so that the holder
/// that is one still has not done it.
fn tell(place: &Place) {
    if place.is_held() {
        place.lose(LostReason::KeyDeleted);
    }
}
