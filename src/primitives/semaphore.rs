//! A named counting semaphore.
//!
//! It is two queues. One is a mutex's, the *gate*: those who wait stand in it, first come, first
//! served, and only the first one of them goes on to the other, the *permits*, where those stand
//! who have some, and at most that one more. So however many wait, one of them has an eye on the
//! permits, and what happens there wakes nobody else; when it is in, it opens the gate for the
//! next.

pub(super) mod limit;
mod number;
mod permit;

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

/// The most permits a semaphore may have.
const MAX: u32 = 1_000_000;

/// A named semaphore: so many permits for all clients together. Made by
/// [`Client::semaphore`](crate::Client::semaphore); cheap to make, to clone and to throw away.
///
/// First come, first served, also for those who want several at once: nobody passes them by. One
/// permit that is given back wakes at most one waiter, however many there are. A permit has what a
/// [`LockGuard`](crate::LockGuard) has: a deadline, a fencing token, word of its loss; the permits
/// of a crashed holder come back with its session's TTL.
///
/// All clients should name the same number of permits. While one number is replaced by another,
/// build by build, the smaller one counts for all as long as anybody is there who names it.
/// [`set_permits`](Self::set_permits) ends that: the store keeps the number that was set, and it
/// counts for those, too, who name one that it has replaced.
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
    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Lets it be held for no longer than this, as [`Mutex::max_hold`](crate::Mutex::max_hold)
    /// does.
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

    /// Waits for a permit.
    ///
    /// Where nobody else is, that is two round trips.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock): nothing stays behind.
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

    /// Waits for so many permits at once. Until they are there, nobody who came later gets any.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for none, or for more than there are. Otherwise as
    /// [`Mutex::lock`](crate::Mutex::lock).
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

    /// Takes a permit if there is one for which nobody waits; `None` otherwise. Then it has looked,
    /// and written nothing, unless another one came in the same instant.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many); [`Error::Unavailable`] if the store does not
    /// answer.
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

    /// The same as [`try_acquire`](Self::try_acquire), for several.
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

    /// The same as [`acquire`](Self::acquire), but for no longer than this; `None` when the time is
    /// up.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
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

    /// The same as [`acquire_many`](Self::acquire_many), but for no longer than this; `None` when
    /// the time is up.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
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

    /// Who holds permits and who waits for it, in that order, as of now.
    ///
    /// What it costs is told by [`Mutex::queue`](crate::Mutex::queue). It looks at two queues, one
    /// after the other: one that has just got its permits may be there twice.
    ///
    /// # Errors
    ///
    /// As [`Mutex::queue`](crate::Mutex::queue).
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
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

    /// The [`queue`](Self::queue) as it is now, and again whenever it has changed: as
    /// [`Mutex::watch_queue`](crate::Mutex::watch_queue).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`]. The stream itself never fails: it continues when the store
    /// replies again, and [`QueueWatch::cut_off_for`] returns how long it has been cut off.
    pub fn watch_queue(&self) -> Result<QueueWatch> {
        self.named.watch()
    }

    /// Asks the holders of permits to release; `false` if there are none.
    ///
    /// The reason has at most 1,000 bytes. Each holder gets a request, which is one write each. As
    /// [`Mutex::request_release`](crate::Mutex::request_release), it never takes a lock by force: a
    /// holder that awaits [`release_requested`](crate::LockGuard::release_requested) decides
    /// itself.
    ///
    /// # Errors
    ///
    /// As [`Mutex::request_release`](crate::Mutex::request_release).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the request; holders that have one already keep it.
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
        Ok(self.named.queue()?.of("permits"))
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
        if wait.is_a_try() || permits > self.permits {
            match snapshot::has_room(sessions, queue, &rule).await {
                Ok(true) => {}
                // One that waits need not be let in now, nor know.
                Ok(false) | Err(Error::NotYet { .. }) if !wait.is_a_try() => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        if wait.is_a_try() {
            // Nobody waits for permits, so the one at the gate is about to pass it.
            patience = Wait::Until(Instant::now() + sessions.shared().request_timeout);
        }
        let gate = self.named.queue()?.of("gate");
        let gate = Acquire { passing: true, ..Acquire::new(&gate, patience) };
        let Some(gate) = gate.from(sessions).await? else { return Ok(None) };
        let taking = Acquire { mode: Mode::Shared(&rule), ..Acquire::new(queue, wait) };
        let taken = taking.from(sessions).await;
        // Let go of in the background: the caller need not wait for that.
        drop(gate);
        taken
    }
}
