//! The registers in the store, one per lock, which holders write under their guards.

use std::{sync::Arc, time::Duration};

use distlock_testkit::{Result, clock::uptime, store::Store};
use tokio::time::timeout;
use zookeeper_client::{Acls, CreateMode};

use crate::{
    cluster::Cluster,
    event::{Event, Journal},
};

const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Returns the key of a lock's register: outside the namespace, in which guarded writes are not
/// allowed.
pub(crate) fn path(namespace: &str, lock: &str) -> String {
    format!("{}/{lock}", folder(namespace))
}

fn folder(namespace: &str) -> String {
    format!("{namespace}-guarded")
}

/// Formats the value of a register.
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
    locks: Vec<String>,
}

impl Ledger {
    /// Creates the registers, and records their initial values.
    pub(crate) async fn open(
        cluster: Arc<Cluster>,
        namespace: &str,
        locks: Vec<String>,
        journal: &Journal,
    ) -> Result<Self> {
        let ledger = Self { cluster, namespace: namespace.to_owned(), locks };
        if !ledger.cluster.store.queues() {
            return Ok(ledger);
        }
        match ledger.cluster.store {
            Store::Etcd => {
                let mut client = ledger.cluster.etcd(&[0, 1, 2]).await?;
                for lock in &ledger.locks {
                    client.put(path(namespace, lock), text(0, 0), None).await?;
                }
            }
            Store::ZooKeeper => {
                let client = ledger.cluster.zookeeper().await?;
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.create(&folder(namespace), b"", &options).await?;
                for lock in &ledger.locks {
                    client.create(&path(namespace, lock), text(0, 0).as_bytes(), &options).await?;
                }
            }
            _ => {
                let words = ledger.cluster.words()?;
                for statement in words.counting() {
                    ledger.cluster.ask(statement).await?;
                }
                for lock in &ledger.locks {
                    let write = words.insert(&folder(namespace), lock, &text(0, 0));
                    ledger.cluster.ask(&write).await?;
                }
            }
        }
        ledger.read_all(journal).await?;
        Ok(ledger)
    }

    /// Records the final values of the registers, and deletes them.
    pub(crate) async fn close(&self, journal: &Journal) -> Result<()> {
        if !self.cluster.store.queues() {
            return Ok(());
        }
        self.read_all(journal).await?;
        for lock in &self.locks {
            self.cluster.delete(&path(&self.namespace, lock)).await?;
        }
        if self.cluster.store == Store::ZooKeeper {
            self.cluster.delete(&folder(&self.namespace)).await?;
        }
        Ok(())
    }

    async fn read_all(&self, journal: &Journal) -> Result<()> {
        for lock in &self.locks {
            self.read(journal, lock, 0).await?;
        }
        Ok(())
    }

    /// Records the value of a lock's register, read now or later.
    pub(crate) async fn read(&self, journal: &Journal, lock: &str, token: u64) -> Result<()> {
        let (path, since) = (path(&self.namespace, lock), uptime());
        let (data, version) = match self.cluster.store {
            Store::Etcd => {
                let mut client = self.cluster.etcd(&[0, 1, 2]).await?;
                // Linearizable.
                let reply = timeout(TIME_LIMIT, client.get(path, None)).await??;
                let kv = reply.kvs().first().ok_or("no register")?;
                (kv.value().to_vec(), kv.version().unsigned_abs())
            }
            Store::ZooKeeper => {
                let client = self.cluster.zookeeper().await?;
                // A server that is cut off can read and not write, so a write shows that it is up
                // to date.
                timeout(TIME_LIMIT, client.set_data(&folder(&self.namespace), b"", None)).await??;
                let (data, stat) = timeout(TIME_LIMIT, client.get_data(&path)).await??;
                (data, u64::from(stat.version.unsigned_abs()) + 1)
            }
            _ => {
                let query = self.cluster.words()?.read(&folder(&self.namespace), lock);
                // A store that has lost a register returns no row.
                let row = self.cluster.ask(&query).await?.pop();
                let row = row.unwrap_or_else(|| vec![text(0, 0), "0".to_owned()]);
                let [data, version] = <[String; 2]>::try_from(row).map_err(|_| "no register")?;
                (data.into_bytes(), version.parse()?)
            }
        };
        let (writer, value) = parse(&data).ok_or("a malformed register")?;
        journal.record(Event::Saw { lock: lock.to_owned(), token, writer, value, version, since });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event, primitive::locks};

    /// Returns what the reads of a lock's register returned: writer, value and number of writes.
    fn seen(folder: &std::path::Path, lock: &str) -> Vec<(u64, u64, u64)> {
        let records = event::read(folder).expect("a history").into_iter();
        let reads = records.filter_map(|record| match record.event {
            Event::Saw { lock: of, writer, value, version, .. } if of == lock => {
                Some((writer, value, version))
            }
            _ => None,
        });
        reads.collect()
    }

    #[tokio::test]
    async fn writes_into_tables_are_counted() {
        let folder = std::env::temp_dir().join(format!("ledger-{:x}", fastrand::u64(..)));
        std::fs::create_dir(&folder).expect("a folder");
        let journal = Journal::open(&folder, "test").expect("a journal");
        let cluster = Arc::new(Cluster::connect(Store::Sqlite).await.expect("a file"));
        let builder = distlock::Client::builder(cluster.url()).namespace("/ns");
        let client = builder.connect().await.expect("connected");
        let locks = locks(false).collect();
        let ledger = Ledger::open(Arc::clone(&cluster), "/ns", locks, &journal).await;
        let ledger = ledger.expect("created");
        let guard = client.mutex("red").lock().await.expect("granted");
        for value in [7, 8] {
            let write = guard.put(path("/ns", "red"), text(guard.fencing_token().as_u64(), value));
            write.await.expect("written");
            ledger.read(&journal, "red", 0).await.expect("a register");
        }
        let token = guard.fencing_token().as_u64();
        guard.unlock().await.expect("released");
        client.close().await.expect("closed");
        ledger.close(&journal).await.expect("deleted");
        ledger.read(&journal, "red", 0).await.expect("a reply");
        let (last, deleted) = ((token, 8, 3), (0, 0, 0));
        assert_eq!(seen(&folder, "red"), [(0, 0, 1), (token, 7, 2), last, last, deleted]);
        assert_eq!(seen(&folder, "blue"), [(0, 0, 1); 2]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
