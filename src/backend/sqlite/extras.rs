//! The requests that only some primitives need.

use async_trait::async_trait;

use super::{
    key,
    requests::Kind,
    store::{READ, SqliteStore},
    tables::Tables,
};
use crate::backend::{
    Durability, Entry, Extras, FailoverBehavior, Joined, Joiner, Result, Rewrite, Rewritten,
    StoreError, Write,
};

const WRITE: &str = "writing data";

/// The version of a new entry.
const FIRST_VERSION: u64 = 1;

#[async_trait]
impl Extras for SqliteStore {
    async fn rewrite(&self, rewrite: Rewrite<'_>) -> Result<Rewritten> {
        let Rewrite { entry, value, version, .. } = rewrite;
        let (entry, value) = (entry.clone(), value.to_owned());
        let version = version.unwrap_or(FIRST_VERSION);
        let rewrite = move |tables: &Tables<'_, '_>, session| {
            tables.rewrite(session, &entry, &value, version)
        };
        self.within(WRITE, Kind::Write(1), rewrite).await
    }

    async fn relabel(&self, to: Joiner<'_>, entry: &Entry, value: &[u8]) -> Result<Option<Entry>> {
        let (place, value) = (entry.clone(), value.to_owned());
        let label = to.queue.label().to_owned();
        let relabel =
            move |tables: &Tables<'_, '_>, session| tables.relabel(session, &place, &label, &value);
        let there = self.within(WRITE, Kind::Write(1), relabel).await?;
        let key = key::key(to, self.session);
        Ok(there.then(|| Entry { key: key.into(), ..entry.clone() }))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let (entries, writes) = (guards.to_owned(), writes.to_owned());
        let kind = Kind::Data(writes.len());
        let commit =
            move |tables: &Tables<'_, '_>, session| tables.commit(session, &entries, &writes);
        match self.within(WRITE, kind, commit).await {
            // The session's keys were removed with it.
            Err(StoreError::SessionGone(_)) if !guards.is_empty() => Ok(false),
            written => written,
        }
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let key = key.to_owned();
        self.ask(READ, Kind::Read, move |tables| tables.read(&key)).await
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let namespace = namespace.to_owned();
        self.within(READ, Kind::Look, move |tables, _| tables.queues(&namespace)).await
    }

    async fn enqueue_all(&self, all: &[Joiner<'_>], value: &[u8]) -> Result<Option<Vec<Joined>>> {
        Ok(self.join(all, value, true).await?.into_iter().collect())
    }

    /// Only a power loss or a kernel crash undoes commits, and both end the boot, unless the disk
    /// fails. Only one host uses the file.
    async fn durability(&self) -> Result<Durability> {
        self.within(READ, Kind::Read, |_, _| Ok(())).await?;
        let reasons = vec![
            "only one host can use the file, so no lock is granted while that host is down"
                .to_owned(),
        ];
        Ok(Durability { exclusive: true, failover: FailoverBehavior::Blocks, reasons })
    }
}
