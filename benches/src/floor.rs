//! The floor: writes like a lock, and passes a baton within the process. Joining overlaps with the
//! turns of others, and no turn begins before the last deletion is confirmed.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use distlock_testkit::clock::now;
use etcd_client::{KvClient, PutOptions, Txn, TxnOp};
use redis::aio::MultiplexedConnection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zookeeper_client::{Acls, CreateMode};

use crate::{
    Result,
    sql::{Connection, Done},
    tries::on_most,
};

/// The connection that it writes with.
#[derive(Clone)]
pub(crate) enum Store {
    /// With a lease.
    Etcd(Box<KvClient>, i64),
    ZooKeeper(zookeeper_client::Client),
    Sql(Connection),
    /// Connections to each of the servers.
    Redis(Vec<MultiplexedConnection>),
}

pub(crate) struct Floor {
    pub(crate) store: Store,
    pub(crate) directory: String,
    pub(crate) counter: Arc<AtomicU64>,
    pub(crate) baton: Arc<Semaphore>,
}

/// The written key, and the baton.
pub(crate) type Turn = (String, OwnedSemaphorePermit);

impl Floor {
    pub(crate) async fn lock(&mut self) -> Result<Turn> {
        let key = self.write().await?;
        Ok((key, Arc::clone(&self.baton).acquire_owned().await?))
    }

    pub(crate) async fn unlock(&mut self, (key, baton): Turn) -> Result<()> {
        match &mut self.store {
            Store::Etcd(client, _) => drop(client.delete(key, None).await?),
            Store::ZooKeeper(client) => client.delete(&key, None).await?,
            Store::Sql(connection) => {
                let delete = "DELETE FROM bench_floor WHERE id = ?";
                if connection.execute(delete, &[&key]).await? != Done::Rows(1) {
                    return Err("the floor's row was not deleted".into());
                }
            }
            Store::Redis(connections) => {
                // Not `DEL`, which other scripts call and which is counted with it.
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(key);
                on_most(connections, &unlink).await?;
            }
        }
        drop(baton);
        Ok(())
    }

    /// Returns how long its first write takes.
    pub(crate) async fn time(&mut self) -> Result<u64> {
        let start = now();
        let key = self.write().await?;
        let time = now() - start;
        let baton = Arc::clone(&self.baton).acquire_owned().await?;
        self.unlock((key, baton)).await?;
        Ok(time)
    }

    async fn write(&mut self) -> Result<String> {
        if let Store::ZooKeeper(client) = &self.store {
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let prefix = format!("{}/lock-", self.directory);
            let (_, sequence) = client.create(&prefix, b"", &options).await?;
            return Ok(format!("{prefix}{sequence}"));
        }
        // A number that was not used before.
        let key = format!("{}/{:032x}", self.directory, self.counter.fetch_add(1, Relaxed));
        match &mut self.store {
            Store::Etcd(client, lease) => {
                let put = TxnOp::put(key.as_str(), "", Some(PutOptions::new().with_lease(*lease)));
                client.txn(Txn::new().and_then([put])).await?;
            }
            Store::Sql(connection) => {
                let insert = "INSERT INTO bench_floor (id) VALUES (?)";
                if connection.execute(insert, &[&key]).await? != Done::Rows(1) {
                    return Err("the floor's row was not written".into());
                }
            }
            Store::Redis(connections) => {
                let mut set = redis::cmd("SET");
                set.arg(&key).arg("");
                on_most(connections, &set).await?;
            }
            Store::ZooKeeper(_) => {}
        }
        Ok(key)
    }
}
