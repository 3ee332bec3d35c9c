//! The features of Redlock, and what it refuses before any I/O.

use std::{fmt::Debug, time::Duration};

use distlock::{Client, Error, StoreKind};
use tokio::time::timeout;

use crate::common::{self, reason, redis::without_hello};

/// Addresses without a server: a refusal involves no I/O.
const NOWHERE: &str = "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";

fn refused<T: Debug>(outcome: Result<T, Error>) {
    let error = outcome.expect_err("refused");
    let text = error.to_string();
    assert!(matches!(error, Error::Unsupported { backend: StoreKind::Redlock, .. }), "{error:?}");
    assert!(text.starts_with("Redlock does not support "), "{text}");
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn all_but_the_mutex_is_refused_before_anything_is_sent() {
    let client = Client::builder(NOWHERE).connect_lazy().expect("the URL is well-formed");
    let calls = async {
        let (rw, semaphore) = (client.rw_lock("a"), client.semaphore("a", 2));
        refused(rw.read().await.map(drop));
        refused(rw.try_write().await.map(drop));
        refused(rw.queue().await);
        refused(rw.watch_queue().map(drop));
        refused(semaphore.acquire().await.map(drop));
        refused(semaphore.try_acquire_many(2).await.map(drop));
        refused(semaphore.permits().await);
        refused(semaphore.set_permits(3).await);
        let election = client.election("a");
        refused(election.campaign("x").await.map(drop));
        refused(election.leader().await.map(drop));
        refused(election.observe().map(drop));
        refused(client.lock_all(["a", "b"]).await.map(drop));
        refused(client.try_lock_all(["a", "b"]).await.map(drop));
        refused(client.locks().await);
        refused(client.evict("/distlock/a/b").await);
        let mutex = client.mutex("a");
        refused(mutex.queue().await);
        refused(mutex.holder().await.map(drop));
        refused(mutex.watch_queue().map(drop));
        refused(mutex.request_release("please").await);
        let period = Duration::from_secs(60);
        refused(mutex.run_once_per(period, async |_guard| ()).await);
    };
    timeout(Duration::from_secs(2), calls).await.expect("every call returns at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_hello_is_refused_by_name() {
    let [one, two, three] = [without_hello().await, without_hello().await, without_hello().await];
    let builder = Client::builder(format!("redlock://{one},{two},{three}"));
    let error = common::refused(builder).await;
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains("HELLO"), "{error:?}");
}

#[tokio::test]
async fn nodes_must_be_an_odd_number_without_duplicates() {
    for (url, words) in [
        ("redlock://a", "odd number"),
        ("redlock://a,b", "odd number"),
        ("redlock://a,b,c,d", "odd number"),
        ("redlock://a,b,c,b:6379,d", "twice"),
    ] {
        let error = Client::builder(url).connect_lazy().expect_err("refused");
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}
