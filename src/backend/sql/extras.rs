//! The operations that only some primitives need.

use async_trait::async_trait;

use super::{
    dialect::{Dialect, READ, WRITE},
    key::{self, Place},
    replies::{last, nonsense},
    statements::Statements,
    store::SqlStore,
};
use crate::backend::{
    Durability, Entry, Extras, Joined, Joiner, Result, Rewrite, Rewritten, StoreError, Write,
};

/// The version of a new entry.
const FIRST_VERSION: u64 = 1;

#[async_trait]
impl<D: Dialect> Extras for SqlStore<D> {
    async fn rewrite(&self, rewrite: Rewrite<'_>) -> Result<Rewritten> {
        let Rewrite { entry, value, version, .. } = rewrite;
        let version = version.unwrap_or(FIRST_VERSION);
        let place = Place::of(entry);
        let outcomes =
            self.ask(WRITE, |statements| statements.rewrite(&place, value, version)).await?;
        let [.., written, reply] = outcomes.as_slice() else { return Err(nonsense()) };
        let Some(row) = reply.first() else { return Ok(Rewritten::Gone) };
        let now = row.number(0).and_then(|version| u64::try_from(version).ok());
        let now = now.ok_or_else(nonsense)?;
        if written.count > 0 {
            self.dialect.notify(place.dir, 0);
        }
        Ok(if written.count > 0 { Rewritten::Done(now) } else { Rewritten::Not(now) })
    }

    async fn relabel(&self, to: Joiner<'_>, entry: &Entry, value: &[u8]) -> Result<Option<Entry>> {
        let place = Place::of(entry);
        let label = to.queue.label();
        let outcomes =
            self.ask(WRITE, |statements| statements.relabel(&place, label, value)).await?;
        let key = key::key(to, self.dialect.session());
        let there = last(&outcomes)?.count > 0;
        self.dialect.notify(place.dir, place.number);
        Ok(there.then(|| Entry { key: key.into(), ..entry.clone() }))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let places: Vec<_> = guards.iter().map(Place::of).collect();
        match self.ask(WRITE, |statements| statements.commit(&places, writes)).await {
            Ok(outcomes) => {
                let held = outcomes.get(1).ok_or_else(nonsense)?;
                for write in writes {
                    let (Write::Put { key, .. } | Write::Delete { key }) = write;
                    self.dialect.notify(key::dir_of(key), 0);
                }
                let wanted = u64::try_from(guards.len().max(1)).unwrap_or(u64::MAX);
                Ok(held.count >= wanted)
            }
            // Its keys ended with the session.
            Err(StoreError::SessionGone(_)) if !guards.is_empty() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let outcomes = self.ask(READ, |statements| statements.read(key)).await?;
        let row = last(&outcomes)?.first();
        row.map(|row| row.bytes(0).ok_or_else(nonsense)).transpose()
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let outcomes = self.ask(READ, |statements| statements.queues(namespace)).await?;
        let dirs = last(&outcomes)?.rows().iter().filter_map(|row| row.text(0));
        let names = dirs.filter_map(|dir| dir.strip_prefix(namespace)?.strip_prefix('/'));
        Ok(names.filter(|name| !name.contains('/')).map(Into::into).collect())
    }

    async fn enqueue_all(&self, all: &[Joiner<'_>], value: &[u8]) -> Result<Option<Vec<Joined>>> {
        match self.join(all, value, true).await {
            Ok(joined) => Ok(joined.into_iter().collect()),
            // The caller then joins the queues one by one, and waits where the result is unknown.
            Err(StoreError::NotYet(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn durability(&self) -> Result<Durability> {
        self.dialect.durability().await
    }
}
