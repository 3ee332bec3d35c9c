//! For threads: waiting without `async`. Feature `blocking`.
//!
//! There is one API for tasks and threads. What a task awaits, a thread waits for: with [`Wait`] in
//! scope, every future has the methods [`wait`](Wait::wait) and
//! [`wait_timeout`](Wait::wait_timeout). No runtime is needed: the library has its own, where
//! sessions are kept alive. Guards may be dropped on any thread.
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
//! [`iter`] makes an iterator of a stream: of [`QueueWatch`](crate::QueueWatch), say.
//!
//! # What a thread cannot do
//!
//! A future can be dropped at any time; a thread that waits cannot be interrupted. What may have to
//! end early takes a timeout, or a [`Client::close`](crate::Client::close) from another thread,
//! which ends all waiting with [`Error::Closed`].
//!
//! [`LockGuard::run`] stops a future when its lock is lost. Nothing stops a closure: under
//! [`LockGuard::run_blocking`] it has to ask [`Held::is_valid`] between its steps, and the result
//! tells whether the lock was held to the end.
//!
//! # Within an async runtime
//!
//! Waiting works there too, on every kind of runtime, but it blocks the thread, and with it
//! whatever else was to run on that thread: await the future, or wait within
//! `tokio::task::spawn_blocking`. Sessions stay alive all the same, as the library's runtime is its
//! own. But tasks on one thread that wait for a lock which another of them holds wait for ever; and
//! so does one that waits for what its own thread would have to do, such as a timer of a
//! current-thread runtime.

use std::{future::Future, thread, time::Duration};

use futures_util::{Stream, StreamExt};

use crate::{
    error::{Error, Result},
    primitives::{guard::LockGuard, multi_lock::MultiLockGuard},
    runtime::{Runtime, clock::sleep},
};

/// Waiting for a future on a thread. Every future has it, and nothing else can.
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

    /// Blocks the thread until the future is done, but for no longer than `timeout`; `None` when
    /// the time is up.
    ///
    /// The future is polled at least once, and dropped when the time is up: what that means stands
    /// under "Cancel safety" in its docs. To wait for a lock, [`Mutex::lock_timeout`] is better,
    /// which also waits a moment until the store has confirmed that nothing stays behind.
    ///
    /// [`Mutex::lock_timeout`]: crate::Mutex::lock_timeout
    fn wait_timeout(self, timeout: Duration) -> Option<Self::Output> {
        // A timer belongs to a runtime. If the library's cannot be started there is no client, and
        // nothing of the library's to wait for.
        let runtime = Runtime::own().ok()?;
        let time_out = async {
            let slept = async {
                sleep(timeout).await;
                Ok(())
            };
            // It is never shut down.
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

/// Blocks the thread until the future is done: [`Wait::wait`] as a function, for an `async` block,
/// say.
pub fn wait<F: Future>(future: F) -> F::Output {
    // Within a task of tokio's, polls are rationed, and the ration is renewed only when the task
    // returns to its scheduler, which does not happen here: the future would be told to come back
    // for ever.
    let output = pollster::block_on(tokio::task::unconstrained(future));
    // It parks the thread, and may have been woken by what was meant for an executor further out on
    // this thread. Every executor has to bear being woken for nothing.
    thread::current().unpark();
    output
}

/// The items of a stream, one after the other: an iterator that blocks the thread until there is
/// another one. It ends with the stream; those of this crate end when the client is closed.
///
/// To wait for the next item for a limited time, wait for the stream's own `next()`: nothing is
/// missed if the time is up.
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

/// What the closure in [`LockGuard::run_blocking`] asks whether to go on.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    guards: &'a [LockGuard],
}

impl Held<'_> {
    /// Whether the lock is held at this instant, or all of the locks are, as
    /// [`LockGuard::is_valid`] has it. Once false, it stays false.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How long the lock is certain to stay held, or all of the locks are, if nothing more is heard
    /// of the store: [`LockGuard::remaining`].
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
    /// On a lock that is lost already, `work` does not run at all. Feature `blocking`.
    ///
    /// Unlike the future in [`run`](Self::run), a closure is not stopped when the lock is lost: it
    /// runs to its end, and only then that is told. So long work asks between its steps whether the
    /// lock [is still held](Held::is_valid), and returns if it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock was lost before `work` began, or while it ran: then another one
    /// may have held the lock at the same time, and what `work` returned is dropped.
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
    ///     assert!(!held.is_valid(), "and yet the closure runs to its end");
    /// });
    /// assert!(outcome.is_err());
    /// # Ok(()) }
    /// ```
    pub fn run_blocking<T>(&self, work: impl FnOnce(Held<'_>) -> T) -> Result<T> {
        Held { guards: std::slice::from_ref(self) }.run(work)
    }

    /// Runs fallible `work` on this thread.
    ///
    /// It is [`run_blocking`](Self::run_blocking) in one `Result`.
    ///
    /// # Errors
    ///
    /// The error of `work`, or [`Error::Lost`] as in [`run_blocking`](Self::run_blocking),
    /// converted.
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
    /// See [`LockGuard::run_blocking`]. Feature `blocking`.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::run_blocking`].
    pub fn run_blocking<T>(&self, work: impl FnOnce(Held<'_>) -> T) -> Result<T> {
        Held { guards: self.guards() }.run(work)
    }

    /// Runs fallible `work` on this thread.
    ///
    /// It is [`run_blocking`](Self::run_blocking) in one `Result`.
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
