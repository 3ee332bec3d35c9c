//! Entries of other clients, of which nobody knows what they are for.

use std::time::Duration;

use crate::common::{Case, Harness, release};

/// One is alone where readers share, and has a permit where permits are counted.
pub(crate) async fn are_not_shared_with<S: Harness>(t: &Case<S>, entries: [String; 2]) {
    let client = t.client().await;
    assert!(client.rw_lock("m").try_read().await.expect("an answer").is_none());
    assert!(client.semaphore("m", 1).try_acquire().await.expect("an answer").is_none());
    let permit = client.semaphore("m", 2).acquire().await.expect("granted");
    let lock = client.rw_lock("m");
    let reader = t.stands(async move { lock.read().await }).await;
    reader.waits_throughout(Duration::from_millis(200), "it waits").await;
    for entry in entries {
        t.store.delete_key(&entry).await;
    }
    reader.served().await;
    release([permit]).await;
}
