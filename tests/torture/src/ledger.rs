//! The registers in the store, one for each lock, that its holders write under their guards.

use std::{sync::Arc, time::Duration};

use distlock_testkit::{Result, backend::Backend};
use tokio::time::timeout;
use zookeeper_client::{Acls, CreateMode};

use crate::{
    cluster::Cluster,
    event::{Event, Journal},
    primitive::locks,
};

const PATIENCE: Duration = Duration::from_secs(1);

/// Where the register of a lock is: outside of the namespace, in which nothing may be written.
pub(crate) fn path(namespace: &str, lock: &str) -> String {
    format!("{}/{lock}", folder(namespace))
}

fn folder(namespace: &str) -> String {
    format!("{namespace}-guarded")
}

/// What is written there.
pub(crate) fn text(token: u64, value: u64) -> String {
    format!("{token}:{value}")
}

fn parse(text: &[u8]) -> Option<(u64, u64)> {
    let (token, value) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some((token.parse().ok()?, value.parse().ok()?))
}

#[derive(Debug)]
pub(crate) struct Ledger {
    cluster: Arc<Cluster>,
    namespace: String,
}

impl Ledger {
    /// Makes the registers, and tells how they begin.
    pub(crate) async fn open(
        cluster: Arc<Cluster>,
        namespace: &str,
        journal: &Journal,
    ) -> Result<Self> {
        let ledger = Self { cluster, namespace: namespace.to_owned() };
        match ledger.cluster.backend {
            Backend::Etcd => {
                let mut client = ledger.cluster.etcd(&[0, 1, 2]).await?;
                for lock in locks() {
                    client.put(path(namespace, &lock), text(0, 0), None).await?;
                }
            }
            Backend::ZooKeeper => {
                let client = ledger.cluster.zookeeper().await?;
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.create(&folder(namespace), b"", &options).await?;
                for lock in locks() {
                    client.create(&path(namespace, &lock), text(0, 0).as_bytes(), &options).await?;
                }
            }
        }
        ledger.look_at_all(journal).await?;
        Ok(ledger)
    }

    /// Tells how the registers end, and takes them away.
    pub(crate) async fn close(&self, journal: &Journal) -> Result<()> {
        self.look_at_all(journal).await?;
        for lock in locks() {
            let path = path(&self.namespace, &lock);
            match self.cluster.backend {
                Backend::Etcd => {
                    drop(self.cluster.etcd(&[0, 1, 2]).await?.delete(path, None).await?)
                }
                Backend::ZooKeeper => self.cluster.zookeeper().await?.delete(&path, None).await?,
            }
        }
        if self.cluster.backend == Backend::ZooKeeper {
            self.cluster.zookeeper().await?.delete(&folder(&self.namespace), None).await?;
        }
        Ok(())
    }

    async fn look_at_all(&self, journal: &Journal) -> Result<()> {
        for lock in locks() {
            self.look(journal, &lock, 0).await?;
        }
        Ok(())
    }

    /// Tells what the register of a lock holds: at this moment or later, not earlier.
    pub(crate) async fn look(&self, journal: &Journal, lock: &str, token: u64) -> Result<()> {
        let path = path(&self.namespace, lock);
        let (data, version) = match self.cluster.backend {
            Backend::Etcd => {
                let mut client = self.cluster.etcd(&[0, 1, 2]).await?;
                // Linearizable.
                let answer = timeout(PATIENCE, client.get(path, None)).await??;
                let kv = answer.kvs().first().ok_or("no register")?;
                (kv.value().to_vec(), kv.version().unsigned_abs())
            }
            Backend::ZooKeeper => {
                let client = self.cluster.zookeeper().await?;
                // A server that is cut off can read but not write: having written, it is up to
                // date.
                timeout(PATIENCE, client.set_data(&folder(&self.namespace), b"", None)).await??;
                let (data, stat) = timeout(PATIENCE, client.get_data(&path)).await??;
                (data, u64::from(stat.version.unsigned_abs()) + 1)
            }
        };
        let (writer, value) = parse(&data).ok_or("a strange register")?;
        journal.tell(Event::Saw { lock: lock.to_owned(), token, writer, value, version });
        Ok(())
    }
}
