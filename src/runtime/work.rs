//! What a client's work is done by, and who looks after what its callers carry.

use std::{
    collections::VecDeque,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

#[cfg(any(feature = "etcd", feature = "zookeeper"))]
use super::inline;
use super::{
    clock::{Instant, sleep_until},
    executor::{AbortHandle, Executor, LANES},
    mutex::Mutex,
};
use crate::error::Error;

/// How long a caller is trusted with what others may need.
pub(super) const TRUST: Duration = Duration::from_millis(50);

/// What a client's work is done by. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Runtime {
    of: Arc<(Executor, Loads)>,
}

impl Runtime {
    /// The library's own, for a client that is given no other: one of several, in turn.
    pub(crate) fn of_a_client() -> Result<Self, Error> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Self::own_in(NEXT.fetch_add(1, Ordering::Relaxed) % LANES)
    }

    /// The library's own, for what is no client's.
    #[cfg(any(feature = "blocking", test))]
    pub(crate) fn own() -> Result<Self, Error> {
        Self::own_in(0)
    }

    fn own_in(lane: usize) -> Result<Self, Error> {
        static OWN: [OnceLock<Runtime>; LANES] = [const { OnceLock::new() }; LANES];
        if let Some(own) = OWN[lane].get() {
            return Ok(own.clone());
        }
        let own = Self::of(Executor::own(lane)?);
        Ok(OWN[lane].get_or_init(|| own).clone())
    }

    pub(crate) fn of(executor: Executor) -> Self {
        Self { of: Arc::new((executor, Loads::default())) }
    }

    fn executor(&self) -> &Executor {
        &self.of.0
    }

    /// Has a load looked after that its caller carries.
    pub(super) fn watch(&self, load: Weak<dyn Heavy>) {
        let mut watched = self.of.1.0.lock();
        watched.loads.push_back((Instant::now(), load));
        if !std::mem::replace(&mut watched.running, true) {
            self.spawn(look_after(self.clone()));
        }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.executor().spawn(task)
    }

    /// Polls a future as if it ran on this runtime, from any executor: its timers and connections
    /// are the library's. That saves the way from one runtime to the other and back.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|context| self.poll_within(|| future.as_mut().poll(context))).await
    }

    /// One poll.
    pub(crate) fn poll_within<T>(&self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
        let _entered = self.executor().enter();
        #[cfg(any(feature = "etcd", feature = "zookeeper"))]
        let poll = || inline::poll(poll);
        poll()
    }
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
struct Loads(Mutex<Watched>);

#[derive(Default)]
struct Watched {
    loads: VecDeque<(Instant, Weak<dyn Heavy>)>,
    running: bool,
}

async fn look_after(runtime: Runtime) {
    loop {
        let oldest = {
            let mut watched = runtime.of.1.0.lock();
            // Almost all are done by now, and nobody wakes up for them.
            watched.loads.retain(|(_, load)| load.strong_count() > 0);
            watched.running = !watched.loads.is_empty();
            watched.loads.front().map(|(since, _)| *since)
        };
        let Some(oldest) = oldest else { return };
        sleep_until(oldest + TRUST).await;
        let now = Instant::now();
        let due: Vec<_> = {
            let mut watched = runtime.of.1.0.lock();
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
