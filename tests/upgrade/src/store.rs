//! Leftovers in a store.

use std::time::Duration;

use distlock_testkit::{Result, operator::Operator, retry::retried};

use crate::worker::TTL;

/// Keys of killed workers expire with their sessions, and ZooKeeper's directories one after the
/// other.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Waits until the namespace is empty; fails if something stays.
pub(crate) async fn emptied(url: &str, namespace: &str) -> Result<()> {
    let store = Operator::connect(url).await?;
    let look = async || match store.below(namespace).await? {
        left if left.is_empty() => Ok(()),
        left => Err(format!("left in {}: {}", store.backend(), left.join(", ")).into()),
    };
    retried(TTL + TIME_LIMIT, look).await
}
