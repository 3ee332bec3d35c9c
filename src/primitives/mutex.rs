//! A named lock.

use std::{pin::pin, sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    primitives::{
        closure, guard::LockGuard, holders::Holders, named::Named, queue_entry::QueueEntry,
        queue_watch::QueueWatch,
    },
    queue::{Wait, acquire::take},
    telemetry::Primitive,
};

/// Provides a named lock that has one holder at a time.
///
/// Created by [`Client::mutex`](crate::Client::mutex). A `Mutex` is cheap to create, clone and
/// drop.
///
/// A `Mutex` holds nothing by itself. Two mutexes with the same name and namespace on one store
/// exclude each other: in one task, in one process or on two machines. A task that locks the same
/// name twice waits for itself, unless it uses [`reentrant`](Self::reentrant).
#[derive(Clone, Debug)]
pub struct Mutex {
    pub(crate) named: Named,
    /// The reentrant holds of this client.
    pub(crate) holders: Arc<Holders>,
}

impl Mutex {
    /// Limits how long the lock is held.
    ///
    /// The time starts when the request that acquires the lock is sent. For a caller that waited in
    /// the queue, the time starts at the grant.
    ///
    /// After that time the guard is invalid ([`LostReason::HeldTooLong`](crate::LostReason)), even
    /// if the program's runtime hangs. The client's own task then deletes the key, and the next
    /// waiter is granted the lock. With [`Builder::runtime`](crate::Builder::runtime) the key is
    /// deleted once that runtime runs the task. Work that hangs may still resume, so let its writes
    /// carry the fencing token, or write through the guard.
    ///
    /// A time of zero or of more than 365 days is invalid. The calls that acquire the lock then
    /// return [`Error::InvalidArgument`](crate::Error::InvalidArgument) before they send anything.
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
    /// mutex.lock().await?.unlock().await?; // while the first guard still exists
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.named.max_hold = Some(time);
        self
    }

    /// Returns the lock's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.named.name
    }

    /// Acquires the lock, and waits for the grant without a time limit.
    ///
    /// Waiters are granted the lock in the order in which they joined the queue. Redlock has no
    /// queue, so it grants the lock in no particular order.
    ///
    /// An uncontended lock usually costs one round trip. A waiter is notified when the entry ahead
    /// ends, and also rechecks its place after each
    /// [`recheck_interval`](crate::Builder::recheck_interval). These stores poll instead:
    ///
    /// - On MySQL and MariaDB, and on PostgreSQL behind a transaction pooler, each client polls for
    ///   all of its waiters.
    /// - On SQLite, one thread polls for all clients of the process that use the same path.
    /// - On Redlock, each waiter polls.
    /// - On ZooKeeper, a waiter polls about every second if its session has no room for the watch.
    /// - On Redis with a bridge, the first waiter may poll the key of the other libraries.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if an argument is invalid, before anything is sent.
    /// [`Error::SessionLost`] if the session ends during the wait, for example because no server
    /// has replied for about one TTL. The place in the queue is lost with the session; lock again.
    /// [`Error::Evicted`] if an operator evicts the waiter. [`Error::Unavailable`] if a new session
    /// was needed and could not be opened within the
    /// [`connect_timeout`](crate::Builder::connect_timeout), or if the program's own pool lends no
    /// connection in time. [`Error::Denied`], [`Error::Backend`], [`Error::Closed`] and
    /// [`Error::Runtime`]. On Redis, also [`Error::NotYet`] while a version 1 client has a session.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. The client deletes the future's key in
    /// the background, and the next waiter moves up. A future that is dropped before its first poll
    /// has sent nothing.
    ///
    /// A future that is kept but not polled can block the lock for all other clients. Its session
    /// is still renewed, so no TTL ends their wait. A `select!` that polls `&mut future` has this
    /// effect if its other arm takes a long time. Drop the future before that arm runs, or spawn it
    /// as a task.
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
        // `Wait::Forever` ends with a guard or an error.
        self.acquire(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Acquires the lock if it is free and has no waiters; `None` otherwise.
    ///
    /// The call does not wait while the lock is held, with one exception. After a holder crashes,
    /// or after one of the events that [`QueueEntry`] lists, PostgreSQL, MySQL, MariaDB and Redis
    /// may not show at once whether the lock is free. The call then waits for up to 1.15 times the
    /// client's TTL.
    ///
    /// A call that returns `None` keeps no place in the queue. For a busy lock, the call sends one
    /// request on etcd, and three on ZooKeeper.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). [`Error::Unavailable`] if the store does not reply within about
    /// twice the [`request_timeout`](crate::Builder::request_timeout). [`Error::NotYet`] if it is
    /// still unknown after 1.15 TTL whether the lock is free. Possible causes are a lost
    /// connection, a change of the server's clock, and an earlier session with a longer TTL than
    /// this client's.
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
    /// let guard = mutex.try_lock().await?.expect("it is free");
    /// assert!(mutex.try_lock().await?.is_none());
    /// # guard.unlock().await }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<LockGuard>> {
        self.acquire(Wait::No).await
    }

    /// Acquires the lock if it is granted within `timeout`; `None` otherwise.
    ///
    /// The timeout includes the time to open a new session. A timeout of zero is equivalent to
    /// [`try_lock`](Self::try_lock).
    ///
    /// On PostgreSQL, MySQL, MariaDB and Redis, a client that has just connected may need 1.1 times
    /// the holder's TTL to confirm that the holder is dead. A call with a shorter timeout then
    /// returns `None`.
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). With a timeout of zero, as [`try_lock`](Self::try_lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock`](Self::lock). When the time is up, the key is deleted as if the future had been
    /// dropped. The call waits at most 100 ms for this deletion.
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

    /// Returns the holder and the waiters, in queue order.
    ///
    /// The list includes clients of other libraries that use the same queue. The call reads the
    /// newest state of the store. On etcd, the read takes one request. On ZooKeeper, it takes one
    /// request for each key, and a few more.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if an argument is invalid, before anything is sent.
    /// [`Error::Unavailable`] if the store does not reply within about twice the
    /// [`request_timeout`](crate::Builder::request_timeout), or if a new session was needed and
    /// could not be opened. [`Error::Unsupported`] on Redlock. [`Error::Denied`],
    /// [`Error::Backend`], [`Error::SessionLost`], [`Error::Closed`] and [`Error::Runtime`]. On
    /// Redis, also [`Error::NotYet`] while version 1 clients have sessions.
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
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

    /// Returns the holder; `None` if the lock is free.
    ///
    /// The entry may belong to no client: see [`QueueEntry`].
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
        self.named.holder().await
    }

    /// Returns a stream of the queue: its current state, then later ones.
    ///
    /// A waiter can use this stream to show its progress. The stream survives lost connections and
    /// sessions, and skips states that were replaced before it read the queue. Many watchers of a
    /// long queue are expensive, because each reads the whole queue after every change.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::Unsupported`], as for [`queue`](Self::queue). The
    /// stream itself yields no errors. While the store does not reply,
    /// [`QueueWatch::cut_off_for`] returns how long the stream has been cut off.
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

    /// Asks the holder to release the lock; `false` if the lock is free.
    ///
    /// The reason may be at most 1,000 bytes long. A request never takes the lock by force: a
    /// holder that awaits [`LockGuard::release_requested`] receives the request and decides whether
    /// to release the lock.
    ///
    /// The request is stored as a key that belongs to this client. This key is deleted when the
    /// holder's key is deleted, when the client's session ends, or after ten minutes. Until then,
    /// the request keeps the client's session open, even if the client is dropped. The next holder
    /// does not receive the request.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the reason is too long, before anything is sent. Otherwise as
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
    /// assert!(!mutex.request_release("it is free").await?);
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

    /// Acquires the lock, runs `work` while it is held, and unlocks.
    ///
    /// An unconfirmed release is not an error here: the release continues in the background, as
    /// after [`LockGuard::unlock`]. For work that returns a `Result`, see
    /// [`try_run`](Self::try_run).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). [`Error::Lost`] if the lock was lost before it was unlocked. If
    /// `work` was still running, it was dropped, as in [`LockGuard::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the lock in the background.
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
        closure::run(self.lock().await?, work).await
    }

    /// Acquires the lock, runs fallible `work` while it is held, and unlocks.
    ///
    /// This method works like [`run`](Self::run), but returns a single `Result`. The method also
    /// unlocks if `work` fails.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run`](Self::run), converted to `E`.
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
