//! A client whose runtime is shut down.

use std::{pin::Pin, task::Context};

use tokio::time::timeout;

use crate::{Builder, Client, Error, LockGuard, LostReason};

use super::*;

/// Far longer than a test: nothing here may wait until a session expires.
const TTL: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(20);

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

fn builder(space: &str, runtime: &tokio::runtime::Runtime) -> Builder {
    Client::builder(format!("memory://{space}")).session_ttl(TTL).runtime(runtime.handle().clone())
}

async fn within_limit<T>(future: impl Future<Output = T>) -> T {
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
    let (done, reason) = within_limit(both.as_mut()).await;
    drop(both);
    assert_eq!(done.unwrap_err().reason, LostReason::KeeperStopped);
    assert_eq!(reason, LostReason::KeeperStopped);
    assert!(!one.is_valid() && two.remaining().is_zero());
    let error = within_limit(one.unlock()).await.unwrap_err();
    assert!(matches!(error, Error::Lost { reason: LostReason::KeeperStopped, .. }), "{error:?}");
}

/// Calls that are in progress, and later calls, fail with a named error and do not panic.
#[tokio::test]
async fn calls_fail_with_the_runtime_of_their_client() {
    let locks = runtime();
    let builder = builder("ended-calls", &locks);
    let client = builder.clone().connect().await.unwrap();
    let [held, written, read] = ["held", "written", "read"].map(|name| client.mutex(name));
    let guard = held.lock().await.unwrap();
    let (written, read) = (written.lock().await.unwrap(), read.lock().await.unwrap());
    let writer = client.rw_lock("rw").write().await.unwrap();
    let leadership = client.election("led").campaign("one").await.unwrap();
    let mut waiting: Pin<Box<dyn Future<Output = Result<LockGuard>>>> = Box::pin(held.lock());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
    locks.shutdown_background();
    within_limit(guard.lost()).await;
    assert!(within_limit(waiting).await.is_err());

    let is_named = |error: Error| assert!(matches!(error, Error::Runtime { .. }), "{error:?}");
    let free = client.mutex("free");
    is_named(within_limit(free.lock()).await.unwrap_err());
    is_named(within_limit(free.try_lock()).await.unwrap_err());
    is_named(within_limit(free.lock_timeout(SOON)).await.unwrap_err());
    is_named(within_limit(free.queue()).await.unwrap_err());
    is_named(within_limit(client.lock_all(["one", "other"])).await.unwrap_err());
    is_named(within_limit(client.rw_lock("rw").read()).await.unwrap_err());
    is_named(within_limit(client.semaphore("permits", 2).acquire()).await.unwrap_err());
    is_named(within_limit(client.election("election").campaign("a")).await.unwrap_err());
    is_named(within_limit(client.ping()).await.unwrap_err());
    is_named(within_limit(client.locks()).await.unwrap_err());
    is_named(within_limit(builder.connect()).await.unwrap_err());
    let is_lost = |error: Error| assert!(matches!(error, Error::Lost { .. }), "{error:?}");
    is_lost(within_limit(written.put("/data", "new")).await.unwrap_err());
    is_lost(within_limit(read.get("/data")).await.unwrap_err());
    is_lost(within_limit(writer.downgrade()).await.unwrap_err());
    is_lost(within_limit(leadership.proclaim("two")).await.unwrap_err());
    drop((written, read, leadership));
    is_named(within_limit(client.close()).await.unwrap_err());
}

/// A poll at the moment at which the runtime is shut down does not panic.
#[tokio::test]
async fn poll_fails_if_its_runtime_ends_meanwhile() {
    let ended = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let executor = Executor::of(runtime.handle().clone()).unwrap();
        (runtime, Runtime::of_the_program(executor))
    };
    let (locks, runtime) = ended();
    let polled = runtime.poll_within(|| -> Poll<()> {
        locks.shutdown_background();
        panic!("a timer's")
    });
    assert!(matches!(polled, Err(Error::Runtime { .. })), "{polled:?}");
    // Another panic is passed on.
    let (locks, runtime) = ended();
    let panics = || -> Poll<()> { panic!("a subscriber's") };
    assert!(catch_unwind(AssertUnwindSafe(|| runtime.poll_within(panics))).is_err());
    locks.shutdown_background();
}
