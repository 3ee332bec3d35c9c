//! A named lock.

use std::{pin::pin, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    primitives::{
        guard::LockGuard, holders::Holders, named::Named, queue_entry::QueueEntry,
        queue_watch::QueueWatch,
    },
    queue::{Wait, acquire::take},
    telemetry::Primitive,
};

/// A named lock: the right to stand in its queue. Made by
/// [`Client::mutex`](crate::Client::mutex); cheap to make, to clone and to throw away.
///
/// A `Mutex` holds nothing by itself, so two of the same name exclude each other wherever they are:
/// in one task, in one process or on two machines. Locking twice in one task waits for oneself,
/// unless a holder is named: [`reentrant`](Self::reentrant).
#[derive(Clone, Debug)]
pub struct Mutex {
    pub(crate) named: Named,
    /// Those who may take it again, of this client.
    pub(crate) holders: Arc<Holders>,
}

impl Mutex {
    /// Limits how long the lock is held, counted from when the granted request was sent, or from
    /// the grant of a caller that waited.
    ///
    /// After that time the guard is invalid ([`LostReason::HeldTooLong`](crate::LostReason)), even
    /// if the program's runtime hangs. Then the client's own task deletes the key, and the next
    /// waiter is granted. Work that hangs may still resume, so let its writes carry the fencing
    /// token, or write through the guard. With [`Builder::runtime`](crate::Builder::runtime) the
    /// key is deleted once that runtime runs the task.
    ///
    /// Zero and more than 365 days are refused with
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when a lock is taken, before
    /// anything is sent.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{future::pending, time::Duration};
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-max-hold-mutex").await?;
    /// let mutex = client.mutex("report").max_hold(Duration::from_millis(20));
    /// let guard = mutex.lock().await?;
    /// let hangs = guard.run(pending::<()>()).await;
    /// assert_eq!(hangs.unwrap_err().reason, LostReason::HeldTooLong);
    /// mutex.lock().await?.unlock().await?; // though the first guard is still there
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.named.max_hold = Some(time);
        self
    }

    /// The name as it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Waits for its turn, first come first served, however long that takes.
    ///
    /// An uncontended lock costs one round trip. A waiter behind another process watches the one
    /// key ahead of its own, one behind a caller of this client needs no watch; it sends nothing
    /// while it waits, except for a look every
    /// [`recheck_interval`](crate::Builder::recheck_interval).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] at once. [`Error::SessionLost`] if the session ends while
    /// waiting, because its server says so or because none has answered for a TTL: the place in the
    /// queue is lost, lock again. [`Error::Evicted`] if somebody deletes the waiter's key.
    /// [`Error::Unavailable`] if a new session was needed and could not be opened within the
    /// [`connect_timeout`](crate::Builder::connect_timeout). [`Error::Denied`], [`Error::Backend`]
    /// and [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. What it wrote is deleted by the session
    /// in the background, so nothing stays behind in the store and the next waiter moves up.
    /// Dropped before its first poll, it has sent nothing.
    ///
    /// A future that is kept but not polled blocks the lock for every client. Once it has joined
    /// the queue, it keeps its place but cannot be granted, and every client behind it waits. Its
    /// session is renewed, so no TTL ends the wait. This happens in a `select!` on `&mut future`
    /// whose other arm awaits something long. Drop the future there, or spawn it as a task.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock").await?;
    /// let guard = client.mutex("nightly-report").lock().await?;
    /// assert!(guard.is_valid());
    /// guard.unlock().await?;
    /// # Ok(()) }
    /// ```
    pub async fn lock(&self) -> Result<LockGuard> {
        // Waiting for ever ends with a guard or an error.
        self.acquire(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Takes the lock if nobody holds it or waits for it; `None` if somebody does.
    ///
    /// The call does not wait while the lock is held, with one exception. On PostgreSQL, MySQL,
    /// MariaDB and Redis a client does not know at once that a holder is dead, or that a server has
    /// kept all locks through a failover. The call then waits for at most 1.15 TTL until it knows.
    ///
    /// It leaves nothing behind. A busy lock costs one request on etcd and three on ZooKeeper (a
    /// look, and another one at the newest state: a server that lags behind may take a lock for
    /// busy that was just released). None of them writes, unless another client joins in the same
    /// instant.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock); [`Error::Unavailable`] if the store does not answer within about
    /// twice the [`request_timeout`](crate::Builder::request_timeout). [`Error::NotYet`] if it is
    /// still unknown after 1.15 TTL whether the lock is free, because the session of a dead holder
    /// had a longer TTL than this client's.
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-lock").await?;
    /// let mutex = client.mutex("leader");
    /// let guard = mutex.try_lock().await?.expect("nobody else is here");
    /// assert!(mutex.try_lock().await?.is_none());
    /// # guard.unlock().await }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<LockGuard>> {
        self.acquire(Wait::No).await
    }

    /// Waits for its turn, but no longer than `timeout`; `None` when the time is up.
    ///
    /// The timeout covers all of it, also the opening of a new session. A timeout of zero is a
    /// [`try_lock`](Self::try_lock).
    ///
    /// On PostgreSQL, MySQL, MariaDB and Redis a process that has just started acquires the lock of
    /// a dead holder after 1.1 TTL. With a shorter timeout it never acquires that lock.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock). When the time is up the key is deleted just as if the future had
    /// been dropped; the call waits at most 100 ms for that.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::{pin::pin, sync::Arc, time::Duration};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-timeout").await?;
    /// let mutex = client.mutex("table-7");
    /// let guard = mutex.lock().await?;
    /// assert!(mutex.lock_timeout(Duration::from_millis(20)).await?.is_none());
    /// # guard.unlock().await }
    /// ```
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        self.acquire(Wait::at_most(timeout)).await
    }

    /// Who holds the lock and who waits for it, in that order, as of now. Waiters of other
    /// libraries are among them, if they stand in the same queue.
    ///
    /// It asks the store for its newest state: one request on etcd, and one for each key, besides a
    /// few, on ZooKeeper.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] at once. [`Error::Unavailable`] if the store does not answer
    /// within about twice the [`request_timeout`](crate::Builder::request_timeout), or if a new
    /// session was needed and could not be opened. [`Error::Denied`], [`Error::Backend`],
    /// [`Error::SessionLost`] and [`Error::Closed`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let builder = distlock::Client::builder("memory://docs-queue").owner("worker-7");
    /// let client = builder.connect().await?;
    /// let mutex = client.mutex("report");
    /// assert!(mutex.queue().await?.is_empty());
    /// let guard = mutex.lock().await?;
    /// for entry in mutex.queue().await? {
    ///     println!("{}. {} since {:?}", entry.position(), entry.owner(), entry.since());
    /// }
    /// let holder = mutex.holder().await?.expect("it is held");
    /// assert_eq!((holder.owner(), holder.fencing_token()), ("worker-7", guard.fencing_token()));
    /// # guard.unlock().await }
    /// ```
    pub async fn queue(&self) -> Result<Vec<QueueEntry>> {
        self.named.entries().await
    }

    /// Who holds the lock; `None` if nobody does. The first one of the [`queue`](Self::queue).
    ///
    /// # Errors
    ///
    /// As [`queue`](Self::queue).
    ///
    /// # Cancel safety
    ///
    /// As [`queue`](Self::queue).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-holder").await?;
    /// let mutex = client.mutex("report");
    /// assert!(mutex.holder().await?.is_none());
    /// let guard = mutex.lock().await?;
    /// let holder = mutex.holder().await?.expect("it is held");
    /// assert_eq!(holder.fencing_token(), guard.fencing_token());
    /// # guard.unlock().await }
    /// ```
    pub async fn holder(&self) -> Result<Option<QueueEntry>> {
        Ok(self.queue().await?.into_iter().next())
    }

    /// The [`queue`](Self::queue) as it is now, and again whenever it has changed: for a waiter
    /// that shows how far it has come.
    ///
    /// It gets over lost connections and sessions. Each change costs a look, so many watchers of a
    /// long queue cost a lot.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`]. The stream itself never fails: it continues when the store
    /// replies again, and [`QueueWatch::cut_off_for`] returns how long it has been cut off.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::pin::pin;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-watch-queue").await?;
    /// let mutex = client.mutex("report");
    /// let (mut queue, mut locking) = (mutex.watch_queue()?, pin!(mutex.lock()));
    /// let guard = loop {
    ///     tokio::select! {
    ///         guard = &mut locking => break guard?,
    ///         Some(entries) = queue.next() => {
    ///             if let Some(own) = entries.iter().find(|entry| entry.is_own()) {
    ///                 println!("{} ahead", own.position());
    ///             }
    ///         }
    ///     }
    /// };
    /// # guard.unlock().await }
    /// ```
    pub fn watch_queue(&self) -> Result<QueueWatch> {
        self.named.watch()
    }

    /// Asks the holder of the lock to let go, and says why (in at most 1,000 bytes); `false` if
    /// nobody holds it. Nothing is taken by force: a holder hears it that awaits
    /// [`LockGuard::release_requested`], and does as it likes.
    ///
    /// The request is a key of this client's, which stands until that holder's key is gone, the
    /// session ends, or ten minutes are over; so long it keeps the client's session open, even if
    /// the client is dropped. The next holder does not hear it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] at once if the reason is too long; otherwise as
    /// [`queue`](Self::queue).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the request.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-request-release").await?;
    /// let mutex = client.mutex("batch");
    /// assert!(!mutex.request_release("nobody is there").await?);
    ///
    /// let guard = mutex.lock().await?;
    /// assert!(mutex.request_release("a deployment is due").await?);
    /// assert_eq!(guard.release_requested().await.reason(), "a deployment is due");
    /// guard.unlock().await
    /// # }
    /// ```
    pub async fn request_release(&self, reason: impl AsRef<str>) -> Result<bool> {
        self.named.request_release(reason.as_ref()).await
    }

    /// Locks, runs `work` while the lock is held, and unlocks.
    ///
    /// An unconfirmed release is no error here. It continues in the background, as after
    /// [`LockGuard::unlock`]. [`try_run`](Self::try_run) is for work that returns a `Result`.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). [`Error::Lost`] if the lock was lost before it was unlocked: `work`
    /// has been dropped, as by [`LockGuard::run`], unless it was done by then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and releases the lock in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-mutex-run").await?;
    /// let report = client.mutex("nightly-report");
    /// let token = report.run(async |guard| guard.fencing_token()).await?;
    /// assert!(token.as_u64() > 0);
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T> {
        let guard = self.lock().await?;
        let done = guard.run(work(&guard)).await;
        guard.end_with(done).await
    }

    /// Locks, runs fallible `work` and unlocks.
    ///
    /// It is [`run`](Self::run) in one `Result`. The lock is also unlocked if `work` fails.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run`](Self::run), converted.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-mutex-try-run").await?;
    /// let report = client.mutex("nightly-report");
    /// report.try_run(async |guard| guard.put("/app/report", "written").await).await
    /// # }
    /// ```
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(work).await?
    }

    pub(crate) async fn acquire(&self, wait: Wait) -> Result<Option<LockGuard>> {
        let limit = self.named.limit()?;
        let (queue, sessions) = (self.named.queue()?, &self.named.sessions);
        let taking = pin!(wait.bounds(sessions, || take(sessions, &queue, wait)));
        self.named.take(Primitive::Mutex, limit, wait, taking).await
    }
}
