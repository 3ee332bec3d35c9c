//! Acquiring several locks together.

use std::time::Duration;

use super::Client;
use crate::{
    error::{Error, Result},
    primitives::{
        closure,
        max_hold::checked,
        multi_lock::{MultiLockGuard, Several},
    },
    queue::Wait,
    session::Sessions,
};

impl Client {
    /// Acquires all of these mutexes, or none of them.
    ///
    /// The locks are the mutexes that [`mutex`](Self::mutex) returns for these names. Duplicate
    /// names count once.
    ///
    /// All callers of `lock_all` acquire locks in the same order, whatever the order of the names,
    /// so they never deadlock with each other. The order is that of the bytes of the
    /// percent-escaped names. A caller that already holds another lock can still deadlock, unless
    /// all callers acquire that lock and these in one fixed order.
    ///
    /// If there are at most 32 locks and all of them are free, one request acquires them on stores
    /// that support this. Otherwise, the locks are acquired one by one, each as with
    /// [`Mutex::lock`](crate::Mutex::lock). While the call waits for a lock, it holds the locks
    /// that it has already acquired.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if an argument is invalid or there are no names, before anything
    /// is sent. [`Error::Unsupported`] on Redlock. Otherwise as
    /// [`Mutex::lock`](crate::Mutex::lock). If an acquired lock is lost while the call waits for
    /// the next one, the call fails as if it had lost its place in the queue. After an error, the
    /// acquired locks are released in the background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the acquired locks and gives up the place in the queue, both in
    /// the background. A future that was never polled has sent no request.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-all").await?;
    /// let accounts = client.lock_all(["alice", "bob"]).await?;
    /// let token = accounts.get("alice").expect("it is one of the two").fencing_token();
    /// # let _ = token;
    /// accounts.unlock().await
    /// # }
    /// ```
    pub async fn lock_all<I>(&self, names: I) -> Result<MultiLockGuard>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.multi_lock(names).lock().await
    }

    /// Acquires all of these mutexes if none of them has a holder or a waiter.
    ///
    /// Returns `None` if any of them has a holder or a waiter.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::Unsupported`] as in [`lock_all`](Self::lock_all).
    /// Otherwise as [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all). If a lock is not free, the locks that were acquired before
    /// it are released. The call waits at most 100 ms for their release.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-try-lock-all").await?;
    /// let bob = client.mutex("bob").lock().await?;
    /// assert!(client.try_lock_all(["alice", "bob"]).await?.is_none());
    /// # bob.unlock().await }
    /// ```
    pub async fn try_lock_all<I>(&self, names: I) -> Result<Option<MultiLockGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.multi_lock(names).try_lock().await
    }

    /// Waits up to the given duration to acquire all of these mutexes.
    ///
    /// The timeout covers all locks together. When the timeout expires, the call returns `None`. A
    /// timeout of zero is equivalent to [`try_lock_all`](Self::try_lock_all).
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all). With a timeout of zero, as
    /// [`try_lock_all`](Self::try_lock_all).
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all). When the timeout expires, the acquired locks are released
    /// as if the future had been dropped. The call waits at most 100 ms for their release.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-all-timeout").await?;
    /// let bob = client.mutex("bob").lock().await?;
    /// let timeout = Duration::from_millis(20);
    /// assert!(client.lock_all_timeout(["alice", "bob"], timeout).await?.is_none());
    /// # bob.unlock().await }
    /// ```
    pub async fn lock_all_timeout<I>(
        &self,
        names: I,
        timeout: Duration,
    ) -> Result<Option<MultiLockGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.multi_lock(names).lock_timeout(timeout).await
    }

    /// Returns a [`MultiLock`] for these names, without I/O.
    ///
    /// The locks of a [`MultiLock`] are acquired together: see [`lock_all`](Self::lock_all).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-multi-lock").await?;
    /// let accounts = client.multi_lock(["alice", "bob"]).max_hold(Duration::from_secs(30));
    /// accounts.lock().await?.unlock().await
    /// # }
    /// ```
    #[must_use]
    pub fn multi_lock(&self, names: impl IntoIterator<Item: AsRef<str>>) -> MultiLock {
        let names = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        MultiLock { sessions: self.sessions.clone(), names, max_hold: None }
    }
}

/// Acquires several locks together: all of them, or none.
///
/// Created by [`Client::multi_lock`]. A `MultiLock` is cheap to create, clone and drop.
#[derive(Clone, Debug)]
pub struct MultiLock {
    sessions: Sessions,
    names: Vec<String>,
    max_hold: Option<Duration>,
}

impl MultiLock {
    /// Limits how long the locks are held, starting with the last grant.
    ///
    /// See [`Mutex::max_hold`](crate::Mutex::max_hold).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use distlock::LostReason;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-max-hold-all").await?;
    /// let accounts = client.multi_lock(["alice", "bob"]).max_hold(Duration::from_millis(20));
    /// let all = accounts.lock().await?;
    /// assert_eq!(all.lost().await.1, LostReason::HeldTooLong);
    /// accounts.lock().await?.unlock().await
    /// # }
    /// ```
    #[must_use]
    pub fn max_hold(mut self, time: Duration) -> Self {
        self.max_hold = Some(time);
        self
    }

    /// Waits for all of the locks.
    ///
    /// See [`Client::lock_all`].
    ///
    /// # Errors
    ///
    /// As [`Client::lock_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::lock_all`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-multi-lock-lock").await?;
    /// let all = client.multi_lock(["alice", "bob"]).lock().await?;
    /// assert!(all.is_valid());
    /// # all.unlock().await }
    /// ```
    pub async fn lock(&self) -> Result<MultiLockGuard> {
        // A wait without a timeout ends with a guard or an error.
        self.several()?.take(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Acquires the locks if none of them has a holder or a waiter.
    ///
    /// See [`Client::try_lock_all`].
    ///
    /// # Errors
    ///
    /// As [`Client::try_lock_all`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::lock_all`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-multi-lock-try").await?;
    /// let accounts = client.multi_lock(["alice", "bob"]);
    /// let all = accounts.try_lock().await?.expect("they are free");
    /// assert!(accounts.try_lock().await?.is_none());
    /// # all.unlock().await }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<MultiLockGuard>> {
        self.several()?.take(Wait::No).await
    }

    /// Waits up to the given duration for all of the locks.
    ///
    /// See [`Client::lock_all_timeout`].
    ///
    /// # Errors
    ///
    /// As [`Client::lock_all_timeout`].
    ///
    /// # Cancel safety
    ///
    /// As [`Client::lock_all_timeout`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-multi-lock-timeout").await?;
    /// let accounts = client.multi_lock(["alice", "bob"]);
    /// let all = accounts.lock().await?;
    /// assert!(accounts.lock_timeout(Duration::from_millis(20)).await?.is_none());
    /// # all.unlock().await }
    /// ```
    pub async fn lock_timeout(&self, timeout: Duration) -> Result<Option<MultiLockGuard>> {
        self.several()?.take(Wait::at_most(timeout)).await
    }

    /// Acquires all of the locks, runs `work` while they are held, and releases them.
    ///
    /// An unconfirmed release is not an error here: the client retries the release in the
    /// background, as after [`MultiLockGuard::unlock`]. For work that returns a `Result`, see
    /// [`try_run`](Self::try_run).
    ///
    /// # Errors
    ///
    /// As [`lock`](Self::lock). [`Error::Lost`] if one of the locks was lost before it was
    /// released. If `work` was still running, it was dropped, as with
    /// [`MultiLockGuard::run`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the locks in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-multi-lock-run").await?;
    /// let accounts = client.multi_lock(["alice", "bob"]);
    /// let held = accounts.run(async |all| all.guards().len()).await?;
    /// assert_eq!(held, 2);
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&MultiLockGuard) -> T) -> Result<T> {
        closure::run(self.lock().await?, work).await
    }

    /// Acquires all of the locks, runs fallible `work` while they are held, and releases them.
    ///
    /// This method works like [`run`](Self::run), but returns a single `Result`. The locks are also
    /// released if `work` fails.
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
    /// let client = distlock::Client::connect("memory://docs-multi-lock-try-run").await?;
    /// let accounts = client.multi_lock(["alice", "bob"]);
    /// accounts.try_run(async |all| all.put("/bank/last-transfer", "alice to bob").await).await
    /// # }
    /// ```
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&MultiLockGuard) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(work).await?
    }

    fn several(&self) -> Result<Several> {
        Several::new(self.sessions.clone(), &self.names, checked(self.max_hold)?)
    }
}
