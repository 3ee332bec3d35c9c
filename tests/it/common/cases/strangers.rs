//! Entries of other clients, of unknown kind.

use std::time::Duration;

use crate::common::{Case, Harness, release};

/// Such an entry excludes readers, and counts as one permit.
pub(crate) async fn are_not_shared_with<S: Harness>(t: &Case<S>, entries: [String; 2]) {
    let client = t.client().await;
    assert!(client.rw_lock("m").try_read().await.expect("a reply").is_none());
    assert!(client.semaphore("m", 1).try_acquire().await.expect("a reply").is_none());
    let permit = client.semaphore("m", 2).acquire().await.expect("granted");
    let lock = client.rw_lock("m");
    let reader = t.stands(async move { lock.read().await }).await;
    reader.waits_throughout(Duration::from_millis(200), "the reader waits").await;
    for entry in entries {
        t.store.delete_key(&entry).await;
    }
    reader.served().await;
    release([permit]).await;
}
