//! A store whose requests are timed, for those who want metrics of it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::Shared;
use crate::{
    backend::{
        Ask, Entry, Extras, Facts, Join, Joined, Leaving, Left, Listing, Moment, Present,
        Rewritten, Standing, Store, ToldOfLoss, Watch, Watched, Write,
        durability::Durability,
        error::{Result, StoreError},
        name::{Queue, Ticket},
    },
    lost::LostReason,
    telemetry::{MEASURES, Telemetry},
};

/// Opens a session of the store, and has its requests timed if anybody listens.
pub(super) async fn open(shared: &Shared) -> Result<(Facts, Arc<dyn Store>)> {
    let telemetry = shared.telemetry;
    let opened = timed(telemetry, "open", shared.backend.open(shared.ttl)).await;
    let (facts, store) = opened?;
    Ok((facts, if MEASURES { Arc::new(Measured { store, telemetry }) } else { store }))
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
        Err(StoreError::Unavailable(_) | StoreError::NotYet(_)) => "unavailable",
        Err(StoreError::Unknown(_)) => "unknown",
        Err(StoreError::SessionGone(_)) => "session_gone",
        Err(StoreError::Denied(_)) => "denied",
        Err(StoreError::Fatal { .. }) => "refused",
    });
    answer
}

/// The same store.
#[derive(Debug)]
struct Measured {
    store: Arc<dyn Store>,
    telemetry: Telemetry,
}

// All of it, or what is left out would answer in the store's place.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Store for Measured {
    async fn keep_alive(&self) -> Result<Duration> {
        timed(self.telemetry, "keep_alive", self.store.keep_alive()).await
    }

    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined> {
        timed(self.telemetry, "join", self.store.enqueue(queue, ticket, value, join)).await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        timed(self.telemetry, "standing", self.store.standing(entry)).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        timed(self.telemetry, "present", self.store.present(entry, ahead)).await
    }

    async fn standing_now(&self, entry: &Entry) -> Result<Standing> {
        timed(self.telemetry, "standing", self.store.standing_now(entry)).await
    }

    async fn present_now(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        timed(self.telemetry, "present", self.store.present_now(entry, ahead)).await
    }

    fn tells_releases(&self, ahead: &Entry) -> bool {
        self.store.tells_releases(ahead)
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        timed(self.telemetry, "own_keys", self.store.own_keys()).await
    }

    async fn watch(&self, entry: &Entry, urgent: bool) -> Result<Option<Watch>> {
        timed(self.telemetry, "watch", self.store.watch(entry, urgent)).await
    }

    async fn watch_ahead(
        &self,
        ahead: &Entry,
        there: Option<Moment>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        timed(self.telemetry, "watch", self.store.watch_ahead(ahead, there, own)).await
    }

    async fn leave(&self, queue: &Queue, ticket: Ticket, leave: Leaving<'_>) -> Result<Left> {
        timed(self.telemetry, "leave", self.store.leave(queue, ticket, leave)).await
    }

    async fn ended(&self) -> LostReason {
        self.store.ended().await
    }

    fn on_loss(&self, told: ToldOfLoss) {
        self.store.on_loss(told);
    }

    fn free_within(&self, queue: &Queue) -> Option<Duration> {
        self.store.free_within(queue)
    }

    async fn close(&self) -> Result<()> {
        timed(self.telemetry, "close", self.store.close()).await
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        timed(self.telemetry, "list", self.store.list(queue, ask)).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Extras for Measured {
    async fn rewrite(
        &self,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten> {
        timed(self.telemetry, "rewrite", self.store.rewrite(ticket, entry, value, version)).await
    }

    async fn relabel(
        &self,
        to: &Queue,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>> {
        timed(self.telemetry, "relabel", self.store.relabel(to, ticket, entry, value)).await
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        timed(self.telemetry, "commit", self.store.commit(guards, writes)).await
    }

    async fn evict(&self, entry: &Entry) -> Result<bool> {
        timed(self.telemetry, "evict", self.store.evict(entry)).await
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        timed(self.telemetry, "read", self.store.read(key)).await
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        timed(self.telemetry, "queues", self.store.queues(namespace)).await
    }

    async fn enqueue_all(
        &self,
        queues: &[(Queue, Ticket)],
        value: &[u8],
    ) -> Result<Option<Vec<Joined>>> {
        timed(self.telemetry, "join_all", self.store.enqueue_all(queues, value)).await
    }

    async fn own_entry(&self, key: &str) -> Result<Option<Entry>> {
        timed(self.telemetry, "own_entry", self.store.own_entry(key)).await
    }

    async fn remove(&self, entry: &Entry) -> Result<bool> {
        timed(self.telemetry, "remove", self.store.remove(entry)).await
    }

    async fn durability(&self) -> Result<Durability> {
        timed(self.telemetry, "durability", self.store.durability()).await
    }
}
