//! What becomes of a client whose runtime is shut down.

use std::{pin::Pin, task::Context};

use tokio::time::timeout;

use crate::{Builder, Client, Error, LockGuard, LostReason};

use super::*;

/// Far longer than a test takes: nothing here may wait for a session to expire.
const TTL: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(20);

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

fn builder(space: &str, runtime: &tokio::runtime::Runtime) -> Builder {
    Client::builder(format!("memory://{space}")).session_ttl(TTL).runtime(runtime.handle().clone())
}

async fn told<T>(future: impl Future<Output = T>) -> T {
    timeout(SOON, future).await.expect("it is not notified")
}

#[tokio::test]
async fn guards_are_lost_with_the_runtime_of_their_client() {
    let locks = runtime();
    let client = builder("ended-runtime", &locks).connect().await.unwrap();
    let [one, two] = ["a", "b"].map(|name| client.mutex(name));
    let (one, two) = (one.lock().await.unwrap(), two.lock().await.unwrap());
    let both = async { tokio::join!(one.run(pending::<()>()), two.lost()) };
    let mut both = Box::pin(both);
    assert!(timeout(Duration::from_millis(50), &mut both).await.is_err(), "it is held");
    locks.shutdown_background();
    let (done, reason) = told(both.as_mut()).await;
    drop(both);
    assert_eq!(done.unwrap_err().reason, LostReason::KeeperStopped);
    assert_eq!(reason, LostReason::KeeperStopped);
    assert!(!one.is_valid() && two.remaining().is_zero());
    let error = told(one.unlock()).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::KeeperStopped, .. }), "{error:?}");
}

/// What has begun, and what begins afterwards: all of it fails by name, and none of it panics.
#[tokio::test]
async fn calls_fail_with_the_runtime_of_their_client() {
    let locks = runtime();
    let builder = builder("ended-calls", &locks);
    let client = builder.clone().connect().await.unwrap();
    let [held, written, read] = ["held", "written", "read"].map(|name| client.mutex(name));
    let guard = held.lock().await.unwrap();
    let (written, read) = (written.lock().await.unwrap(), read.lock().await.unwrap());
    let writer = client.rw_lock("rw").write().await.unwrap();
    let mut waiting: Pin<Box<dyn Future<Output = Result<LockGuard>>>> = Box::pin(held.lock());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
    locks.shutdown_background();
    told(guard.lost()).await;
    assert!(told(waiting).await.is_err());

    let is_named = |error: Error| assert!(matches!(error, Error::Runtime { .. }), "{error:?}");
    let free = client.mutex("free");
    is_named(told(free.lock()).await.unwrap_err());
    is_named(told(free.try_lock()).await.unwrap_err());
    is_named(told(free.lock_timeout(SOON)).await.unwrap_err());
    is_named(told(free.queue()).await.unwrap_err());
    is_named(told(client.lock_all(["one", "other"])).await.unwrap_err());
    is_named(told(client.rw_lock("rw").read()).await.unwrap_err());
    is_named(told(client.semaphore("permits", 2).acquire()).await.unwrap_err());
    is_named(told(client.election("election").campaign("a")).await.unwrap_err());
    is_named(told(client.ping()).await.unwrap_err());
    is_named(told(client.locks()).await.unwrap_err());
    is_named(told(builder.connect()).await.unwrap_err());
    let is_lost = |error: Error| assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    is_lost(told(written.put("/data", "new")).await.unwrap_err());
    is_lost(told(read.get("/data")).await.unwrap_err());
    is_lost(told(writer.downgrade()).await.unwrap_err());
    drop((written, read));
    is_named(told(client.close()).await.unwrap_err());
}
