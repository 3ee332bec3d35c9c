//! Waits for the deletion of a node on ZooKeeper.

use zookeeper_client::{Client, Error, EventType};

use crate::{Result, clock::uptime};

/// The name of a node that does not exist.
const MISSING: &str = "/no-node-of-this-name";

/// Waits until a node that was created is deleted, and returns when that was known, on [`uptime`].
///
/// The server of `client` may apply the creation later than the server that confirmed it. This is
/// also true of the leader, whose `CommitProcessor` lets reads and `sync` overtake a write that is
/// decided and not yet applied. The reply to a write, even to one that fails, comes in the order of
/// all writes.
pub async fn deletion(client: &Client, key: &str) -> Result<u64> {
    match client.delete(MISSING, None).await {
        Err(Error::NoNode) => {}
        other => return Err(format!("deleted {MISSING}: {other:?}").into()),
    }
    loop {
        let (stat, changes) = client.check_and_watch_stat(key).await?;
        if stat.is_none() || changes.changed().await.event_type == EventType::NodeDeleted {
            return Ok(uptime());
        }
    }
}
