//! The seam to what polls: where the library's own work is done.

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

/// What the library's work is done by. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Executor(Handle);

impl Executor {
    /// A new one of the library's own, which is never shut down.
    ///
    /// Keepalives and releases must go on when the caller's runtime is blocked, has ended or never
    /// was (a guard may be dropped on any thread). `zookeeper-client` demands it too: its session
    /// dies, unnoticed, with the runtime that made it.
    ///
    /// Each has one worker. Callers carry their requests themselves, so that there is little else
    /// to do for a client than to pass on what its connections bring; and tokio wakes up a second
    /// worker, to look for more, whenever a first one has found something that another thread has
    /// left it. That was a tenth of all the processor time of a lock and its unlock. What may take
    /// long is done [aside](aside).
    pub(crate) fn own() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("distlock")
            .on_thread_start(|| OURS.set(true))
            .enable_all()
            .build()
            .map_err(|source| Error::Runtime { source: source.into() })?;
        let executor = Self(runtime.handle().clone());
        // Its end would wait for its threads, which a forked child does not have.
        mem::forget(runtime);
        Ok(executor)
    }

    /// The user's; `None` if it has no timers. Tokio tells that by a panic alone.
    pub(crate) fn of(handle: Handle) -> Option<Self> {
        let timer = catch_unwind(AssertUnwindSafe(|| {
            let _entered = handle.enter();
            drop(tokio::time::sleep(Duration::ZERO));
        }));
        timer.is_ok().then_some(Self(handle))
    }

    /// The one by which the current task is polled.
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

    /// The caller's, if a test has stopped its clock. Such a clock jumps to the next timer as soon
    /// as its runtime is idle, also while another one is at work for it.
    pub(crate) fn with_stopped_clock() -> Option<Self> {
        let handle = Handle::try_current().ok()?;
        // Tokio does not say so, but then its clock stands still.
        let (began, stopped) = (std::time::Instant::now(), tokio::time::Instant::now());
        while began.elapsed() < Duration::from_micros(10) {}
        if stopped.elapsed().is_zero() { Self::of(handle) } else { None }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.0.spawn(task).abort_handle()
    }

    /// Timers and connections that are made while the guard lives are this executor's.
    pub(crate) fn enter(&self) -> EnterGuard<'_> {
        self.0.enter()
    }
}

thread_local! {
    /// It is a thread of the library's own runtime.
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Does what may take long, as the program's code does, without keeping the library's other work
/// waiting.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    // Not on other threads: in a runtime with a single thread tokio would panic.
    if OURS.get() { tokio::task::block_in_place(work) } else { work() }
}

/// A task beside the one that is polled at this moment, by the same executor.
#[allow(dead_code)] // Without a store that is reached by a network.
pub(crate) fn spawn_beside(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Spawns a task on the executor of the current one, and returns the handle to abort it.
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub(crate) fn spawn_abortable(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(task).abort_handle()
}

/// A thread of its own, for what blocks.
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
    fn what_takes_long_keeps_nobody_waiting() {
        let own = Executor::own().unwrap();
        let (go, gone) = mpsc::channel::<()>();
        let (begin, begun) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        // Goes on only when the other one has been done.
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
