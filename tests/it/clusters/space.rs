//! An etcd whose space is used up: it refuses every write but deletes.

use std::time::Duration;

use distlock::{Client, Error, LockGuard};
use distlock_testkit::docker::OwnEtcd;
use etcd_client::{AlarmAction, AlarmOptions, AlarmType, CompactionOptions, GetOptions};

use crate::{
    common::{
        SOON, Waiter, close, connect, contended, eventually, queue_of, reason, take_turn, within,
    },
    etcd::hung::{raw, serves},
};

/// A queue that was long: its tail is there, and its holder joined behind others.
struct Long {
    guard: LockGuard,
    next: Waiter,
}

async fn long_queue(client: &Client, other: &Client) -> Long {
    let queue = async || client.mutex("long").queue().await.expect("an answer").len();
    let join = |client: &Client| Waiter::of(client, "long");
    let first = client.mutex("long").lock().await.expect("free");
    let crowd: Vec<_> = (0..60).map(|_| join(client)).collect();
    eventually(SOON, "all wait", async || queue().await == 61).await;
    let holder = join(client);
    eventually(SOON, "the next holder waits", async || queue().await == 62).await;
    let next = join(other);
    eventually(SOON, "the one behind it waits", async || queue().await == 63).await;
    drop(crowd);
    eventually(SOON, "the others have gone", async || queue().await == 3).await;
    first.unlock().await.expect("released");
    Long { guard: holder.granted().await, next }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_locks_and_takes_releases() {
    let etcd = OwnEtcd::start(&["--data-dir=/tmp/etcd", "--quota-backend-bytes=4194304"]).await;
    serves(etcd.address).await;
    let mut raw = raw(etcd.address).await;
    let (url, ttl) = (format!("etcd://{}", etcd.address), Duration::from_secs(15));
    let (client, other) = (connect(&url, ttl).await, connect(&url, ttl).await);
    let long = long_queue(&client, &other).await;
    let (guard, waiter) = contended(&client, &other, "a").await;
    queue_of(&client, "a", 2).await;

    let mut stuffed = 0;
    while raw.put(format!("stuff-{stuffed}"), vec![0; 1 << 20], None).await.is_ok() {
        stuffed += 1;
        assert!(stuffed < 20, "etcd is never full");
    }
    let error = within(SOON, "it is refused", client.mutex("b").lock()).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    assert!(!error.is_retryable());
    assert!(reason(&error).contains("space"), "{error:?}");
    assert!(guard.is_valid() && long.guard.is_valid());
    within(SOON, "it is released", long.guard.unlock()).await.expect("a delete needs no room");
    long.next.served().await;
    guard.unlock().await.expect("a delete needs no room");
    waiter.served().await;
    let left = raw.get("/distlock/a/", Some(GetOptions::new().with_prefix())).await.unwrap();
    assert!(left.kvs().is_empty());

    // The operator makes room.
    for stuff in 0..stuffed {
        raw.delete(format!("stuff-{stuff}"), None).await.unwrap();
    }
    let revision = raw.get("any", None).await.unwrap().header().unwrap().revision();
    raw.compact(revision, Some(CompactionOptions::new().with_physical())).await.unwrap();
    raw.defragment().await.unwrap();
    let member = raw.status().await.unwrap().header().unwrap().member_id();
    let mut options = AlarmOptions::new();
    options.with_member(member);
    raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options)).await.unwrap();
    take_turn(&client, "b").await;
    close([client, other]).await;
}
