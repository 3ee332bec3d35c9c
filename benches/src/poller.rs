//! A lock that is one exclusive write, repeated until it succeeds: the usual way on etcd and
//! ZooKeeper without events. Elsewhere it is a row with a unique key.

use std::time::Duration;

use etcd_client::{Compare, CompareOp, KvClient, PutOptions, Txn, TxnOp};
use tokio::time::sleep;
use zookeeper_client::{Acls, CreateMode, Error};

use crate::Result;

pub(crate) struct Poller {
    store: Store,
    key: String,
    /// Between two attempts.
    pause: Duration,
}

enum Store {
    /// With the lease of the contender.
    Etcd(Box<KvClient>, i64),
    ZooKeeper(zookeeper_client::Client),
}

impl Poller {
    pub(crate) fn etcd(client: KvClient, lease: i64, key: String, pause: Duration) -> Self {
        Self { store: Store::Etcd(Box::new(client), lease), key, pause }
    }

    pub(crate) fn zookeeper(
        client: zookeeper_client::Client,
        directory: &str,
        pause: Duration,
    ) -> Self {
        Self { store: Store::ZooKeeper(client), key: format!("{directory}/taken"), pause }
    }

    pub(crate) async fn lock(&mut self) -> Result<()> {
        while !self.try_lock().await? {
            sleep(self.pause).await;
        }
        Ok(())
    }

    async fn try_lock(&mut self) -> Result<bool> {
        match &mut self.store {
            Store::Etcd(client, lease) => {
                let key = self.key.as_str();
                let absent = Compare::create_revision(key, CompareOp::Equal, 0);
                let put = TxnOp::put(key, "", Some(PutOptions::new().with_lease(*lease)));
                Ok(client.txn(Txn::new().when([absent]).and_then([put])).await?.succeeded())
            }
            Store::ZooKeeper(client) => {
                let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
                match client.create(&self.key, b"", &options).await {
                    Ok(_) => Ok(true),
                    Err(Error::NodeExists) => Ok(false),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    pub(crate) async fn unlock(&mut self) -> Result<()> {
        match &mut self.store {
            Store::Etcd(client, _) => client.delete(self.key.as_str(), None).await.map(drop)?,
            Store::ZooKeeper(client) => client.delete(&self.key, None).await?,
        }
        Ok(())
    }
}
