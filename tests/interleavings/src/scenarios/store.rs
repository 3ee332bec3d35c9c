//! A store in which operators and holders delete keys.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use tokio_itself::sync::Notify;

use crate::{
    backend::{
        Entry, Event, Extras, Join, Joined, Joiner, LeaveOutcome, LeaveRequest, LockStore,
        Specifics, Standing, Watch,
        error::{Result, StoreError},
    },
    runtime::yield_now,
    sync::interrupt,
};

/// The store; all clones share it. A call takes effect at one moment, before which another thread
/// may run.
#[derive(Clone, Debug, Default)]
pub(super) struct Store(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
pub(super) struct State {
    keys: BTreeSet<Arc<str>>,
    /// No watch is notified.
    pub(super) loses_events: bool,
    pub(super) watched: BTreeSet<Arc<str>>,
    pub(super) looked_at: BTreeSet<Arc<str>>,
    pub(super) lists: usize,
}

impl Store {
    pub(super) fn call<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        interrupt();
        let outcome = call(&mut self.0.state.lock().unwrap());
        self.0.changed.notify_waiters();
        outcome
    }

    pub(super) fn put(&self, key: &str) {
        self.call(|state| state.keys.insert(key.into()));
    }

    pub(super) fn delete(&self, key: &str) {
        self.call(|state| state.keys.remove(key));
    }

    /// Returns when the condition holds.
    pub(super) async fn until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if is_so(&self.0.state.lock().unwrap()) {
                return;
            }
            changed.await;
        }
    }
}

#[async_trait]
impl LockStore for Store {
    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        Ok(self.call(|state| {
            state.looked_at.insert(Arc::clone(&entry.key));
            match state.keys.contains(&entry.key) {
                true => Standing::First,
                false => Standing::Evicted,
            }
        }))
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let keys = self.call(|state| {
            state.lists += 1;
            state.keys.iter().map(Arc::clone).collect()
        });
        // While the reply is on its way, a granted key may be due.
        yield_now().await;
        yield_now().await;
        Ok(keys)
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        let (store, key) = (self.clone(), Arc::clone(&entry.key));
        self.call(|state| state.watched.insert(Arc::clone(&key)));
        Ok(Some(Box::pin(async move {
            store.until(|state| !state.loses_events && !state.keys.contains(&key)).await;
            Ok(Event::Deleted)
        })))
    }

    async fn keep_alive(&self) -> Result<Duration> {
        Err(not_asked())
    }

    async fn enqueue(&self, _: Joiner<'_>, _: &[u8], _: Join) -> Result<Joined> {
        Err(not_asked())
    }

    async fn leave(&self, _: Joiner<'_>, _: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        Err(not_asked())
    }

    async fn close(&self) -> Result<()> {
        Err(not_asked())
    }
}

impl Specifics for Store {}

impl Extras for Store {}

fn not_asked() -> StoreError {
    StoreError::Unavailable("no scenario requests it".into())
}
