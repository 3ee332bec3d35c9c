//! What only some primitives need of SQLite.

use async_trait::async_trait;

use super::{
    key,
    queue::Joiner,
    requests::Kind,
    store::{READ, SqliteStore},
};
use crate::backend::{
    Entry, Extras, Joined, Rewritten, Write,
    durability::{AfterLoss, Durability},
    error::{Result, StoreError},
    name::{Queue, Ticket},
};

const WRITE: &str = "write";

/// An entry's version as it is created.
const FIRST_VERSION: u64 = 1;

#[async_trait]
impl Extras for SqliteStore {
    async fn rewrite(
        &self,
        _: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten> {
        let (session, entry, value) = (self.session, entry.clone(), value.to_owned());
        let version = version.unwrap_or(FIRST_VERSION);
        self.ask(WRITE, Kind::Write, move |tables| tables.rewrite(session, &entry, &value, version))
            .await
    }

    async fn relabel(
        &self,
        to: &Queue,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>> {
        let (session, place, value) = (self.session, entry.clone(), value.to_owned());
        let label = to.label().to_owned();
        let there = self
            .ask(WRITE, Kind::Write, move |tables| tables.relabel(session, &place, &label, &value));
        let key = key::key(to, self.session, ticket);
        Ok(there.await?.then(|| Entry { key: key.into(), ..entry.clone() }))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let (session, entries, writes) = (self.session, guards.to_owned(), writes.to_owned());
        let written =
            self.ask(WRITE, Kind::Write, move |tables| tables.commit(session, &entries, &writes));
        match written.await {
            // Its keys have gone with it.
            Err(StoreError::SessionGone(_)) if !guards.is_empty() => Ok(false),
            written => written,
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = key.to_owned();
        self.ask(READ, Kind::Read, move |tables| tables.read(&key)).await
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let (session, namespace) = (self.session, namespace.to_owned());
        self.ask(READ, Kind::Look, move |tables| tables.queues(session, &namespace)).await
    }

    async fn enqueue_all(
        &self,
        queues: &[(Queue, Ticket)],
        value: &[u8],
    ) -> Result<Option<Vec<Joined>>> {
        let joiners = queues
            .iter()
            .map(|(queue, ticket)| Joiner { queue: queue.clone(), ticket: *ticket })
            .collect();
        Ok(self.join(joiners, value, true).await?.into_iter().collect())
    }

    /// What is confirmed is on the disk (`synchronous`), and the file is one host's.
    async fn durability(&self) -> Result<Durability> {
        let session = self.session;
        self.ask(READ, Kind::Read, move |tables| tables.enter(session)).await?;
        let reasons = vec!["it is for the processes of one host, and down with it".to_owned()];
        Ok(Durability { exclusive: true, after_loss: AfterLoss::Waits, reasons })
    }
}
