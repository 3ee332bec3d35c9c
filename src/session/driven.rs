//! A store as callers ask it: no request of theirs depends on them.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::runtime::Handle;

use crate::{
    backend::{
        Ask, Entry, Extras, Join, Joined, Leaving, Left, Listing, Present, Rewritten, Standing,
        Store, Watch, Write,
        error::StoreError,
        name::{Queue, Ticket},
    },
    lost::LostReason,
    runtime::carried::Carried,
};

/// Carries each request on if its caller does not: see `runtime/carried.rs`.
#[derive(Debug)]
pub(crate) struct Driven {
    store: Arc<dyn Store>,
    runtime: &'static Handle,
}

impl Driven {
    pub(crate) fn new(store: Arc<dyn Store>, runtime: &'static Handle) -> Self {
        Self { store, runtime }
    }

    async fn ask<T, F>(&self, request: impl FnOnce(Arc<dyn Store>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        Carried::new(self.runtime, request(Arc::clone(&self.store))).await
    }
}

#[async_trait]
impl Store for Driven {
    fn tells_releases(&self, ahead: &Entry) -> bool {
        self.store.tells_releases(ahead)
    }

    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        self.ask(|store| async move { store.keep_alive().await }).await
    }

    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined, StoreError> {
        let (queue, value) = (queue.clone(), value.to_vec());
        self.ask(|store| async move { store.enqueue(&queue, ticket, &value, join).await }).await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        let entry = entry.clone();
        self.ask(|store| async move { store.standing(&entry).await }).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError> {
        let (entry, ahead) = (entry.clone(), ahead.clone());
        self.ask(|store| async move { store.present(&entry, &ahead).await }).await
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>, StoreError> {
        self.ask(|store| async move { store.own_keys().await }).await
    }

    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>, StoreError> {
        let entry = entry.clone();
        self.ask(|store| async move { store.watch(&entry, urgent).await }).await
    }

    async fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        leave: Leaving<'_>,
    ) -> Result<Left, StoreError> {
        let (queue, entry, successor, held) =
            (queue.clone(), leave.entry.cloned(), leave.successor.cloned(), leave.held);
        self.ask(|store| async move {
            let leave = Leaving { entry: entry.as_ref(), held, successor: successor.as_ref() };
            store.leave(&queue, ticket, leave).await
        })
        .await
    }

    async fn ended(&self) -> LostReason {
        self.store.ended().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.ask(|store| async move { store.close().await }).await
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing, StoreError> {
        let queue = queue.clone();
        self.ask(|store| async move { store.list(&queue, ask).await }).await
    }
}

#[async_trait]
impl Extras for Driven {
    async fn rewrite(
        &self,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten, StoreError> {
        let (entry, value) = (entry.clone(), value.to_vec());
        self.ask(|store| async move { store.rewrite(ticket, &entry, &value, version).await }).await
    }

    async fn relabel(
        &self,
        from: &Queue,
        to: &Queue,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, StoreError> {
        let (from, to, entry, value) = (from.clone(), to.clone(), entry.clone(), value.to_vec());
        self.ask(|store| async move { store.relabel(&from, &to, ticket, &entry, &value).await })
            .await
    }

    async fn commit(&self, guard: Option<&Entry>, writes: &[Write]) -> Result<bool, StoreError> {
        let (guard, writes) = (guard.cloned(), writes.to_vec());
        self.ask(|store| async move { store.commit(guard.as_ref(), &writes).await }).await
    }

    async fn enqueue_all(
        &self,
        queues: &[(Queue, Ticket)],
        value: &[u8],
    ) -> Result<Option<Vec<Joined>>, StoreError> {
        let (queues, value) = (queues.to_vec(), value.to_vec());
        self.ask(|store| async move { store.enqueue_all(&queues, &value).await }).await
    }

    async fn followed(&self, entry: &Entry) -> Result<bool, StoreError> {
        let entry = entry.clone();
        self.ask(|store| async move { store.followed(&entry).await }).await
    }
}
