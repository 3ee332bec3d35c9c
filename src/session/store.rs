//! A session's store, as the library uses it.

use std::{sync::Arc, time::Duration};

use super::Shared;
use crate::{
    backend::{
        Ask, Durability, Entry, Facts, Listing, LossListener, Present, Queue, Result,
        SequencePoint, Standing, Store, StoreError, Ticket, Watch, Watched, Write,
    },
    lost::LostReason,
    runtime::{Runtime, carried::Carried},
    telemetry::Telemetry,
};

/// Measures each request for metrics, and completes requests of callers that stall.
///
/// See `runtime/carried.rs`.
#[derive(Clone, Debug)]
pub(crate) struct SessionStore {
    store: Arc<dyn Store>,
    pub(super) telemetry: Telemetry,
    pub(super) runtime: Runtime,
}

async fn timed<T>(
    telemetry: Telemetry,
    operation: &'static str,
    request: impl Future<Output = Result<T>>,
) -> Result<T> {
    let asked = telemetry.asked(operation);
    let answer = request.await;
    asked.answered(match &answer {
        Ok(_) => "ok",
        Err(StoreError::Unavailable(_) | StoreError::Exhausted(_) | StoreError::NotYet(_)) => {
            "unavailable"
        }
        Err(StoreError::Unknown(_)) => "unknown",
        Err(StoreError::SessionGone(_)) => "session_gone",
        Err(StoreError::Denied(_) | StoreError::PartlyDenied(_)) => "denied",
        Err(StoreError::Fatal { .. }) => "refused",
    });
    answer
}

impl SessionStore {
    pub(super) async fn open(shared: &Shared) -> Result<(Facts, Self)> {
        let opening = shared.backend.open(shared.ttl);
        let (facts, store) = timed(shared.telemetry, "open", opening).await?;
        Ok((facts, Self::new(store, shared.telemetry, shared.runtime.clone())))
    }

    pub(crate) fn new(store: Arc<dyn Store>, telemetry: Telemetry, runtime: Runtime) -> Self {
        Self { store, telemetry, runtime }
    }
}

/// Methods that send no request.
impl SessionStore {
    pub(crate) fn marks_releases(&self, ahead: &Entry) -> bool {
        self.store.marks_releases(ahead)
    }

    pub(super) async fn ended(&self) -> LostReason {
        self.store.ended().await
    }

    pub(super) fn on_loss(&self, listener: LossListener) {
        self.store.on_loss(listener);
    }

    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
        allow(dead_code)
    )]
    pub(crate) fn gives_sql(&self, entry: &Entry) {
        self.store.gives_sql(entry);
    }

    pub(crate) fn was_released(&self, queue: &Queue, ticket: Ticket, entry: &Entry) {
        self.store.was_released(queue, ticket, entry);
    }

    pub(crate) fn free_within(&self, queue: &Queue) -> Option<Duration> {
        self.store.free_within(queue)
    }
}

/// Requests of callers. They are completed even if the caller stops polling.
impl SessionStore {
    fn carry<T: Send + 'static, F>(
        &self,
        operation: &'static str,
        request: impl FnOnce(Arc<dyn Store>) -> F,
    ) -> Carried<Result<T>>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let request = timed(self.telemetry, operation, request(Arc::clone(&self.store)));
        Carried::new(&self.runtime, request)
    }

    pub(crate) fn durability(&self) -> Carried<Result<Durability>> {
        self.carry("durability", |store| async move { store.durability().await })
    }

    pub(crate) fn keep_alive(&self) -> Carried<Result<Duration>> {
        self.carry("keep_alive", |store| async move { store.keep_alive().await })
    }

    pub(crate) fn standing(&self, entry: &Entry) -> Carried<Result<Standing>> {
        let entry = entry.clone();
        self.carry("standing", |store| async move { store.standing(&entry).await })
    }

    pub(crate) fn present(&self, entry: &Entry, ahead: &Entry) -> Carried<Result<Present>> {
        let (entry, ahead) = (entry.clone(), ahead.clone());
        self.carry("present", |store| async move { store.present(&entry, &ahead).await })
    }

    pub(crate) fn present_now(&self, entry: &Entry, ahead: &Entry) -> Carried<Result<Present>> {
        let (entry, ahead) = (entry.clone(), ahead.clone());
        self.carry("present", |store| async move { store.present_now(&entry, &ahead).await })
    }

    pub(crate) fn watch(&self, entry: &Entry, urgent: bool) -> Carried<Result<Option<Watch>>> {
        let entry = entry.clone();
        self.carry("watch", move |store| async move { store.watch(&entry, urgent).await })
    }

    pub(crate) fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Carried<Result<Watched>> {
        let (ahead, own) = (ahead.clone(), own.cloned());
        let watch = |store: Arc<dyn Store>| async move {
            store.watch_ahead(&ahead, there, own.as_ref()).await
        };
        self.carry("watch", watch)
    }

    pub(crate) fn list(&self, queue: &Queue, ask: Ask) -> Carried<Result<Listing>> {
        let queue = queue.clone();
        self.carry("list", move |store| async move { store.list(&queue, ask).await })
    }

    pub(crate) fn commit(&self, guards: &[Entry], writes: &[Write]) -> Carried<Result<bool>> {
        let (guards, writes) = (guards.to_vec(), writes.to_vec());
        self.carry("commit", |store| async move { store.commit(&guards, &writes).await })
    }

    pub(crate) fn evict(&self, entry: &Entry) -> Carried<Result<bool>> {
        let entry = entry.clone();
        self.carry("evict", |store| async move { store.evict(&entry).await })
    }

    pub(crate) fn read(&self, key: &str) -> Carried<Result<Option<Vec<u8>>>> {
        let key = key.to_owned();
        self.carry("read", |store| async move { store.read(&key).await })
    }

    pub(crate) fn queues(&self, namespace: &str) -> Carried<Result<Vec<String>>> {
        let namespace = namespace.to_owned();
        self.carry("queues", |store| async move { store.queues(&namespace).await })
    }
}

impl SessionStore {
    /// Sends a request that the library itself drives to completion.
    pub(crate) fn ask<'a, T, F>(
        &'a self,
        operation: &'static str,
        request: impl FnOnce(&'a dyn Store) -> F,
    ) -> impl Future<Output = Result<T>>
    where
        F: Future<Output = Result<T>>,
    {
        timed(self.telemetry, operation, request(&*self.store))
    }
}
