//! The task that watches a session's held keys, and threads that acquire, release and evict.

use std::{sync::Arc, time::Duration};

use shuttle::{future::block_on, thread};

use super::{join, runtime, store::Store};
use crate::{
    backend::{Entry, Facts, SequencePoint},
    lost::LostReason,
    runtime::clock,
    session::{
        claims::Claims,
        deadline::Deadline,
        eviction::{self, Granted},
        own_key::OwnKey,
        own_keys::OwnKeys,
        store::SessionStore,
        watch_budget::WatchBudget,
    },
    telemetry::Telemetry,
};

/// Longer than any sleep here.
const TTL: Duration = Duration::from_secs(1_000_000);
const RECHECK: Duration = Duration::from_secs(20);

/// A session and its task.
#[derive(Clone)]
struct Session {
    store: Store,
    deadline: Arc<Deadline>,
    granted: Arc<Granted>,
    own_keys: Arc<OwnKeys>,
}

impl Session {
    fn new() -> Self {
        let store = Store::default();
        let deadline = Arc::new(Deadline::new(clock::now(), TTL, false));
        let granted = eviction::start(
            SessionStore::new(Arc::new(store.clone()), Telemetry::default(), runtime()),
            Arc::clone(&deadline),
            Arc::new(WatchBudget::new(usize::MAX, usize::MAX)),
            Arc::new(Claims::new(&Facts::new(TTL))),
            RECHECK,
        );
        Self { store, deadline, granted, own_keys: Arc::default() }
    }

    /// Grants a lock.
    fn grant(&self, key: &str) -> Arc<OwnKey> {
        self.store.put(key);
        let entry = Entry::new(key, 1);
        let own = self.own_keys.add(entry, SequencePoint(1), clock::now(), false);
        own.hold();
        self.granted.add(&own);
        own
    }

    /// Ends the task.
    fn end(self) {
        self.deadline.lose(LostReason::ClientClosed);
    }
}

/// Locks that are granted at the same time are all watched.
pub fn keys_granted_at_once_are_watched() {
    let session = Session::new();
    let grants = ["/q/1", "/q/2"].map(|key| {
        let session = session.clone();
        thread::spawn(move || session.grant(key))
    });
    block_on(session.store.until(|state| state.watched.len() == 2));
    let _held = grants.map(join);
    session.end();
}

/// An evicted holder is notified and another holder is not, whether or not its event arrives.
fn evicted_holder_is_notified_with(loses_events: bool) {
    let session = Session::new();
    session.store.call(|state| state.loses_events = loses_events);
    let own = session.grant("/q/1");
    let (operator, other) = (session.store.clone(), session.clone());
    let evicts = thread::spawn(move || operator.delete("/q/1"));
    let other = thread::spawn(move || other.grant("/q/2"));
    assert_eq!(block_on(own.lost()), LostReason::Evicted);
    join(evicts);
    assert_eq!(join(other).lost_reason(), None);
    session.end();
}

pub fn evicted_holder_is_notified() {
    evicted_holder_is_notified_with(false);
}

pub fn evicted_holder_is_notified_without_its_event() {
    evicted_holder_is_notified_with(true);
}

/// A key that is granted while all keys are read is not considered missing by that read.
pub fn key_granted_during_a_recheck_is_not_checked() {
    let session = Session::new();
    session.store.call(|state| state.loses_events = true);
    let first = session.grant("/q/1");
    let grants = session.clone();
    let second = thread::spawn(move || grants.grant("/q/2"));
    block_on(session.store.until(|state| state.watched.len() == 2 && state.lists > 0));
    session.store.call(|state| assert!(state.looked_at.is_empty()));
    let second = join(second);
    assert_eq!((first.lost_reason(), second.lost_reason()), (None, None));
    session.end();
}

/// A release does not count as an eviction.
pub fn released_holder_is_not_notified() {
    let session = Session::new();
    let own = session.grant("/q/1");
    let (releases, released) = (session.store.clone(), Arc::clone(&own));
    let release = thread::spawn(move || {
        assert!(released.leave());
        releases.delete("/q/1");
    });
    let other = session.grant("/q/2");
    block_on(session.store.until(|state| state.watched.contains("/q/2")));
    join(release);
    assert_eq!((own.lost_reason(), other.lost_reason()), (None, None));
    session.end();
}
