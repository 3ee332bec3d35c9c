//! What is left in a store.

use std::time::Duration;

use distlock_testkit::{Result, backend::Backend};
use etcd_client::GetOptions;
use tokio::time::{Instant, sleep};

use crate::worker::TTL;

/// The keys of the killed go with their sessions, and ZooKeeper's directories one after the other.
const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(200);

/// Waits until there is nothing below the namespace any more; an error if something stays.
pub(crate) async fn emptied(url: &str, namespace: &str) -> Result<()> {
    let (backend, hosts) = Backend::split(url).ok_or("no such store")?;
    let deadline = Instant::now() + TTL + PATIENCE;
    loop {
        let left = match backend {
            Backend::Etcd => etcd(hosts, namespace).await?,
            Backend::ZooKeeper => zookeeper(hosts, namespace).await?,
        };
        if left.is_empty() {
            return Ok(());
        } else if Instant::now() > deadline {
            return Err(format!("left in {backend}: {}", left.join(", ")).into());
        }
        sleep(PAUSE).await;
    }
}

async fn etcd(hosts: &str, namespace: &str) -> Result<Vec<String>> {
    let mut client =
        etcd_client::Client::connect(hosts.split(',').collect::<Vec<_>>(), None).await?;
    let options = GetOptions::new().with_prefix().with_keys_only();
    let found = client.get(namespace, Some(options)).await?;
    Ok(found.kvs().iter().map(|pair| String::from_utf8_lossy(pair.key()).into_owned()).collect())
}

async fn zookeeper(hosts: &str, namespace: &str) -> Result<Vec<String>> {
    let client = zookeeper_client::Client::connect(hosts).await?;
    let (mut left, mut paths) = (Vec::new(), vec![namespace.to_owned()]);
    while let Some(path) = paths.pop() {
        match client.list_children(&path).await {
            Ok(children) => {
                paths.extend(children.into_iter().map(|child| format!("{path}/{child}")))
            }
            Err(zookeeper_client::Error::NoNode) => continue,
            Err(error) => return Err(error.into()),
        }
        left.push(path);
    }
    Ok(left)
}
