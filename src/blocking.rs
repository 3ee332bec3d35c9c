//! Provides blocking calls for threads that do not use `async`.
//!
//! This module needs the feature `blocking`. Threads and tasks share one API. Where a task awaits a
//! future, a thread waits for it: with [`Wait`] in scope, every future has the methods
//! [`wait`](Wait::wait) and [`wait_timeout`](Wait::wait_timeout). The thread needs no runtime,
//! because the library keeps sessions alive on its own runtime by default. Guards may be dropped on
//! any thread.
//!
//! ```
//! use std::{thread, time::Duration};
//!
//! use distlock::{Client, blocking::Wait};
//!
//! fn main() -> distlock::Result<()> {
//!     let client = Client::connect("memory://docs-blocking").wait()?;
//!     let mutex = client.mutex("nightly-report");
//!     let guard = mutex.lock().wait()?;
//!
//!     thread::scope(|scope| {
//!         let late = scope.spawn(|| mutex.lock_timeout(Duration::from_millis(20)).wait());
//!         assert!(late.join().expect("it did not panic")?.is_none());
//!         Ok::<_, distlock::Error>(())
//!     })?;
//!
//!     println!("held, with token {}", guard.fencing_token());
//!     guard.unlock().wait()?;
//!     client.close().wait()
//! }
//! ```
//!
//! [`iter`] turns a stream, such as [`QueueWatch`](crate::QueueWatch), into an iterator.
//!
//! # Limits of threads
//!
//! A future can be dropped at any time, but a waiting thread cannot be interrupted. If a wait may
//! have to end early, use a timeout, or call [`Client::close`](crate::Client::close) from another
//! thread, which ends all waits for locks with [`Error::Closed`].
//!
//! [`LockGuard::run`] stops a future when its lock is lost. A closure cannot be stopped: a closure
//! for [`LockGuard::run_blocking`] has to check [`Held::is_valid`] between its steps. The result of
//! `run_blocking` shows whether the lock was held until the end.
//!
//! # Inside an async runtime
//!
//! Waiting also works inside any async runtime, but it blocks the thread and all other tasks that
//! would run on that thread. Await the future instead, or wait inside
//! `tokio::task::spawn_blocking`. Sessions stay alive in either case, unless the client runs on the
//! blocked runtime ([`Builder::runtime`](crate::Builder::runtime)).
//!
//! A wait without a timeout never returns if it depends on work that its own thread would have to
//! do. This happens if a task on the same thread holds the lock, or if the future needs a timer of
//! a current-thread runtime.

use std::{future::Future, thread, time::Duration};

use futures_util::{Stream, StreamExt};

use crate::{
    error::{Error, Result},
    primitives::{guard::LockGuard, multi_lock::MultiLockGuard},
    runtime::{Runtime, clock::sleep},
};

/// Blocks a thread until a future is done.
///
/// Every future implements this trait, and no other type can.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use distlock::{Client, blocking::Wait};
///
/// # fn main() -> distlock::Result<()> {
/// let client = Client::builder("memory://docs-wait").owner("worker-7").connect().wait()?;
/// let guard = client.mutex("a").lock().wait()?;
/// assert_eq!(guard.lost().wait_timeout(Duration::from_millis(20)), None);
/// guard.unlock().wait()
/// # }
/// ```
pub trait Wait: Future + Sized {
    /// Blocks the thread until the future is done.
    fn wait(self) -> Self::Output {
        wait(self)
    }

    /// Blocks the thread until the future is done or `timeout` has passed.
    ///
    /// Returns `None` when the timeout expires. The future is then dropped: the section "Cancel
    /// safety" of its documentation describes the consequences. To wait for a lock, prefer
    /// [`Mutex::lock_timeout`], which also waits briefly for its key to be deleted. The future is
    /// polled at least once, unless the library's threads cannot be started: the method then
    /// returns `None` at once.
    ///
    /// [`Mutex::lock_timeout`]: crate::Mutex::lock_timeout
    fn wait_timeout(self, timeout: Duration) -> Option<Self::Output> {
        // A timer needs a runtime. If the library's runtime cannot start, there is no client, and
        // nothing of the library to wait for.
        let runtime = Runtime::own().ok()?;
        let time_out = async {
            let slept = async {
                sleep(timeout).await;
                Ok(())
            };
            // The library's own runtime is never shut down.
            drop(runtime.within(slept).await);
        };
        wait(async {
            tokio::select! {
                biased;
                output = self => Some(output),
                () = time_out => None,
            }
        })
    }
}

impl<F: Future> Wait for F {}

/// Blocks the thread until the future is done.
///
/// This is [`Wait::wait`] as a function, for example for an `async` block.
pub fn wait<F: Future>(future: F) -> F::Output {
    // tokio gives each task a budget of polls, and renews it only when the task returns to the
    // scheduler. That does not happen here, so with a budget the future could stay pending forever.
    let output = pollster::block_on(tokio::task::unconstrained(future));
    // `block_on` parks the thread, and may have consumed a wake-up meant for an outer executor on
    // this thread. Every executor must tolerate spurious wake-ups, so this extra one is harmless.
    thread::current().unpark();
    output
}

/// Turns a stream into an iterator that blocks the thread until the next item.
///
/// The iterator ends with the stream. The streams of this crate end when the client is closed.
///
/// To limit the wait for the next item, call `wait_timeout` on the stream's own `next()`. No item
/// is lost if the timeout expires.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use distlock::{Client, blocking::{self, Wait}};
///
/// # fn main() -> distlock::Result<()> {
/// let client = Client::connect("memory://docs-blocking-iter").wait()?;
/// let mutex = client.mutex("report");
/// let guard = mutex.lock().wait()?;
/// let mut queue = mutex.watch_queue()?;
/// for entries in blocking::iter(&mut queue) {
///     println!("held by {}, {} in all", entries[0].owner(), entries.len());
///     # break;
/// }
/// assert!(queue.next().wait_timeout(Duration::from_millis(20)).is_none());
/// # guard.unlock().wait() }
/// ```
pub fn iter<S: Stream + Unpin>(mut stream: S) -> impl Iterator<Item = S::Item> {
    std::iter::from_fn(move || wait(stream.next())).fuse()
}

/// Reports to the closure of [`LockGuard::run_blocking`] whether locks are held.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    guards: &'a [LockGuard],
}

impl Held<'_> {
    /// Returns `true` if the lock is held now, as far as this process knows.
    ///
    /// With several locks, all must be held. See [`LockGuard::is_valid`]. Once `false`, the result
    /// stays `false`.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Returns how long the lock stays valid if no other keepalive succeeds.
    ///
    /// With several locks, the result is the shortest of their times. See [`LockGuard::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(LockGuard::remaining).min().unwrap_or_default()
    }

    fn check(&self) -> Result<()> {
        let lost = self.guards.iter().find_map(|guard| Some((guard, guard.lost_reason()?)));
        lost.map_or(Ok(()), |(guard, reason)| Err(guard.lost_error(reason)))
    }

    fn run<T>(self, work: impl FnOnce(Self) -> T) -> Result<T> {
        self.check()?;
        let outcome = work(self);
        self.check().map(|()| outcome)
    }
}

impl LockGuard {
    /// Runs `work` on this thread, and fails if the lock was not held until its end.
    ///
    /// If the lock is already lost, `work` does not run. This method needs the feature `blocking`.
    ///
    /// Unlike the future in [`run`](Self::run), a closure is not stopped when the lock is lost. The
    /// closure runs to its end, and only then does this method return the error. Long work should
    /// check between its steps whether the lock [is still held](Held::is_valid), and return if it
    /// is not.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before `work` began or while it ran. In the second
    /// case, another client may have held the lock at the same time, and the value that `work`
    /// returned is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Client, blocking::Wait, memory::Space};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = Client::connect("memory://docs-run-blocking").wait()?;
    /// let guard = client.mutex("a").lock().wait()?;
    /// let rows = guard.run_blocking(|held| (1..=3).take_while(|_| held.is_valid()).count())?;
    /// assert_eq!(rows, 3);
    ///
    /// let outcome = guard.run_blocking(|held| {
    ///     Space::named("docs-run-blocking").delete(guard.key());
    ///     guard.lost().wait();
    ///     assert!(!held.is_valid(), "the closure still runs to its end");
    /// });
    /// assert!(outcome.is_err());
    /// # Ok(()) }
    /// ```
    pub fn run_blocking<T>(&self, work: impl FnOnce(Held<'_>) -> T) -> Result<T> {
        Held { guards: std::slice::from_ref(self) }.run(work)
    }

    /// Runs fallible `work` on this thread.
    ///
    /// This is [`run_blocking`](Self::run_blocking) with both errors in one `Result`.
    ///
    /// # Errors
    ///
    /// The error of `work`, or [`Error::Lost`] as in [`run_blocking`](Self::run_blocking),
    /// converted to the type of that error.
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::{Client, blocking::Wait};
    /// # fn main() -> distlock::Result<()> {
    /// # let client = Client::connect("memory://docs-try-run-blocking").wait()?;
    /// let guard = client.mutex("a").lock().wait()?;
    /// guard.try_run_blocking(|_held| guard.put("/app/report", "written").wait())?;
    /// guard.unlock().wait()
    /// # }
    /// ```
    pub fn try_run_blocking<T, E: From<Error>>(
        &self,
        work: impl FnOnce(Held<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_blocking(work)?
    }
}

impl MultiLockGuard {
    /// Runs `work` on this thread, and fails if not all locks were held until its end.
    ///
    /// See [`LockGuard::run_blocking`]. This method needs the feature `blocking`.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::run_blocking`].
    pub fn run_blocking<T>(&self, work: impl FnOnce(Held<'_>) -> T) -> Result<T> {
        Held { guards: self.guards() }.run(work)
    }

    /// Runs fallible `work` on this thread.
    ///
    /// This is [`run_blocking`](Self::run_blocking) with both errors in one `Result`.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::try_run_blocking`].
    pub fn try_run_blocking<T, E: From<Error>>(
        &self,
        work: impl FnOnce(Held<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run_blocking(work)?
    }
}
