//! What only some primitives need of PostgreSQL.

use async_trait::async_trait;

use super::{
    durability,
    statements::{self, Joiner},
    store::{PostgresStore, READ},
};
use crate::backend::{
    Entry, Extras, Joined, Rewritten, Write,
    durability::Durability,
    error::{Result, StoreError},
    name::{Queue, Ticket},
    sql::{
        key::{self, Place},
        told::{last, nonsense},
    },
};

const WRITE: &str = "write";

/// An entry's version as it is created.
const FIRST_VERSION: u64 = 1;

#[async_trait]
impl Extras for PostgresStore {
    async fn rewrite(
        &self,
        _: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten> {
        let version = version.unwrap_or(FIRST_VERSION);
        let sql = statements::rewrite(self.line.session, &Place::of(entry), value, version);
        let outcomes = self.line.ask(WRITE, sql).await?;
        let [.., written, told] = outcomes.as_slice() else { return Err(nonsense()) };
        let Some(row) = told.first() else { return Ok(Rewritten::Gone) };
        let now = row.number(0).and_then(|version| u64::try_from(version).ok());
        let now = now.ok_or_else(nonsense)?;
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
        let sql = statements::relabel(self.line.session, &place, to.label(), value);
        let outcomes = self.line.ask(WRITE, sql).await?;
        let key = key::key(to, self.line.session, ticket);
        let there = last(&outcomes)?.count > 0;
        Ok(there.then(|| Entry { key: key.into(), ..entry.clone() }))
    }

    async fn commit(&self, guard: Option<&Entry>, writes: &[Write]) -> Result<bool> {
        let place = guard.map(Place::of);
        let sql = statements::commit(self.line.session, place.as_ref(), writes);
        match self.line.ask(WRITE, sql).await {
            Ok(outcomes) => {
                let held = outcomes.get(statements::COMMIT_TELLS).ok_or_else(nonsense)?;
                Ok(held.count > 0)
            }
            // Its keys have gone with it.
            Err(StoreError::SessionGone(_)) if guard.is_some() => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let outcomes = self.line.ask(READ, statements::read(key)).await?;
        let row = last(&outcomes)?.first();
        row.map(|row| row.bytes(0).ok_or_else(nonsense)).transpose()
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let sql = statements::queues(self.line.session, namespace);
        let outcomes = self.line.ask(READ, sql).await?;
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

    async fn durability(&self) -> Result<Durability> {
        let outcomes = self.line.ask(READ, durability::SQL.to_owned()).await?;
        last(&outcomes)?.first().map(durability::read).ok_or_else(nonsense)
    }

    async fn followed(&self, entry: &Entry) -> Result<bool> {
        let sql = statements::followed(self.line.session, &Place::of(entry));
        let outcomes = self.line.ask(READ, sql).await?;
        Ok(last(&outcomes)?.first().is_none_or(|row| row.flag(0)))
    }
}
