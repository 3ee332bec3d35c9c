//! Watches the keys of the locks that a session holds, so that a holder learns when somebody deletes one.

use std::{
    collections::VecDeque,
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
    backend::{Standing, Store},
    error::StoreError,
    guard::LostReason,
    life::Life,
    place::Place,
    rig::{Bug, planted},
    runtime::backoff,
};

/// How long a lock is held before its own key is watched: a shorter hold need not pay for that, and a deletion by an operator is still
/// noticed within a second.
pub(crate) const WATCH_AFTER: Duration = Duration::from_millis(400);

/// How many watches are begun at once: thousands together would take the memory of thousands of requests.
const AT_ONCE: usize = 32;

/// A handle on the session's one task for this, however many locks it holds.
#[derive(Debug)]
pub(crate) struct Warden {
    held: Arc<Held>,
}

/// Who has been granted, and when, the oldest first. Most are gone again before it is their time to be watched.
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
        self.places().pop_front().and_then(|(_, place)| place.upgrade()).filter(|place| place.is_held())
    }
}

impl Warden {
    pub(crate) fn start(runtime: &Handle, store: Arc<dyn Store>, life: Arc<Life>) -> Self {
        let held = Arc::<Held>::default();
        if !planted(Bug::OwnKeyUnwatched) {
            runtime.spawn(run(Arc::clone(&held), store, life));
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

async fn run(held: Arc<Held>, store: Arc<dyn Store>, life: Arc<Life>) {
    let turns = Semaphore::new(AT_ONCE);
    let mut watches = FuturesUnordered::new();
    loop {
        tokio::select! {
            biased;
            _ = life.lost() => return,
            Some(()) = watches.next() => {}
            place = held.due() => watches.extend(place.map(|place| watch(&*store, &life, &turns, place))),
        }
    }
}

/// Returns when the lock is let go, or its key is gone although the session lives.
async fn watch(store: &dyn Store, life: &Life, turns: &Semaphore, place: Arc<Place>) {
    let deleted = async {
        let mut attempt = 0;
        // Without an answer nothing is decided here: the deadline does that, as it does for the session's end.
        while !is_deleted(store, life, turns, &place).await {
            // On the heap: it is seldom needed, and room for it would be kept for each lock.
            Box::pin(sleep(backoff(attempt))).await;
            attempt += 1;
        }
    };
    tokio::select! {
        () = deleted => place.lose(LostReason::KeyDeleted),
        () = place.left() => {}
    }
}

/// Waits until the key may be gone; tells whether it is.
async fn is_deleted(store: &dyn Store, life: &Life, turns: &Semaphore, place: &Place) -> bool {
    // Never closed.
    let turn = turns.acquire().await;
    let watched = store.watch(&place.entry, false).await;
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
    match store.standing(&place.entry).await {
        Ok(Standing::Evicted) => true,
        Err(StoreError::SessionGone(reason)) => {
            life.lose(reason);
            false
        }
        _ => false,
    }
}
