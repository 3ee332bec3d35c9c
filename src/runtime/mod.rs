//! The runtime that sessions live on.

pub(crate) mod carried;
pub(crate) mod clock;

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::OnceLock,
    task::Poll,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    time::{Instant, timeout_at},
};

use crate::error::Error;

/// The library's own runtime: one for the process, made on first use, never shut down.
///
/// Keepalives and releases must go on when the caller's runtime is blocked, has ended or never was
/// (a guard may be dropped on any thread). `zookeeper-client` demands it too: its session dies,
/// unnoticed, with the runtime that made it.
pub(crate) fn handle() -> Result<&'static Handle, Error> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime.handle());
    }
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("distlock")
        .enable_all()
        .build()
        .map_err(|source| Error::Runtime { source })?;
    // A racing thread may have been first: its runtime stays and this one, still idle, is put away
    // without blocking.
    if let Err(extra) = RUNTIME.set(runtime) {
        extra.shutdown_background();
    }
    RUNTIME.get().map(Runtime::handle).ok_or(Error::Closed)
}

/// Polls a future as if it ran on the library's runtime, from any executor: its timers and
/// connections are the library's. That saves the way from one runtime to the other and back.
pub(crate) async fn within<T>(runtime: &Handle, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _entered = runtime.enter();
        future.as_mut().poll(context)
    })
    .await
}

/// The same, but only until then; `None` when that has passed. A timer belongs to the runtime that
/// it is made in, so it must not be made before the future is polled.
pub(crate) async fn within_until<T>(
    runtime: &Handle,
    at: Instant,
    future: impl Future<Output = T>,
) -> Option<T> {
    let future = pin!(future);
    within(runtime, async { timeout_at(at, future).await.ok() }).await
}

/// Gives others their turn, on any executor. Tokio's own, polled on a thread of tokio's, comes back
/// only when that thread is tokio's again; if it waits for this very future, never.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The pause before retry number `attempt` (from 0): doubles from 20 ms to 1 s, with jitter so that
/// clients spread out.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let full = Duration::from_millis(20 << attempt.min(6)).min(Duration::from_secs(1));
    full.mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// A time between half and one and a half of this, so that not all do the same at once.
pub(crate) fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64())
}

/// A factor: up to a quarter may be added to an interval, so that not all look at once.
pub(crate) fn late() -> f64 {
    1.0 + fastrand::f64() / 4.0
}

/// A number from 0 to `below`, which is not among them.
#[cfg(feature = "etcd")]
pub(crate) fn random_below(below: usize) -> usize {
    fastrand::usize(..below)
}

/// A number that nobody else has drawn, as good as certainly.
#[cfg(feature = "etcd")]
pub(crate) fn random_id() -> i64 {
    fastrand::i64(1..)
}
