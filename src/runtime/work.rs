//! What a client's work is done by, and who looks after what its callers carry.

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

/// How long a caller is trusted with what others may need.
pub(super) const TRUST: Duration = Duration::from_millis(50);

/// How many runtimes the library has. Clients are dealt out to them, so that a process with
/// thousands of clients can use more than one processor for them.
const LANES: usize = 2;

/// What a client's work is done by. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Runtime {
    of: Arc<Of>,
}

struct Of {
    executor: Executor,
    loads: Mutex<Watched>,
    process: Process,
    /// For a runtime that the program may shut down: the other end is dropped then.
    runs: Option<watch::Receiver<()>>,
}

impl Runtime {
    /// The library's own, for a client that is given no other: one of several, in turn.
    pub(crate) fn of_a_client() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self::own_in(NEXT.fetch_add(1, Ordering::Relaxed) % LANES)
    }

    /// The library's own, for what is no client's.
    #[cfg(any(feature = "blocking", test))]
    pub(crate) fn own() -> Result<Self> {
        Self::own_in(0)
    }

    /// Each is made on its first use. A forked child makes its own: it has none of its parent's
    /// threads.
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

    /// Of an executor that lives as long as the process.
    pub(crate) fn of(executor: Executor) -> Self {
        Self::new(executor, None)
    }

    /// Of an executor that the program may end.
    pub(crate) fn of_the_program(executor: Executor) -> Self {
        let (running, runs) = watch::channel(());
        // It ends with this runtime, or is dropped with the executor.
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

    /// Whether it is of the process that this one was forked from.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.of.process.is_current()
    }

    /// Whether work can be done by it.
    ///
    /// # Errors
    ///
    /// [`Error::Runtime`] if it was shut down, or was left behind by a fork.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_inherited() {
            return Err(ended("this client was made before a fork: connect again in the child"));
        }
        match &self.of.runs {
            // Nothing is ever sent.
            Some(runs) if runs.has_changed().is_err() => Err(shut_down()),
            _ => Ok(()),
        }
    }

    /// Resolves when it was shut down.
    async fn over(&self) {
        match &self.of.runs {
            Some(runs) => while runs.clone().changed().await.is_ok() {},
            None => pending().await,
        }
    }

    /// Has a load looked after that its caller carries.
    pub(super) fn watch(&self, load: Weak<dyn Heavy>) {
        let mut watched = self.of.loads.lock();
        watched.loads.push_back((Instant::now(), load));
        if !std::mem::replace(&mut watched.running, true) {
            self.spawn(look_after(self.clone()));
        }
    }

    /// `None`: it is another process's, and so is what the task has. It is not dropped.
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

    /// Polls a future as if it ran on this runtime, from any executor: its timers and connections
    /// are the library's. That saves the way from one runtime to the other and back.
    ///
    /// # Errors
    ///
    /// Those of [`check`](Self::check), as soon as there is one.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        let (mut future, mut over) = (pin!(future), pin!(self.over()));
        poll_fn(|context| {
            if let Err(error) = self.check() {
                return Poll::Ready(Err(error));
            }
            if over.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(shut_down()));
            }
            let mut poll = || self.poll_within(|| future.as_mut().poll(context));
            if self.of.runs.is_none() {
                return poll();
            }
            // A timer panics if its runtime is shut down at this moment.
            catch_unwind(AssertUnwindSafe(&mut poll)).unwrap_or_else(|panic| match self.check() {
                Err(error) => Poll::Ready(Err(error)),
                Ok(()) => resume_unwind(panic),
            })
        })
        .await
    }

    /// One poll.
    pub(crate) fn poll_within<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
        let _entered = self.executor().enter();
        #[cfg(feature = "_network")]
        let poll = || inline::poll(poll);
        poll()
    }
}

fn ended(why: &str) -> Error {
    Error::Runtime { source: io::Error::other(why).into() }
}

fn shut_down() -> Error {
    ended("the runtime of `Builder::runtime` was shut down: connect again with a new runtime")
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runtime").field(self.executor()).finish()
    }
}

/// What can be taken over.
pub(super) trait Heavy: Send + Sync {
    /// `false`: it is being polled, so its caller does carry it.
    fn take_over(self: Arc<Self>, runtime: &Runtime) -> bool;
}

/// What the callers of a runtime carry, the oldest first. One task looks after all of it, while
/// there is any.
#[derive(Default)]
struct Watched {
    loads: VecDeque<(Instant, Weak<dyn Heavy>)>,
    running: bool,
}

async fn look_after(runtime: Runtime) {
    loop {
        let oldest = {
            let mut watched = runtime.of.loads.lock();
            // Almost all are done by now, and nobody wakes up for them.
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
mod tests;
