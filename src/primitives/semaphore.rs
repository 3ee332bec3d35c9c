//! A named counting semaphore.
//!
//! A semaphore is two queues. Every client first joins the *gate*, the queue of a mutex. The first
//! client at the gate also joins the queue of the *permits*, which contains the holders and at most
//! this one waiter. So only one waiter watches the permits, and a change there wakes no other
//! waiter. Once it is granted, it opens the gate for the next one.

pub(super) mod limit;
mod number;
mod permit;
mod run;

use std::{pin::pin, time::Duration};

use crate::{
    backend::name::Queue,
    error::{Error, Result},
    primitives::{named::Named, queue_entry::QueueEntry, queue_watch::QueueWatch},
    queue::{self, Wait, acquire::Acquire, mode::Mode, snapshot},
    runtime::clock::Instant,
    telemetry::Primitive,
};

use limit::Limited;
pub use permit::Permit;

/// The maximum number of permits of a semaphore.
const MAX: u32 = 1_000_000;

/// Provides a named semaphore: a number of permits for all clients together.
///
/// Created by [`Client::semaphore`](crate::Client::semaphore). A `Semaphore` is cheap to create,
/// clone and drop.
///
/// Waiters are granted permits in the order in which they joined the queue, including waiters that
/// request several permits at once. A permit is a [`LockGuard`](crate::LockGuard). The permits of a
/// crashed holder are free once its session has expired.
///
/// All clients should pass the same number of permits. During a rollout that changes the number,
/// the smallest number that was passed by a holder or by the first waiter applies to all of them.
/// [`set_permits`](Self::set_permits) overrides this: the store keeps the new number, which also
/// applies to clients that still pass a replaced number.
///
/// Redlock and clients with a [bridge](crate::Client::builder) do not support semaphores
/// ([`Error::Unsupported`]).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::connect("memory://docs-semaphore").await?;
/// let connections = client.semaphore("db-connections", 3);
/// let one = connections.acquire().await?;
/// let two = connections.acquire_many(2).await?;
/// assert!(connections.try_acquire().await?.is_none());
/// two.release().await?;
/// assert!(connections.try_acquire().await?.is_some());
/// one.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    pub(crate) named: Named,
    pub(crate) permits: u32,
}

impl Semaphore {
    /// Returns the semaphore's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Limits how long a permit is held.
    ///
    /// See [`Mutex::max_hold`](crate::Mutex::max_hold).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-max-hold-semaphore").await?;
    /// let jobs = client.semaphore("jobs", 1).max_hold(Duration::from_millis(20));
    /// let permit = jobs.acquire().await?;
    /// assert_eq!(permit.lost().await, LostReason::HeldTooLong);
    /// jobs.acquire().await?.release().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.named.max_hold = Some(time);
        self
    }

    /// Waits until a permit is free, and acquires it.
    ///
    /// An uncontended permit usually costs two round trips. If other permits are held, or
    /// [`set_permits`](Self::set_permits) has set the number, the call also reads the queue.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.acquire().await?;
    /// assert!(permit.is_valid());
    /// permit.release().await
    /// # }
    /// ```
    pub async fn acquire(&self) -> Result<Permit> {
        self.acquire_many(1).await
    }

    /// Waits until several permits are free, and acquires them together.
    ///
    /// While the call waits, no later waiter acquires a permit.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the call asks for no permits or for more than the semaphore
    /// has, or if the semaphore has no permits or more than 1,000,000. [`Error::Unsupported`] on
    /// Redlock and with a bridge. Otherwise as [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire-many").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.acquire_many(2).await?;
    /// assert_eq!(permit.permits(), 2);
    /// assert!(connections.try_acquire_many(2).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn acquire_many(&self, permits: u32) -> Result<Permit> {
        self.get(permits, Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Acquires a permit if one is free and no client waits; `None` otherwise.
    ///
    /// If another client is acquiring a permit, the call may wait for that client, for up to one
    /// [`request_timeout`](crate::Builder::request_timeout). After a crash or a failover, the call
    /// may also wait up to 1.15 TTL, as [`Mutex::try_lock`](crate::Mutex::try_lock) does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::Unsupported`] as for
    /// [`acquire_many`](Self::acquire_many). Otherwise as
    /// [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-acquire").await?;
    /// let connections = client.semaphore("db-connections", 1);
    /// let permit = connections.try_acquire().await?.expect("it is free");
    /// assert!(connections.try_acquire().await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        self.try_acquire_many(1).await
    }

    /// Acquires several permits if that many are free and no client waits; `None` otherwise.
    ///
    /// This method works like [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-acquire-many").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.try_acquire_many(2).await?.expect("they are free");
    /// assert!(connections.try_acquire_many(2).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Permit>> {
        self.get(permits, Wait::No).await
    }

    /// Acquires a permit if one is granted within `timeout`; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many). With a timeout of zero, as
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire-timeout").await?;
    /// let connections = client.semaphore("db-connections", 1);
    /// let permit = connections.acquire().await?;
    /// assert!(connections.acquire_timeout(Duration::from_millis(20)).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit>> {
        self.acquire_many_timeout(1, timeout).await
    }

    /// Acquires several permits if they are granted within `timeout`; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many). With a timeout of zero, as
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-acquire-many-timeout").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let permit = connections.acquire_many(2).await?;
    /// let timeout = Duration::from_millis(20);
    /// assert!(connections.acquire_many_timeout(2, timeout).await?.is_none());
    /// # permit.release().await }
    /// ```
    pub async fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<Permit>> {
        self.get(permits, Wait::at_most(timeout)).await
    }

    /// Returns the holders and the waiters, in queue order.
    ///
    /// For the cost, see [`Mutex::queue`](crate::Mutex::queue). The call reads two queues, one
    /// after the other, so a client that has just acquired its permits may be listed twice.
    ///
    /// # Errors
    ///
    /// As [`Mutex::queue`](crate::Mutex::queue). With a bridge, also [`Error::Unsupported`].
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-semaphore-queue").await?;
    /// let jobs = client.semaphore("jobs", 3);
    /// let permit = jobs.acquire().await?;
    /// let entries = jobs.queue().await?;
    /// assert!(entries[0].is_holder());
    /// # Ok(()) }
    /// ```
    pub async fn queue(&self) -> Result<Vec<QueueEntry>> {
        self.named.entries().await
    }

    /// Returns a stream of the queue: its current state, then later ones.
    ///
    /// For the cost, see [`Mutex::watch_queue`](crate::Mutex::watch_queue).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::Unsupported`], as for [`queue`](Self::queue). The
    /// stream itself yields no errors. While the store does not reply,
    /// [`QueueWatch::cut_off_for`] returns how long the stream has been cut off.
    pub fn watch_queue(&self) -> Result<QueueWatch> {
        self.named.watch()
    }

    /// Asks the holders of permits to release them; `false` if there are no holders.
    ///
    /// The call writes one request for each holder. Otherwise, it works like
    /// [`Mutex::request_release`](crate::Mutex::request_release).
    ///
    /// # Errors
    ///
    /// As [`Mutex::request_release`](crate::Mutex::request_release). With a bridge, also
    /// [`Error::Unsupported`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the request that is being written. Requests that were already
    /// stored for other holders remain stored.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-request-release-permit").await?;
    /// let semaphore = client.semaphore("db", 5);
    /// assert!(!semaphore.request_release("it is free").await?);
    ///
    /// let guard = semaphore.acquire().await?;
    /// assert!(semaphore.request_release("a deployment is due").await?);
    /// assert_eq!(guard.release_requested().await.reason(), "a deployment is due");
    /// guard.release().await
    /// # }
    /// ```
    pub async fn request_release(&self, reason: impl AsRef<str>) -> Result<bool> {
        self.named.request_release(reason.as_ref()).await
    }

    fn permit_queue(&self) -> Result<Queue> {
        Ok(self.named.queue()?.permits())
    }

    fn check(&self, permits: u32) -> Result<()> {
        let invalid = |reason: &str| {
            Error::invalid("permits", format!("semaphore {:?}: {reason}", self.named.name))
        };
        match (permits, self.permits) {
            (0, _) | (_, 0) => Err(invalid("must be at least 1")),
            (wanted, named) if wanted.max(named) > MAX => Err(invalid("must be at most 1,000,000")),
            _ => Ok(()),
        }
    }

    async fn get(&self, permits: u32, wait: Wait) -> Result<Option<Permit>> {
        self.check(permits)?;
        let limit = self.named.limit()?;
        let queue = self.permit_queue()?.labelled(&format!("{permits}of{}", self.permits));
        let taking = pin!(wait.bounds(&self.named.sessions, || self.pass(&queue, permits, wait)));
        let taken = self.named.take(Primitive::Semaphore, limit, wait, taking).await?;
        Ok(taken.map(|guard| Permit { guard, permits }))
    }

    async fn pass(&self, queue: &Queue, permits: u32, wait: Wait) -> Result<Option<queue::Hold>> {
        let (name, sessions) = (&*self.named.name, &self.named.sessions);
        let rule = Limited { name, named: self.permits, wanted: permits };
        let mut patience = wait;
        if (wait.is_a_try() || permits > self.permits)
            && !snapshot::may_join(sessions, queue, &rule, wait).await?
        {
            return Ok(None);
        }
        if wait.is_a_try() {
            // No client waits for permits, so any client at the gate is about to pass it.
            patience = Wait::Until(Instant::now() + sessions.shared().request_timeout);
        }
        let gate = self.named.queue()?.gate();
        let gate = Acquire::new(&gate, patience).from(sessions).await?;
        let Some(gate) = gate else { return Ok(None) };
        let taking = Acquire { mode: Mode::Shared(&rule), ..Acquire::new(queue, wait) };
        // An operator may evict the client by its key at the gate, from an older listing.
        let taken = tokio::select! {
            biased;
            taken = taking.from(sessions) => taken,
            _ = gate.own.lost() => Err(Error::Evicted { name: (*self.named.name).to_owned() }),
        };
        // The gate is released in the background: the caller need not wait for that.
        drop(gate);
        taken
    }
}
