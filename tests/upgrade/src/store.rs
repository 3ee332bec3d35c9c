//! What is left in a store.

use std::time::Duration;

use distlock_testkit::{Result, operator::Operator};
use tokio::time::{Instant, sleep};

use crate::worker::TTL;

/// The keys of the killed go with their sessions, and ZooKeeper's directories one after the other.
const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(200);

/// Waits until there is nothing below the namespace any more; an error if something stays.
pub(crate) async fn emptied(url: &str, namespace: &str) -> Result<()> {
    let store = Operator::connect(url).await?;
    let deadline = Instant::now() + TTL + PATIENCE;
    loop {
        let left = store.below(namespace).await?;
        if left.is_empty() {
            return Ok(());
        } else if Instant::now() > deadline {
            return Err(format!("left in {}: {}", store.backend(), left.join(", ")).into());
        }
        sleep(PAUSE).await;
    }
}
