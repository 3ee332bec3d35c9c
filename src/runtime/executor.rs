//! The seam to the executor that runs the library's own work.

use std::{
    cell::Cell,
    future::Future,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

pub(crate) use tokio::{
    runtime::{Builder, EnterGuard, Handle},
    task::AbortHandle,
};

use crate::error::Error;

/// An executor for the library's work. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Executor(Handle);

impl Executor {
    /// Creates an executor of the library's own, which is never shut down.
    ///
    /// Keepalives and releases must continue when the caller's runtime is blocked, has ended or
    /// never existed: a guard may be dropped on any thread. `zookeeper-client` requires it too,
    /// because its session ends unnoticed with the runtime that created it.
    ///
    /// The executor has one worker thread. Callers drive their own requests, so it has little to do
    /// except to process incoming data. Tokio would wake a second worker to look for more work
    /// whenever the first one has found work from another thread. That took a tenth of the
    /// processor time of a lock and its unlock. Slow work runs in [`aside`](aside).
    pub(crate) fn own() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("distlock")
            .on_thread_start(|| OURS.set(true))
            .enable_all()
            .build()
            .map_err(|source| Error::Runtime { source: source.into() })?;
        let executor = Self(runtime.handle().clone());
        // Dropping the runtime would wait for its threads, which a forked child does not have.
        mem::forget(runtime);
        Ok(executor)
    }

    /// Wraps the user's runtime; `None` if it has no timers.
    ///
    /// Tokio reports missing timers only by a panic.
    pub(crate) fn of(handle: Handle) -> Option<Self> {
        let timer = catch_unwind(AssertUnwindSafe(|| {
            let _entered = handle.enter();
            drop(tokio::time::sleep(Duration::ZERO));
        }));
        timer.is_ok().then_some(Self(handle))
    }

    /// Returns the executor that polls the current task.
    #[cfg(any(
        feature = "etcd",
        feature = "zookeeper",
        feature = "postgres",
        feature = "mysql",
        feature = "redis"
    ))]
    pub(crate) fn here() -> Self {
        Self(Handle::current())
    }

    /// Returns the caller's runtime, if a test has paused its clock.
    ///
    /// A paused clock jumps to the next timer as soon as its runtime is idle, even while another
    /// runtime works for it.
    pub(crate) fn with_stopped_clock() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        // Tokio has no function for this, but a paused clock does not advance.
        let (began, stopped) = (std::time::Instant::now(), tokio::time::Instant::now());
        while began.elapsed() < Duration::from_micros(10) {}
        if stopped.elapsed().is_zero() { Self::of(handle) } else { None }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.0.spawn(task).abort_handle()
    }

    /// Makes timers and connections belong to this executor while the guard exists.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.0.enter()
    }
}

thread_local! {
    /// Set on the threads of the library's own runtime.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Runs slow work without blocking the library's other work.
///
/// An example is a callback of the program.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    // Only on the library's threads: tokio would panic in a single-threaded runtime.
    if OURS.get() { tokio::task::block_in_place(work) } else { work() }
}

/// Spawns a task on the executor of the current task.
#[allow(dead_code)] // Used only by stores with a network.
pub(crate) fn spawn_beside(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Spawns a task on the current task's executor, and returns its abort handle.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn spawn_abortable(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(task).abort_handle()
}

/// Spawns a thread for blocking work.
#[cfg(feature = "sqlite")]
pub(crate) fn spawn_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn blocking_work_does_not_delay_other_tasks() {
        let own = Executor::own().unwrap();
        let (go, gone) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        // This task continues only after the other one has run.
        own.spawn(async move {
            begin.send(()).unwrap();
            let went = aside(|| gone.recv_timeout(Duration::from_secs(20)).is_ok());
            sender.send(went).unwrap();
        });
        begun.recv().unwrap();
        own.spawn(async move { go.send(()).unwrap() });
        assert!(receiver.recv().unwrap(), "the other one was not done meanwhile");
        assert!(aside(|| true), "on any thread");
    }
}
