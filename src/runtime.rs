//! The runtime that sessions live on.

use std::{future::Future, sync::OnceLock, time::Duration};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::JoinSet,
};

use crate::error::Error;

/// The library's own runtime: one for the process, made on first use, never shut down.
///
/// Keepalives and releases must go on when the caller's runtime is blocked, has ended or never was (a guard
/// may be dropped on any thread). `zookeeper-client` demands it too: its session dies, unnoticed, with the
/// runtime that made it.
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
    // A racing thread may have been first: its runtime stays and this one, still idle, is put away without blocking.
    if let Err(extra) = RUNTIME.set(runtime) {
        extra.shutdown_background();
    }
    RUNTIME.get().map(Runtime::handle).ok_or(Error::Closed)
}

/// Runs `task` on the library's runtime and awaits it from any executor. Dropping the returned future aborts the task.
pub(crate) async fn run<T: Send + 'static>(
    runtime: &Handle,
    task: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let mut set = JoinSet::new();
    set.spawn_on(task, runtime);
    match set.join_next().await {
        Some(Ok(done)) => done,
        Some(Err(failed)) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        _ => Err(Error::Closed),
    }
}

/// The pause before retry number `attempt` (from 0): doubles from 20 ms to 1 s, with jitter so that clients spread out.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let full = Duration::from_millis(20 << attempt.min(6)).min(Duration::from_secs(1));
    full.mul_f64(0.5 + fastrand::f64() / 2.0)
}
