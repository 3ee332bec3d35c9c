//! Writes to data that belongs to no session.

use futures_util::future::{OptionFuture, join_all};
use zookeeper_client::{self as zk, CreateMode};

use super::ZooKeeperStore;
use crate::backend::{Entry, Result, StoreError, Write, zookeeper::names};

/// How often to look again at what others create and delete meanwhile.
const ATTEMPTS: usize = 8;

/// What is in the name of a queue's directory that is no lock's: see `Queue::of`.
const PURPOSE: char = '!';

impl ZooKeeperStore {
    /// Writes in one transaction, if all guards are there. A transaction fails as a whole if a node
    /// that it writes or deletes is missing, or one that it creates is not. Mostly all of them are
    /// there; if not, it is looked up which.
    pub(super) async fn write(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let mut missing = None;
        for attempt in 0..ATTEMPTS {
            if let Some(dir) = missing.take() {
                self.make(dir).await?;
            }
            // None of the attempts before this one has written anything, and nor has a look.
            let there = match attempt {
                0 => Ok(vec![true; writes.len()]),
                _ => self.there(writes).await,
            };
            let there = there.map_err(|error| match error {
                StoreError::Unknown(source) => StoreError::Unavailable(source),
                error => error,
            })?;
            let client = self.client()?;
            let mut writer = client.new_multi_writer();
            let node = CreateMode::Persistent.with_acls(self.acls());
            // What each operation creates.
            let mut creates = Vec::with_capacity(guards.len() + writes.len());
            let mut added = Ok(());
            for guard in guards {
                added = added.and(writer.add_check_version(&guard.key, -1));
                creates.push(None);
            }
            for (write, there) in writes.iter().zip(there) {
                let (add, creates_key) = match (write, there) {
                    (Write::Put { key, value }, true) => {
                        (writer.add_set_data(key, value, None), None)
                    }
                    (Write::Put { key, value }, false) => {
                        (writer.add_create(key, value, &node), Some(key.as_str()))
                    }
                    (Write::Delete { key }, true) => (writer.add_delete(key, None), None),
                    (Write::Delete { .. }, false) => continue,
                };
                added = added.and(add);
                creates.push(creates_key);
            }
            added.map_err(|error| self.failed("write", error))?;
            match self.transact(writer).await?.1 {
                Ok(_) => return Ok(true),
                Err((Some(index), zk::Error::NoNode)) if index < guards.len() => return Ok(false),
                Err((Some(index), zk::Error::NoNode)) => {
                    missing = creates.get(index).copied().flatten().map(|key| names::split(key).0);
                }
                Err((Some(_), zk::Error::NodeExists)) => {}
                Err((_, error)) => return Err(self.failed("write", error)),
            }
        }
        Err(StoreError::Unavailable("what is to be written comes and goes".into()))
    }

    /// Which nodes are there. As of now: nothing would show that one which is to be deleted is
    /// there after all.
    async fn there(&self, writes: &[Write]) -> Result<Vec<bool>> {
        let deletes = writes.iter().any(|write| matches!(write, Write::Delete { .. }));
        let client = self.client()?;
        let sync = OptionFuture::from(deletes.then(|| client.sync("/")));
        let stats: Vec<_> = writes
            .iter()
            .map(|write| match write {
                Write::Put { key, .. } | Write::Delete { key } => client.check_stat(key),
            })
            .collect();
        let sync = async { sync.await.unwrap_or(Ok(())) };
        let stats = self.synced(sync, join_all(stats)).await?;
        let stats = stats.into_iter().map(|stat| stat.map(|stat| stat.is_some()));
        stats.collect::<Result<_, _>>().map_err(|error| self.failed("get", error))
    }

    /// Creates a directory and those above it: a queue's as joining it would, and others for good.
    async fn make(&self, dir: &str) -> Result<()> {
        let mode = if names::split(dir).1.contains(PURPOSE) {
            CreateMode::Container
        } else {
            CreateMode::Persistent
        };
        self.ask("mkdir", self.client()?.mkdir(dir, &mode.with_acls(self.acls()))).await
    }
}
