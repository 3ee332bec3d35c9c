//! What only some primitives need of a database.

use async_trait::async_trait;

use super::{
    dialect::{Dialect, Joiner, READ},
    key::{self, Place},
    store::SqlStore,
    told::{last, nonsense},
};
use crate::backend::{
    Entry, Extras, Joined, LeaveRequest, Rewritten, Store, Write,
    durability::Durability,
    error::{Result, StoreError},
    name::{Queue, Ticket},
};

const WRITE: &str = "write";

/// An entry's version as it is created.
const FIRST_VERSION: u64 = 1;

#[async_trait]
impl<D: Dialect> Extras for SqlStore<D> {
    async fn rewrite(
        &self,
        _: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten> {
        let version = version.unwrap_or(FIRST_VERSION);
        let message = self.dialect.rewrite(&Place::of(entry), value, version);
        let outcomes = self.dialect.ask(WRITE, message).await?;
        let [.., written, told] = outcomes.as_slice() else { return Err(nonsense()) };
        let Some(row) = told.first() else { return Ok(Rewritten::Gone) };
        let now = row.number(0).and_then(|version| u64::try_from(version).ok());
        let now = now.ok_or_else(nonsense)?;
        if written.count > 0 {
            self.dialect.tell(Place::of(entry).dir, 0);
        }
        Ok(if written.count > 0 { Rewritten::Done(now) } else { Rewritten::Not(now) })
    }

    async fn relabel(
        &self,
        to: &Queue,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>> {
        let place = Place::of(entry);
        let message = self.dialect.relabel(&place, to.label(), value);
        let outcomes = self.dialect.ask(WRITE, message).await?;
        let key = key::key(to, self.dialect.session(), ticket);
        let there = last(&outcomes)?.count > 0;
        self.dialect.tell(place.dir, place.number);
        Ok(there.then(|| Entry { key: key.into(), ..entry.clone() }))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let places: Vec<_> = guards.iter().map(Place::of).collect();
        let message = self.dialect.commit(&places, writes);
        match self.dialect.ask(WRITE, message).await {
            Ok(outcomes) => {
                let held = outcomes.get(1).ok_or_else(nonsense)?;
                for write in writes {
                    let (Write::Put { key, .. } | Write::Delete { key }) = write;
                    self.dialect.tell(key::dir_of(key), 0);
                }
                let wanted = u64::try_from(guards.len().max(1)).unwrap_or(u64::MAX);
                Ok(held.count >= wanted)
            }
            // Its keys have gone with it.
            Err(StoreError::SessionGone(_)) if !guards.is_empty() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let outcomes = self.dialect.ask(READ, self.dialect.read(key)).await?;
        let row = last(&outcomes)?.first();
        row.map(|row| row.bytes(0).ok_or_else(nonsense)).transpose()
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let message = self.dialect.queues(namespace);
        let outcomes = self.dialect.ask(READ, message).await?;
        let dirs = last(&outcomes)?.rows().iter().filter_map(|row| row.text(0));
        let names = dirs.filter_map(|dir| dir.strip_prefix(namespace)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/')).map(Into::into).collect())
    }

    async fn enqueue_all(
        &self,
        queues: &[(Queue, Ticket)],
        value: &[u8],
    ) -> Result<Option<Vec<Joined>>> {
        let joiners: Vec<_> =
            queues.iter().map(|(queue, ticket)| Joiner { queue, ticket: *ticket }).collect();
        match self.join(&joiners, value, true).await {
            Ok(joined) => Ok(joined.into_iter().collect()),
            // One by one, then, where one waits for what is not known yet.
            Err(StoreError::NotYet(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn own_entry(&self, key: &str) -> Result<Option<Entry>> {
        let own = self.own_entries().await?;
        Ok(own.into_iter().find(|entry| *entry.key == *key))
    }

    /// A number is given once, so that it identifies one entry among all with the same name.
    async fn remove(&self, entry: &Entry) -> Result<bool> {
        let Some(parts) = key::parts(&entry.key) else { return Ok(false) };
        let Some(ticket) = Ticket::parse(parts.ticket) else { return Ok(false) };
        let queue = Queue::at(parts.dir, parts.label);
        let leaving = LeaveRequest { entry: Some(entry), ..LeaveRequest::default() };
        Ok(self.leave(&queue, ticket, leaving).await?.existed)
    }

    async fn durability(&self) -> Result<Durability> {
        self.dialect.durability().await
    }
}
