//! The runtime of a client, and the task that takes over its slow futures.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, pending, poll_fn},
    io, mem,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tokio::sync::watch;

#[cfg(feature = "_network")]
use super::inline;
use super::{
    clock::{Instant, sleep_until},
    executor::{AbortHandle, Executor},
    mutex::Mutex,
    process::Process,
};
use crate::error::{Error, Result};

/// How long a caller drives a future that occupies shared resources before the library takes it
/// over.
pub(super) const TRUST: Duration = Duration::from_millis(50);

/// The number of runtimes of the library. Clients are spread over them, so that a process with
/// thousands of clients can use more than one processor.
const LANES: usize = 2;

/// The runtime of a client. Cheap to clone; all clones are the same runtime.
#[derive(Clone)]
pub(crate) struct Runtime {
    of: Arc<Of>,
}

struct Of {
    executor: Executor,
    loads: Mutex<Watched>,
    process: Process,
    /// For a runtime that the program may shut down, which drops the sender.
    runs: Option<watch::Receiver<()>>,
}

impl Runtime {
    /// Returns one of the library's runtimes in turn, for a client without its own.
    pub(crate) fn of_a_client() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self::own_in(NEXT.fetch_add(1, Ordering::Relaxed) % LANES)
    }

    /// Returns a runtime of the library, for work that belongs to no client.
    #[cfg(any(feature = "blocking", test))]
    pub(crate) fn own() -> Result<Self> {
        Self::own_in(0)
    }

    /// Creates each runtime on its first use.
    ///
    /// A forked child creates its own, because it has none of its parent's threads.
    fn own_in(lane: usize) -> Result<Self> {
        static OWN: [Mutex<Option<Runtime>>; LANES] = [const { Mutex::new(None) }; LANES];
        let mut own = OWN[lane].lock();
        if let Some(own) = own.as_ref().filter(|own| !own.is_inherited()) {
            return Ok(own.clone());
        }
        let new = Self::of(Executor::own()?);
        mem::forget(own.replace(new.clone()));
        Ok(new)
    }

    /// Wraps an executor that lives as long as the process.
    pub(crate) fn of(executor: Executor) -> Self {
        Self::new(executor, None)
    }

    /// Wraps an executor that the program may shut down.
    pub(crate) fn of_the_program(executor: Executor) -> Self {
        let (running, runs) = watch::channel(());
        // The task ends with this runtime, or is dropped with the executor.
        executor.spawn(async move { running.closed().await });
        Self::new(executor, Some(runs))
    }

    fn new(executor: Executor, runs: Option<watch::Receiver<()>>) -> Self {
        let (loads, process) = (Mutex::default(), Process::current());
        Self { of: Arc::new(Of { executor, loads, process, runs }) }
    }

    fn executor(&self) -> &Executor {
        &self.of.executor
    }

    /// Returns `true` if the runtime belongs to the parent of this forked process.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.of.process.is_current()
    }

    /// Checks that the runtime can run work.
    ///
    /// # Errors
    ///
    /// [`Error::Runtime`] if it was shut down, or if this process was forked after its creation.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_inherited() {
            return Err(ended(
                "this client was created before a fork: connect again in the child, or, on SQLite \
                 and ZooKeeper, start another program there",
            ));
        }
        match &self.of.runs {
            // The channel never carries a value.
            Some(runs) if runs.has_changed().is_err() => Err(shut_down()),
            _ => Ok(()),
        }
    }

    /// Resolves when the runtime has been shut down.
    async fn over(&self) {
        match &self.of.runs {
            Some(runs) => while runs.clone().changed().await.is_ok() {},
            None => pending().await,
        }
    }

    /// Watches a future that its caller drives, to take it over unless it is complete in time.
    pub(super) fn watch(&self, load: Weak<dyn Heavy>) {
        let mut watched = self.of.loads.lock();
        watched.loads.push_back((Instant::now(), load));
        if !std::mem::replace(&mut watched.running, true) {
            self.spawn(look_after(self.clone()));
        }
    }

    /// Spawns a task.
    ///
    /// In a forked child, this returns `None` and leaks the task, whose resources belong to the
    /// parent.
    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        if self.is_inherited() {
            mem::forget(task);
            return None;
        }
        Some(self.executor().spawn(task))
    }

    /// Polls a future as if it ran on this runtime, from any executor.
    ///
    /// Timers and connections of the future belong to this runtime. This avoids switching between
    /// the caller's runtime and this one.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), as soon as it fails.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let (mut future, mut over) = (pin!(future), pin!(self.over()));
        poll_fn(|context| {
            if let Err(error) = self.check() {
                return Poll::Ready(Err(error));
            }
            if over.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(shut_down()));
            }
            let polled = self.poll_within(|| future.as_mut().poll(context));
            polled.unwrap_or_else(|error| Poll::Ready(Err(error)))
        })
        .await
    }

    /// Polls once within this runtime.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), if it fails after a panic of the poll.
    pub(crate) fn poll_within<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Result<Poll<T>> {
        let poll = || {
            let _entered = self.executor().enter();
            #[cfg(feature = "_network")]
            let poll = || inline::poll(poll);
            poll()
        };
        if self.of.runs.is_none() {
            return Ok(poll());
        }
        // A timer panics if its runtime is shut down at this moment.
        catch_unwind(AssertUnwindSafe(poll)).or_else(|panic| match self.check() {
            Err(error) => Err(error),
            Ok(()) => resume_unwind(panic),
        })
    }
}

fn ended(why: &str) -> Error {
    Error::Runtime { source: io::Error::other(why).into() }
}

fn shut_down() -> Error {
    ended("the client's runtime was shut down: connect again, in a runtime that is still running")
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runtime").field(self.executor()).finish()
    }
}

/// A future that the runtime can take over.
pub(super) trait Heavy: Send + Sync {
    /// Takes the future over. Returns `false` if its caller is polling it right now.
    fn take_over(self: Arc<Self>, runtime: &Runtime) -> bool;
}

/// The futures that the callers of a runtime drive, oldest first. While there are any, one task
/// watches all of them.
#[derive(Default)]
struct Watched {
    loads: VecDeque<(Instant, Weak<dyn Heavy>)>,
    running: bool,
}

async fn look_after(runtime: Runtime) {
    loop {
        let oldest = {
            let mut watched = runtime.of.loads.lock();
            // Most futures are complete by now, and need no wake-up.
            watched.loads.retain(|(_, load)| load.strong_count() > 0);
            watched.running = !watched.loads.is_empty();
            watched.loads.front().map(|(since, _)| *since)
        };
        let Some(oldest) = oldest else { return };
        sleep_until(oldest + TRUST).await;
        let now = Instant::now();
        let due: Vec<_> = {
            let mut watched = runtime.of.loads.lock();
            let count = watched.loads.partition_point(|(since, _)| *since + TRUST <= now);
            watched.loads.drain(..count).collect()
        };
        for (_, load) in due {
            let Some(heavy) = load.upgrade() else { continue };
            if !heavy.take_over(&runtime) {
                runtime.watch(load);
            }
        }
    }
}

#[cfg(test)]
#[path = "work/tests.rs"] // also where the interleavings include this file
mod tests;
