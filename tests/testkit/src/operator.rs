//! An operator's view of etcd and ZooKeeper.

use std::time::Duration;

use etcd_client::{Client as Etcd, GetOptions};
use zookeeper_client::{Acls, Client as ZooKeeper, CreateMode, Error as ZkError};

use crate::{Result, backend::Backend};

/// An operator's client.
#[derive(Clone)]
#[allow(missing_debug_implementations)] // etcd's client does not implement it
pub enum Operator {
    /// A client of an etcd cluster.
    Etcd(Box<Etcd>),
    /// A client of a ZooKeeper ensemble.
    ZooKeeper(ZooKeeper),
}

impl Operator {
    /// Connects to the servers of a URL.
    pub async fn connect(url: &str) -> Result<Self> {
        let (backend, servers) = Backend::split(url).ok_or_else(|| format!("no store: {url}"))?;
        Ok(match backend {
            Backend::Etcd => {
                let servers: Vec<_> = servers.split(',').collect();
                Self::Etcd(Box::new(Etcd::connect(servers, None).await?))
            }
            Backend::ZooKeeper => {
                let connector =
                    ZooKeeper::connector().with_session_timeout(Duration::from_secs(20));
                Self::ZooKeeper(connector.connect(servers).await?)
            }
        })
    }

    /// Returns the store.
    pub fn backend(&self) -> Backend {
        match self {
            Self::Etcd(_) => Backend::Etcd,
            Self::ZooKeeper(_) => Backend::ZooKeeper,
        }
    }

    /// Returns the keys below a path. On ZooKeeper that is the node and all nodes below it, parents
    /// first.
    pub async fn below(&self, path: &str) -> Result<Vec<String>> {
        let client = match self {
            Self::Etcd(client) => {
                let options = GetOptions::new().with_prefix().with_keys_only();
                let found = client.kv_client().get(format!("{path}/"), Some(options)).await?;
                let key = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
                return Ok(found.kvs().iter().map(|kv| key(kv.key())).collect());
            }
            Self::ZooKeeper(client) => client,
        };
        let (mut todo, mut found) = (vec![path.to_owned()], Vec::new());
        while let Some(node) = todo.pop() {
            match client.list_children(&node).await {
                Ok(children) => {
                    todo.extend(children.iter().map(|child| format!("{node}/{child}")));
                    found.push(node);
                }
                Err(ZkError::NoNode) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }

    /// Writes a key without a session.
    pub async fn put(&self, key: &str) -> Result<()> {
        match self {
            Self::Etcd(client) => drop(client.kv_client().put(key, "junk", None).await?),
            Self::ZooKeeper(client) => {
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                client.mkdir(key.rsplit_once('/').map_or("/", |(dir, _)| dir), &options).await?;
                client.create(key, b"junk", &options).await?;
            }
        }
        Ok(())
    }

    /// Deletes a key if it exists.
    pub async fn delete(&self, key: &str) -> Result<()> {
        match self {
            Self::Etcd(client) => drop(client.kv_client().delete(key, None).await?),
            Self::ZooKeeper(client) => match client.delete(key, None).await {
                Ok(()) | Err(ZkError::NoNode) => {}
                Err(error) => return Err(error.into()),
            },
        }
        Ok(())
    }
}
