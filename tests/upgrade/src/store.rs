//! What is left in a store.

use std::time::Duration;

use etcd_client::GetOptions;
use tokio::time::{Instant, sleep};

use crate::{Result, worker::TTL};

/// The keys of the killed go with their sessions, and ZooKeeper's directories one after the other.
const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn name(url: &str) -> &'static str {
    if url.starts_with("etcd:") { "etcd" } else { "zookeeper" }
}

/// Waits until there is nothing below the namespace any more; an error if something stays.
pub(crate) async fn emptied(url: &str, namespace: &str) -> Result<()> {
    let hosts = url.split_once("://").ok_or("no URL")?.1;
    let deadline = Instant::now() + TTL + PATIENCE;
    loop {
        let left = if name(url) == "etcd" {
            etcd(hosts, namespace).await?
        } else {
            zookeeper(hosts, namespace).await?
        };
        if left.is_empty() {
            return Ok(());
        } else if Instant::now() > deadline {
            return Err(format!("left in {}: {}", name(url), left.join(", ")).into());
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
