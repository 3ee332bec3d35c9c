//! A store as callers ask it: no request of theirs depends on them.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::{
        Ask, Entry, Listing, Moment, Present, Standing, Store, Watch, Watched, Write,
        durability::Durability, error::Result, name::Queue,
    },
    runtime::{Runtime, carried::Carried},
};

/// Carries each request on if its caller does not: see `runtime/carried.rs`.
#[derive(Debug)]
pub(crate) struct Driven {
    store: Arc<dyn Store>,
    runtime: Runtime,
}

impl Driven {
    pub(crate) fn new(store: Arc<dyn Store>, runtime: Runtime) -> Self {
        Self { store, runtime }
    }

    fn ask<T: Send + 'static, F>(&self, request: impl FnOnce(Arc<dyn Store>) -> F) -> Carried<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        Carried::new(&self.runtime, request(Arc::clone(&self.store)))
    }

    pub(crate) fn tells_releases(&self, ahead: &Entry) -> bool {
        self.store.tells_releases(ahead)
    }

    pub(crate) fn durability(&self) -> Carried<Result<Durability>> {
        self.ask(|store| async move { store.durability().await })
    }

    pub(crate) fn keep_alive(&self) -> Carried<Result<Duration>> {
        self.ask(|store| async move { store.keep_alive().await })
    }

    pub(crate) fn standing(&self, entry: &Entry) -> Carried<Result<Standing>> {
        let entry = entry.clone();
        self.ask(|store| async move { store.standing(&entry).await })
    }

    pub(crate) fn present(&self, entry: &Entry, ahead: &Entry) -> Carried<Result<Present>> {
        let (entry, ahead) = (entry.clone(), ahead.clone());
        self.ask(|store| async move { store.present(&entry, &ahead).await })
    }

    pub(crate) fn present_now(&self, entry: &Entry, ahead: &Entry) -> Carried<Result<Present>> {
        let (entry, ahead) = (entry.clone(), ahead.clone());
        self.ask(|store| async move { store.present_now(&entry, &ahead).await })
    }

    pub(crate) fn watch(&self, entry: &Entry, urgent: bool) -> Carried<Result<Option<Watch>>> {
        let entry = entry.clone();
        self.ask(|store| async move { store.watch(&entry, urgent).await })
    }

    pub(crate) fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<Moment>,
        own: Option<&Entry>,
    ) -> Carried<Result<Watched>> {
        let (ahead, own) = (ahead.clone(), own.cloned());
        self.ask(|store| async move { store.watch_ahead(&ahead, there, own.as_ref()).await })
    }

    pub(crate) fn list(&self, queue: &Queue, ask: Ask) -> Carried<Result<Listing>> {
        let queue = queue.clone();
        self.ask(|store| async move { store.list(&queue, ask).await })
    }

    pub(crate) fn commit(&self, guards: &[Entry], writes: &[Write]) -> Carried<Result<bool>> {
        let (guards, writes) = (guards.to_vec(), writes.to_vec());
        self.ask(|store| async move { store.commit(&guards, &writes).await })
    }

    pub(crate) fn evict(&self, entry: &Entry) -> Carried<Result<bool>> {
        let entry = entry.clone();
        self.ask(|store| async move { store.evict(&entry).await })
    }

    pub(crate) fn read(&self, key: &str) -> Carried<Result<Option<Vec<u8>>>> {
        let key = key.to_owned();
        self.ask(|store| async move { store.read(&key).await })
    }

    pub(crate) fn queues(&self, namespace: &str) -> Carried<Result<Vec<String>>> {
        let namespace = namespace.to_owned();
        self.ask(|store| async move { store.queues(&namespace).await })
    }
}
