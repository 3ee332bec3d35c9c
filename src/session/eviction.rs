//! Watches the keys of a session's held locks, to notify holders of their eviction.
//!
//! Each key is watched once it has been held for [`WATCH_AFTER`]. The watch reports a deletion at
//! once, or within a second on stores without events. In addition, one request periodically lists
//! all keys of the session, because servers lose watch events and there may be no room for all
//! watches. Neither proves an eviction, so a key that seems to be gone is read. Listed keys that
//! belong to no attempt are removed: see `claims.rs`.

mod granted;
mod held_keys;

use std::{collections::HashSet, pin::pin, sync::Arc, time::Duration};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;

pub(crate) use self::granted::Granted;
use self::held_keys::HeldKeys;
use crate::{
    backend::{
        Standing,
        error::{Result, StoreError},
    },
    runtime::{Backoff, clock::sleep},
    session::{
        claims::Claims,
        deadline::Deadline,
        keeper::ends_with,
        own_key::OwnKey,
        store::SessionStore,
        watch_budget::{NO_ROOM, WatchBudget},
    },
};

/// How long a lock is held before its own key is watched. A shorter hold does not pay for a watch,
/// and an eviction by an operator is still noticed within a second.
pub(crate) const WATCH_AFTER: Duration = Duration::from_millis(400);

/// The longest pause before a lost watch is restarted, if few keys are held.
const WATCH_AGAIN: Duration = Duration::from_millis(250);

/// The pauses between the reads for the key of a request in doubt. Most abandoned requests are
/// applied within a few seconds. The recheck finds the keys of later ones.
const AFTER_DOUBT: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(8)];

/// How many watches are started at the same time. Thousands would take the memory of thousands of
/// requests.
const AT_ONCE: usize = 32;

/// Starts the session's one eviction task, for any number of locks.
///
/// The task watches the keys that are added to the returned list. `recheck`: how long to rely on
/// the watches alone.
pub(crate) fn start(
    store: SessionStore,
    deadline: Arc<Deadline>,
    watch_budget: Arc<WatchBudget>,
    claims: Arc<Claims>,
    recheck: Duration,
) -> Arc<Granted> {
    let granted = Arc::<Granted>::default();
    let (granted_keys, ends) = (Arc::clone(&granted), ends_with(&deadline));
    let (watch_permits, held_keys) = (Semaphore::new(AT_ONCE), HeldKeys::default());
    let runtime = store.runtime.clone();
    let work = Work { store, deadline, watch_budget, claims, recheck, watch_permits, held_keys };
    runtime.spawn(async move {
        work.run(granted_keys).await;
        drop(ends);
    });
    granted
}

/// The state of the task.
struct Work {
    store: SessionStore,
    deadline: Arc<Deadline>,
    watch_budget: Arc<WatchBudget>,
    claims: Arc<Claims>,
    recheck: Duration,
    /// Limits how many watches are being started.
    watch_permits: Semaphore,
    held_keys: HeldKeys,
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

    /// Returns when the lock is released or its holder has been notified of the loss.
    async fn look_after(&self, own_key: Arc<OwnKey>) {
        let _held = self.held_keys.add(&own_key);
        tokio::select! {
            biased;
            () = self.deleted(&own_key) => own_key.evicted(),
            () = own_key.over() => {}
        }
    }

    /// Returns when the key has been deleted while the session lives.
    ///
    /// Without a reply, this decides nothing: the deadline does, as it does for the end of the
    /// session.
    async fn deleted(&self, own_key: &OwnKey) {
        let key = &own_key.entry.key;
        let dir = key.rsplit_once('/').map_or("", |(dir, _)| dir);
        let mut backoff = Backoff::default();
        loop {
            let leave = self.watch_budget.watch(dir, key);
            let pause = if leave.is_some() {
                match self.watched_until_deleted(own_key).await {
                    Ok(true) => return,
                    // The next watch would probably be denied, too.
                    Err(StoreError::Denied(_)) => NO_ROOM,
                    Ok(false) | Err(_) => {
                        let pause = backoff.next_pause();
                        if self.held_keys.are_few() { pause.min(WATCH_AGAIN) } else { pause }
                    }
                }
            } else {
                NO_ROOM
            };
            let _unwatched = leave.is_none().then(|| self.held_keys.add_unwatched());
            // Boxed, because it is rarely needed and each lock would reserve space for it.
            Box::pin(sleep(pause)).await;
        }
    }

    /// Waits until the key may be gone. Returns `true` if it is.
    async fn watched_until_deleted(&self, own_key: &OwnKey) -> Result<bool> {
        // The semaphore is never closed.
        let permit = self.watch_permits.acquire().await;
        let watched = self.store.ask("watch", |store| store.watch(&own_key.entry, false)).await;
        drop(permit);
        let event = match watched {
            Ok(Some(watch)) => watch.await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        event.inspect_err(|error| self.note(error))?;
        // The server that sent the event has applied the deletion.
        let looked = self.store.ask("standing", |store| store.standing(&own_key.entry)).await;
        Ok(self.is_evicted(looked).unwrap_or(false))
    }

    /// Returns `Some(true)` if the reply shows that the key was evicted.
    ///
    /// `None` means that there was no reply.
    fn is_evicted(&self, looked: Result<Standing, StoreError>) -> Option<bool> {
        match looked {
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

    /// Rechecks all keys periodically. Never returns.
    async fn recheck(&self) {
        let at_intervals = async {
            loop {
                self.held_keys.due(self.recheck, &self.claims).await;
                self.look_at_all().await;
            }
        };
        tokio::join!(at_intervals, self.look_after_doubts());
    }

    /// Reads the keys of requests in doubt sooner than the recheck would. Never returns.
    async fn look_after_doubts(&self) {
        loop {
            self.claims.doubted().await;
            // From now on, each recheck has keys to look for.
            self.held_keys.changed.notify_one();
            for pause in AFTER_DOUBT {
                sleep(pause).await;
                self.look_at_all().await;
            }
        }
    }

    async fn look_at_all(&self) {
        // Keys that are added while the store replies may be missing in the reply.
        let own_keys = self.held_keys.own_keys();
        if own_keys.is_empty() && !self.claims.is_in_doubt() {
            return;
        }
        let found = match self.store.ask("own_keys", |store| store.own_keys()).await {
            Ok(found) => found,
            Err(error) => return self.note(&error),
        };
        self.look_for(&own_keys, found.iter().map(|key| &**key).collect()).await;
        for key in &found {
            if let Err(error) = self.remove_stray(key).await {
                return self.note(&error);
            }
        }
    }

    /// Reads each own key that is not certainly among the keys found.
    async fn look_for(&self, own_keys: &[Arc<OwnKey>], found: HashSet<&str>) {
        let is_open = |own: &&Arc<OwnKey>| own.repeats || !found.contains(&*own.entry.key);
        for own_key in own_keys.iter().filter(is_open) {
            let entry = &own_key.entry;
            let looked = self.store.ask("standing", |store| store.standing_now(entry)).await;
            match self.is_evicted(looked) {
                Some(true) => {
                    if own_key.is_needed() {
                        self.store.telemetry.recheck_found("hold");
                    }
                    own_key.evicted();
                }
                Some(false) => {}
                // The other reads would hardly get a reply either. The next recheck repeats them.
                None => return,
            }
        }
    }

    /// Removes the key if it belongs to no attempt.
    async fn remove_stray(&self, key: &str) -> Result<()> {
        if !self.claims.suspects(key) {
            return Ok(());
        }
        let found = self.store.ask("own_entry", |store| store.own_entry(key)).await?;
        let Some(entry) = found else { return Ok(()) };
        if self.claims.is_stray(&entry) {
            self.store.ask("remove", |store| store.remove(&entry)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
