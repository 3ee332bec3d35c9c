//! What is in the store, as its own client sees it.

use std::time::Duration;

use distlock_testkit::{Result, backend::Backend};
use tokio::time::{Instant, sleep};
use zookeeper_client as zk;

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(5);

pub(crate) enum Store {
    Etcd(Box<etcd_client::Client>),
    ZooKeeper(zk::Client),
    Redis(redis::aio::MultiplexedConnection),
}

impl Store {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        match Backend::split(url) {
            Some((Backend::Etcd, servers)) => {
                let servers: Vec<&str> = servers.split(',').collect();
                Ok(Self::Etcd(Box::new(etcd_client::Client::connect(servers, None).await?)))
            }
            Some((Backend::ZooKeeper, servers)) => {
                let connector =
                    zk::Client::connector().with_session_timeout(Duration::from_secs(20));
                Ok(Self::ZooKeeper(connector.connect(servers).await?))
            }
            None if url.starts_with("redis://") => {
                let client = redis::Client::open(operator(url))?;
                Ok(Self::Redis(client.get_multiplexed_async_connection().await?))
            }
            None => Err(format!("no such store: {url}").into()),
        }
    }

    /// If it is one that others stand in one queue with us on.
    pub(crate) fn backend(&self) -> Option<Backend> {
        match self {
            Self::Etcd(_) => Some(Backend::Etcd),
            Self::ZooKeeper(_) => Some(Backend::ZooKeeper),
            Self::Redis(_) => None,
        }
    }

    /// The keys of all who hold and wait, in their order.
    pub(crate) async fn queue(&self, path: &str) -> Result<Vec<String>> {
        match self {
            Self::Etcd(client) => {
                let mut kvs = client.kv_client().get(format!("{path}/"), all()).await?.take_kvs();
                kvs.retain(|kv| kv.lease() != 0);
                kvs.sort_by_key(etcd_client::KeyValue::create_revision);
                Ok(kvs.iter().map(|kv| String::from_utf8_lossy(kv.key()).into_owned()).collect())
            }
            Self::ZooKeeper(client) => {
                client.sync(path).await.or_else(missing)?;
                let mut children = client.list_children(path).await.or_else(missing)?;
                children.retain(|child| child.contains("lock") && number(child).is_some());
                children.sort_by_key(|child| number(child));
                Ok(children.iter().map(|child| format!("{path}/{child}")).collect())
            }
            Self::Redis(connection) => {
                let mut range = redis::cmd("ZRANGEBYLEX");
                range.arg("{distlock}:queue").arg(format!("[{path}")).arg(format!("({path}\u{7f}"));
                Ok(range.query_async(&mut connection.clone()).await?)
            }
        }
    }

    /// Waits until so many hold and wait, and returns their keys.
    pub(crate) async fn queue_of(&self, path: &str, length: usize) -> Result<Vec<String>> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let queue = self.queue(path).await?;
            if queue.len() == length {
                return Ok(queue);
            }
            if Instant::now() > deadline {
                return Err(format!("{} in the queue, not {length}: {queue:?}", queue.len()).into());
            }
            sleep(POLL).await;
        }
    }

    /// A key in the queue that belongs to no session.
    pub(crate) async fn put(&self, key: &str) -> Result<()> {
        match self {
            Self::Etcd(client) => {
                client.kv_client().put(key, "junk", None).await?;
            }
            Self::ZooKeeper(client) => {
                let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
                client.mkdir(key.rsplit_once('/').map_or("/", |(dir, _)| dir), &options).await?;
                client.create(key, b"junk", &options).await?;
            }
            Self::Redis(_) => return Err("there is no junk in it".into()),
        }
        Ok(())
    }

    pub(crate) async fn remove(&self, key: &str) -> Result<()> {
        match self {
            Self::Etcd(client) => {
                client.kv_client().delete(key, None).await?;
            }
            Self::ZooKeeper(client) => client.delete(key, None).await?,
            Self::Redis(_) => return Err("there is no junk in it".into()),
        }
        Ok(())
    }

    /// Removes a namespace, and says what was left in it but empty directories.
    pub(crate) async fn clear(&self, namespace: &str) -> Result<Vec<String>> {
        match self {
            Self::Etcd(client) => {
                let options = etcd_client::DeleteOptions::new().with_prefix().with_prev_key();
                let mut answer =
                    client.kv_client().delete(format!("{namespace}/"), Some(options)).await?;
                Ok(answer
                    .take_prev_kvs()
                    .iter()
                    .map(|kv| String::from_utf8_lossy(kv.key()).into_owned())
                    .collect())
            }
            Self::ZooKeeper(client) => {
                let (mut todo, mut found, mut left) =
                    (vec![namespace.to_owned()], Vec::new(), Vec::new());
                while let Some(node) = todo.pop() {
                    let children = client.list_children(&node).await.or_else(missing)?;
                    let is_empty = children.is_empty();
                    todo.extend(children.iter().map(|child| format!("{node}/{child}")));
                    // A lock's directory is one level deep.
                    if is_empty && node[namespace.len()..].matches('/').count() > 1 {
                        left.push(node.clone());
                    }
                    found.push(node);
                }
                for node in found.iter().rev() {
                    client.delete(node, None).await.or_else(missing)?;
                }
                Ok(left)
            }
            // Entries go with their sessions.
            Self::Redis(_) => self.queue(&format!("{namespace}/")).await,
        }
    }

    /// Deletes what others take for a lock; tells whether it was there.
    pub(crate) async fn free(&self, key: &str) -> Result<bool> {
        let Self::Redis(connection) = self else { return Ok(false) };
        Ok(redis::cmd("DEL").arg(key).query_async(&mut connection.clone()).await?)
    }
}

/// The URL of the one who may do all.
pub(crate) fn operator(url: &str) -> String {
    url.replace("app:apppw@", "default:root@")
}

fn all() -> Option<etcd_client::GetOptions> {
    Some(etcd_client::GetOptions::new().with_prefix())
}

/// The server's number at the end of a node's name.
fn number(child: &str) -> Option<u32> {
    child.get(child.len().checked_sub(10)?..)?.parse().ok()
}

/// A node that is not there has nothing.
fn missing<T: Default>(error: zk::Error) -> std::result::Result<T, zk::Error> {
    if error == zk::Error::NoNode { Ok(T::default()) } else { Err(error) }
}
