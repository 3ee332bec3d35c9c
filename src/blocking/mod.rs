//! The same without `async`, for threads. Feature `blocking`.
//!
//! It needs no runtime: the library has its own, where sessions are kept alive, and a call blocks
//! its thread until that has done the work. Each type is named as its counterpart at the crate's
//! root, which its `as_async` gives where there is one, and behaves like it; what is said there
//! holds here. Guards may be dropped on any thread.
//!
//! ```
//! use std::{thread, time::Duration};
//!
//! use distlock::blocking::Client;
//!
//! fn main() -> distlock::Result<()> {
//!     let client = Client::connect("memory://docs-blocking")?;
//!     let mutex = client.mutex("nightly-report");
//!     let guard = mutex.lock()?;
//!
//!     thread::scope(|scope| {
//!         let late = scope.spawn(|| mutex.lock_timeout(Duration::from_millis(20)));
//!         assert!(late.join().expect("it did not panic")?.is_none());
//!         distlock::Result::Ok(())
//!     })?;
//!
//!     println!("held, with token {}", guard.fencing_token());
//!     guard.unlock()?;
//!     client.close()
//! }
//! ```
//!
//! # What a thread cannot do
//!
//! A future can be dropped, a thread that waits cannot be interrupted: what may have to end early
//! takes a timeout, or a [`Client::close`] from another thread, which ends all waiting with
//! [`Error::Closed`](crate::Error::Closed). And work that is under way on a thread cannot be
//! stopped when its lock is lost: it has to ask ([`LockGuard::is_valid`],
//! [`LockGuard::remaining`]), have another thread wait for [`LockGuard::lost`], or see afterwards
//! what [`LockGuard::run`] says.
//!
//! # Within an async runtime
//!
//! Calls work there too, but they block the thread, and whatever else was to run on it: use the
//! async types, or `tokio::task::spawn_blocking`. As the library's runtime is its own, sessions
//! stay alive even so; but tasks on one thread that block for a lock which another of them holds
//! wait for ever.

mod client;
mod election;
mod guard;
mod many;
mod mutex;
mod rwlock;
mod semaphore;
mod view;

use std::{future::Future, thread, time::Duration};

use tokio::time::timeout;

use crate::runtime;

pub use client::Client;
pub use election::{Election, Leadership, Observe};
pub use guard::LockGuard;
pub use many::AllGuard;
pub use mutex::Mutex;
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Permit, Semaphore};
pub use view::QueueWatch;

/// Blocks the thread until the future is done.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    // Within a task of tokio's, polls are rationed, and the ration is renewed only when the task
    // returns to its scheduler, which does not happen here: the future would be told to come back
    // for ever.
    let outcome = pollster::block_on(tokio::task::unconstrained(future));
    // It parks the thread, and may have been woken by what was meant for an executor further out on
    // this thread. One of those bears being woken for nothing.
    thread::current().unpark();
    outcome
}

/// The same, but for no longer than this; `None` when the time is up.
fn wait_at_most<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    // There is one: who waits has a client.
    let runtime = runtime::handle().ok()?;
    wait(runtime::within(runtime, async { timeout(time, future).await.ok() }))
}
