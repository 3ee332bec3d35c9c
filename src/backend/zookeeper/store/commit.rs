//! Writes to data that belongs to no session.

use futures_util::future::{OptionFuture, join_all};
use zookeeper_client::{self as zk, CreateMode};

use super::ZooKeeperStore;
use crate::backend::{Entry, Result, StoreError, Write, zookeeper::names};

/// How often to retry while other clients create and delete the nodes.
const ATTEMPTS: usize = 8;

/// The character in the name of a queue's directory that is not a lock's: see `Queue::of`.
const PURPOSE: char = '!';

impl ZooKeeperStore {
    /// Writes in one transaction, if all guards exist.
    ///
    /// A transaction fails as a whole if a node that it writes or deletes is missing, or if a node
    /// that it creates exists. The first attempt assumes that all nodes exist. Later attempts read
    /// which of them do.
    pub(super) async fn write(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let mut missing = None;
        for attempt in 0..ATTEMPTS {
            // No earlier attempt has written anything, and neither has a new directory or a read.
            let prepared = async {
                if let Some(dir) = missing.take() {
                    self.make(dir).await?;
                }
                match attempt {
                    0 => Ok(vec![true; writes.len()]),
                    _ => self.there(writes).await,
                }
            };
            let there = prepared.await.map_err(|error| match error {
                StoreError::Unknown(source) => StoreError::Unavailable(source),
                error => error,
            })?;
            let client = self.client()?;
            let mut writer = client.new_multi_writer();
            let node = CreateMode::Persistent.with_acls(self.acls());
            // The key that each operation creates.
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
            added.map_err(|error| self.failed("writing data", error))?;
            match self.transact(writer).await?.1 {
                Ok(_) => return Ok(true),
                Err((Some(index), zk::Error::NoNode)) if index < guards.len() => return Ok(false),
                Err((Some(index), zk::Error::NoNode)) => {
                    missing = creates.get(index).copied().flatten().map(|key| names::split(key).0);
                }
                Err((Some(_), zk::Error::NodeExists)) => {}
                Err((_, error)) => return Err(self.failed("writing data", error)),
            }
        }
        Err(StoreError::Unavailable(
            "other clients kept creating and deleting the keys of the write".into(),
        ))
    }

    /// Returns which nodes exist. The reads are current if a node is to be deleted: a stale reply
    /// could omit it, and its deletion would be skipped.
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
        stats.collect::<Result<_, _>>().map_err(|error| self.failed("reading a node", error))
    }

    /// Creates a directory and its parents: a queue's directory as joining would create it, and
    /// others as persistent.
    async fn make(&self, dir: &str) -> Result<()> {
        let mode = if names::split(dir).1.contains(PURPOSE) {
            CreateMode::Container
        } else {
            CreateMode::Persistent
        };
        self.ask("creating a directory", self.client()?.mkdir(dir, &mode.with_acls(self.acls())))
            .await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        backend::zookeeper::tests::script::{Answer, CREATE2, EXISTS, MULTI, NO_NODE, Server},
        runtime::clock,
    };

    /// The reply to a read, or to the creation of a directory, is lost before the write.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lost_preparation_of_a_write_leaves_no_doubt() {
        for (lost, transactions) in [(EXISTS, 1), (CREATE2, 2)] {
            let server = Server::start(move |kind| match kind {
                kind if kind == lost => Answer::HangUp,
                MULTI => Answer::SecondRefused(NO_NODE),
                EXISTS => Answer::Refused(NO_NODE),
                _ => Answer::Nothing,
            })
            .await;
            let backend = server.backend();
            let client = backend.connect(Duration::from_secs(10)).await.unwrap();
            let store = ZooKeeperStore::new(&backend, client, clock::now());
            let put = Write::Put { key: "/data/a".into(), value: vec![] };
            let error = store.write(&[Entry::new("/ns/a/7", 7)], &[put]).await.unwrap_err();
            assert!(matches!(error, StoreError::Unavailable(_)), "{lost}: {error:?}");
            assert_eq!(server.transactions().len(), transactions);
        }
    }
}
