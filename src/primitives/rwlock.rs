//! A named read-write lock.

mod guards;
pub(super) mod rule;
mod run;

use std::{pin::pin, time::Duration};

use crate::{
    error::{Error, Result},
    primitives::{
        guard::LockGuard, named::Named, queue_entry::QueueEntry, queue_watch::QueueWatch,
    },
    queue::{
        Wait,
        acquire::Acquire,
        mode::{Mode, Rule},
    },
    telemetry::Primitive,
};

use rule::{READER, Reader, WRITER, Writer};

pub use guards::{ReadGuard, WriteGuard};

/// Provides a named read-write lock: many readers together, or one writer alone.
///
/// Created by [`Client::rw_lock`](crate::Client::rw_lock). An `RwLock` is cheap to create, clone
/// and drop.
///
/// Readers and writers share one queue, first come, first served, so neither starves the other. A
/// reader waits for the writers ahead. A writer waits for all readers and writers ahead.
///
/// The lock is independent of a [`Mutex`](crate::Mutex) of the same name, and is not reentrant. A
/// reader cannot upgrade to a writer, because two readers that tried would wait for each other.
///
/// Redlock and clients with a [bridge](crate::Client::builder) do not support read-write locks
/// ([`Error::Unsupported`]).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = distlock::Client::connect("memory://docs-rw-lock").await?;
/// let config = client.rw_lock("config");
/// let (one, two) = (config.read().await?, config.read().await?);
/// assert!(config.try_write().await?.is_none());
/// one.unlock().await?;
/// two.unlock().await?;
///
/// let writer = config.write().await?;
/// // The writer reads its own data before another writer can change it.
/// let reader = writer.downgrade().await?;
/// assert!(config.try_read().await?.is_some());
/// reader.unlock().await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RwLock {
    pub(crate) named: Named,
}

impl RwLock {
    /// Returns the lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Limits how long the lock is held.
    ///
    /// See [`Mutex::max_hold`](crate::Mutex::max_hold). A [`downgrade`](WriteGuard::downgrade) does
    /// not extend the time.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-max-hold-rw-lock").await?;
    /// let config = client.rw_lock("config").max_hold(Duration::from_millis(20));
    /// let writer = config.write().await?;
    /// assert_eq!(writer.lost().await, LostReason::HeldTooLong);
    /// config.read().await?.unlock().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.named.max_hold = Some(time);
        self
    }

    /// Acquires a read lock, and waits for the writers ahead.
    ///
    /// Other readers may hold the lock at the same time. An uncontended read lock usually costs one
    /// round trip. Behind other readers, the call also reads the queue.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock). [`Error::Unsupported`] on Redlock and with a bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-read").await?;
    /// let config = client.rw_lock("config");
    /// let one = config.read().await?;
    /// let two = config.read().await?;
    /// assert!(one.is_valid() && two.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn read(&self) -> Result<ReadGuard> {
        self.acquire(READER, Wait::Forever).await?.map(ReadGuard).ok_or(Error::Closed)
    }

    /// Acquires a read lock if no writer holds or awaits the lock; `None` otherwise.
    ///
    /// [`Mutex::try_lock`](crate::Mutex::try_lock) documents when the call waits.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock). [`Error::Unsupported`] on Redlock and with a
    /// bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-read").await?;
    /// let config = client.rw_lock("config");
    /// let writer = config.write().await?;
    /// assert!(config.try_read().await?.is_none());
    /// # writer.unlock().await }
    /// ```
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        Ok(self.acquire(READER, Wait::No).await?.map(ReadGuard))
    }

    /// Acquires a read lock if it is granted within `timeout`; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock_timeout`](crate::Mutex::lock_timeout). [`Error::Unsupported`] on Redlock
    /// and with a bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock_timeout`](crate::Mutex::lock_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-read-timeout").await?;
    /// let config = client.rw_lock("config");
    /// let writer = config.write().await?;
    /// assert!(config.read_timeout(Duration::from_millis(20)).await?.is_none());
    /// # writer.unlock().await }
    /// ```
    pub async fn read_timeout(&self, timeout: Duration) -> Result<Option<ReadGuard>> {
        Ok(self.acquire(READER, Wait::at_most(timeout)).await?.map(ReadGuard))
    }

    /// Acquires the write lock, and waits for all readers and writers ahead.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock). [`Error::Unsupported`] on Redlock and with a bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-rw-write").await?;
    /// let config = client.rw_lock("config");
    /// let writer = config.write().await?;
    /// assert!(config.try_read().await?.is_none());
    /// writer.unlock().await
    /// # }
    /// ```
    pub async fn write(&self) -> Result<WriteGuard> {
        self.acquire(WRITER, Wait::Forever).await?.map(WriteGuard).ok_or(Error::Closed)
    }

    /// Acquires the write lock if it is free and has no waiters; `None` otherwise.
    ///
    /// [`Mutex::try_lock`](crate::Mutex::try_lock) documents when the call waits.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock). [`Error::Unsupported`] on Redlock and with a
    /// bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-write").await?;
    /// let config = client.rw_lock("config");
    /// let reader = config.read().await?;
    /// assert!(config.try_write().await?.is_none());
    /// # reader.unlock().await }
    /// ```
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        Ok(self.acquire(WRITER, Wait::No).await?.map(WriteGuard))
    }

    /// Acquires the write lock if it is granted within `timeout`; `None` otherwise.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock_timeout`](crate::Mutex::lock_timeout). [`Error::Unsupported`] on Redlock
    /// and with a bridge.
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock_timeout`](crate::Mutex::lock_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-write-timeout").await?;
    /// let config = client.rw_lock("config");
    /// let reader = config.read().await?;
    /// assert!(config.write_timeout(Duration::from_millis(20)).await?.is_none());
    /// # reader.unlock().await }
    /// ```
    pub async fn write_timeout(&self, timeout: Duration) -> Result<Option<WriteGuard>> {
        Ok(self.acquire(WRITER, Wait::at_most(timeout)).await?.map(WriteGuard))
    }

    /// Returns the holders and the waiters, in queue order.
    ///
    /// For the cost, see [`Mutex::queue`](crate::Mutex::queue). All readers ahead of the first
    /// writer hold the lock together.
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
    /// let client = distlock::Client::connect("memory://docs-rw-lock-queue").await?;
    /// let config = client.rw_lock("config");
    /// let reader = config.read().await?;
    /// let entries = config.queue().await?;
    /// assert!(entries.len() == 1 && entries[0].is_holder());
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

    /// Asks the writer or the readers to release the lock; `false` if it is free.
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
    /// let client = distlock::Client::connect("memory://docs-request-release-rw").await?;
    /// let config = client.rw_lock("config");
    /// assert!(!config.request_release("it is free").await?);
    ///
    /// let guard = config.read().await?;
    /// assert!(config.request_release("a deployment is due").await?);
    /// assert_eq!(guard.release_requested().await.reason(), "a deployment is due");
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn request_release(&self, reason: impl AsRef<str>) -> Result<bool> {
        self.named.request_release(reason.as_ref()).await
    }

    async fn acquire(&self, label: &'static str, wait: Wait) -> Result<Option<LockGuard>> {
        let limit = self.named.limit()?;
        let queue = self.named.queue()?.of("rw").labelled(label);
        let (rule, primitive) = match label {
            READER => (&Reader as &dyn Rule, Primitive::Reader),
            _ => (&Writer as &dyn Rule, Primitive::Writer),
        };
        let sessions = &self.named.sessions;
        let acquire = || Acquire { mode: Mode::Shared(rule), ..Acquire::new(&queue, wait) };
        let taking = pin!(wait.bounds(sessions, || acquire().from(sessions)));
        self.named.take(primitive, limit, wait, taking).await
    }
}
