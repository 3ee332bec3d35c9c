//! A server without space: it refuses every write except deletes.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, Error, LockGuard};
use etcd_client::GetOptions;

use super::hung::raw;
use crate::common::{
    SOON, Waiter, close, connect, contended, eventually, queue_of, reason, take_turn, within,
};

/// A queue that was long: its tail key exists, and its holder joined behind other waiters.
struct Long {
    guard: LockGuard,
    next: Waiter,
}

async fn long_queue(client: &Client, other: &Client) -> Long {
    let queue = async || client.mutex("long").queue().await.expect("a reply").len();
    let join = |client: &Client| Waiter::of(client, "long");
    let first = client.mutex("long").lock().await.expect("free");
    let crowd: Vec<_> = (0..60).map(|_| join(client)).collect();
    eventually(SOON, "the crowd waits", async || queue().await == 61).await;
    let holder = join(client);
    eventually(SOON, "the next holder waits", async || queue().await == 62).await;
    let next = join(other);
    eventually(SOON, "the successor waits", async || queue().await == 63).await;
    drop(crowd);
    eventually(SOON, "the other waiters have left", async || queue().await == 3).await;
    first.unlock().await.expect("released");
    Long { guard: holder.granted().await, next }
}

/// `fill` uses up the space, and `make_room` frees it as an operator would.
pub(crate) async fn refuses_locks_and_takes_releases(
    server: SocketAddr,
    fill: impl AsyncFnOnce(&mut etcd_client::Client),
    make_room: impl AsyncFnOnce(&mut etcd_client::Client),
) {
    let mut raw = raw(server).await;
    let (url, ttl) = (format!("etcd://{}", server), Duration::from_secs(15));
    let (client, other) = (connect(&url, ttl).await, connect(&url, ttl).await);
    let long = long_queue(&client, &other).await;
    let (guard, waiter) = contended(&client, &other, "a").await;
    queue_of(&client, "a", 2).await;

    fill(&mut raw).await;
    let error = within(SOON, "the lock is refused", client.mutex("b").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    assert!(!error.is_retryable());
    assert!(reason(&error).contains("space"), "{error:?}");
    assert!(guard.is_valid() && long.guard.is_valid());
    within(SOON, "the lock is released", long.guard.unlock())
        .await
        .expect("a delete needs no space");
    long.next.served().await;
    guard.unlock().await.expect("a delete needs no space");
    waiter.served().await;
    let left = raw.get("/distlock/a/", Some(GetOptions::new().with_prefix())).await.unwrap();
    assert!(left.kvs().is_empty());

    make_room(&mut raw).await;
    take_turn(&client, "b").await;
    close([client, other]).await;
}
