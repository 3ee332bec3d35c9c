//! A named read-write lock.

mod guards;
pub(super) mod rule;

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

/// A named read-write lock: many readers together, or one writer alone. Made by
/// [`Client::rw_lock`](crate::Client::rw_lock); cheap to make, to clone and to throw away.
///
/// First come, first served, readers and writers alike: a reader waits for the nearest writer
/// ahead, a writer for the nearest one ahead, so that neither starves the other. Each waiter
/// watches that one key. A reader or writer whose session ends in the queue gets an error and is
/// never let in; those behind it move up.
///
/// It has nothing to do with a [`Mutex`](crate::Mutex) of the same name. There is no reentrancy,
/// and no upgrade from reading to writing: two that tried would wait for each other.
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
/// // What was written is read by the one who wrote it, before any other writer comes.
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
    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Lets it be held for no longer than this, as [`Mutex::max_hold`](crate::Mutex::max_hold)
    /// does. A [`downgrade`](WriteGuard::downgrade) gives
    /// no more time.
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

    /// Waits until no writer is ahead, then reads beside other readers.
    ///
    /// Where nobody else is, that is one round trip; behind readers it takes a look at the queue as
    /// well.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock): nothing stays behind.
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

    /// Reads if no writer holds the lock or waits for it; `None` if one does. Then it has looked,
    /// and written nothing, unless a writer came in the same instant.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
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

    /// The same as [`read`](Self::read), but for no longer than this; `None` when the time is up.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
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

    /// Waits until nobody is ahead, then writes alone.
    ///
    /// # Errors
    ///
    /// As [`Mutex::lock`](crate::Mutex::lock).
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

    /// Writes if nobody holds the lock or waits for it; `None` if somebody does. Then it has
    /// looked, and written nothing, unless another one came in the same instant.
    ///
    /// # Errors
    ///
    /// As [`Mutex::try_lock`](crate::Mutex::try_lock).
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

    /// The same as [`write`](Self::write), but for no longer than this; `None` when the time is up.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    ///
    /// # Cancel safety
    ///
    /// As [`read`](Self::read).
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

    /// Who holds the lock and who waits for it, in that order, as of now.
    ///
    /// What it costs is told by [`Mutex::queue`](crate::Mutex::queue). Readers that
    /// stand before the first writer hold it together.
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

    /// Asks the writer or the readers to release; `false` if the lock is free.
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
