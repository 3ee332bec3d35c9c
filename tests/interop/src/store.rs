//! The contents of the store, read by its own client.

use std::time::Duration;

use distlock_testkit::{Result, backend::Backend, operator::Operator, retry::retried};
use zookeeper_client as zk;

pub(crate) enum Store {
    /// A store on which other libraries share distlock's queue.
    Queues(Operator),
    Redis(redis::aio::MultiplexedConnection),
}

impl Store {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        if url.starts_with("redis://") {
            let client = redis::Client::open(operator(url))?;
            return Ok(Self::Redis(client.get_multiplexed_async_connection().await?));
        }
        Operator::connect(url).await.map(Self::Queues)
    }

    /// Returns the operator of the queues, if the store has any.
    pub(crate) fn queues(&self) -> Result<&Operator> {
        match self {
            Self::Queues(operator) => Ok(operator),
            Self::Redis(_) => Err("other libraries have no queue in it".into()),
        }
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.queues().ok().map(Operator::backend)
    }

    /// Returns the keys of all holders and waiters, in order.
    pub(crate) async fn queue(&self, path: &str) -> Result<Vec<String>> {
        match self {
            Self::Queues(Operator::Etcd(client)) => {
                let mut kvs = client.kv_client().get(format!("{path}/"), all()).await?.take_kvs();
                kvs.retain(|kv| kv.lease() != 0);
                kvs.sort_by_key(etcd_client::KeyValue::create_revision);
                Ok(kvs.iter().map(|kv| String::from_utf8_lossy(kv.key()).into_owned()).collect())
            }
            Self::Queues(Operator::ZooKeeper(client)) => {
                client.sync(path).await.or_else(missing)?;
                let mut children = client.list_children(path).await.or_else(missing)?;
                children.retain(|child| child.contains("lock") && number(child).is_some());
                children.sort_by_key(|child| number(child));
                Ok(children.iter().map(|child| format!("{path}/{child}")).collect())
            }
            Self::Redis(connection) => {
                let namespace = path.rsplit_once('/').map_or(path, |(namespace, _)| namespace);
                let mut range = redis::cmd("ZRANGEBYLEX");
                range.arg(format!("{{distlock:{namespace}}}:queue"));
                range.arg(format!("[{path}")).arg(format!("({path}\u{7f}"));
                let mut found: Vec<String> = range.query_async(&mut connection.clone()).await?;
                // Watches are no entries.
                found.retain(|member| !member.contains(" ;"));
                Ok(found)
            }
        }
    }

    /// Waits for a queue of this length, and returns its keys.
    pub(crate) async fn queue_of(&self, path: &str, length: usize) -> Result<Vec<String>> {
        let look = async || {
            let queue = self.queue(path).await?;
            match queue.len() {
                found if found == length => Ok(queue),
                found => Err(format!("{found} in the queue, not {length}: {queue:?}").into()),
            }
        };
        retried(Duration::from_secs(30), look).await
    }

    /// Removes a namespace; returns its contents except for empty directories.
    pub(crate) async fn clear(&self, namespace: &str) -> Result<Vec<String>> {
        let Self::Queues(operator) = self else {
            // Entries are removed with their sessions.
            return self.queue(&format!("{namespace}/")).await;
        };
        let mut found = operator.below(namespace).await?;
        for key in found.iter().rev() {
            operator.delete(key).await?;
        }
        // ZooKeeper nodes one level deep are directories of locks.
        let zookeeper = operator.backend() == Backend::ZooKeeper;
        found.retain(|key| !zookeeper || key[namespace.len()..].matches('/').count() > 1);
        Ok(found)
    }

    /// Deletes the key that other libraries use for a lock; returns `true` if it existed.
    pub(crate) async fn free(&self, key: &str) -> Result<bool> {
        let Self::Redis(connection) = self else { return Ok(false) };
        Ok(redis::cmd("DEL").arg(key).query_async(&mut connection.clone()).await?)
    }
}

/// Returns the URL of a user with all rights.
pub(crate) fn operator(url: &str) -> String {
    url.replace("app:apppw@", "default:root@")
}

fn all() -> Option<etcd_client::GetOptions> {
    Some(etcd_client::GetOptions::new().with_prefix())
}

/// Returns the server's number at the end of a node's name.
fn number(child: &str) -> Option<u32> {
    child.get(child.len().checked_sub(10)?..)?.parse().ok()
}

/// Treats a missing node as empty.
fn missing<T: Default>(error: zk::Error) -> std::result::Result<T, zk::Error> {
    if error == zk::Error::NoNode { Ok(T::default()) } else { Err(error) }
}
