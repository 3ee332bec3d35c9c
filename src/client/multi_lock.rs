//! Several locks at once, as a client offers them.

use std::time::Duration;

use super::Client;
use crate::{
    error::{Error, Result},
    primitives::{
        max_hold::checked,
        multi_lock::{MultiLockGuard, Several},
    },
    queue::Wait,
    session::Sessions,
};

impl Client {
    /// Takes all these mutexes' locks, or none: the ones that [`mutex`](Self::mutex) makes. A name
    /// that comes twice counts once.
    ///
    /// They are taken in one order, whatever the order of the names, so that callers whose names
    /// overlap never wait for each other in a circle. That goes for callers of `lock_all`; a
    /// caller that holds a lock already and then asks for others must keep to one order itself.
    ///
    /// Where all are free, up to 32 of them are taken in one request, if the store can do that.
    /// Else they are taken one after the other, each as [`Mutex::lock`](crate::Mutex::lock) does,
    /// and it holds those that it has while it waits for the next one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] at once, also if there is no name at all. Otherwise as
    /// [`Mutex::lock`](crate::Mutex::lock), where losing a lock that was taken while others are
    /// waited for is like losing a place in a queue. Nothing is held then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up what was taken, and the place in the queue, in the background.
    /// Dropped before its first poll, it has sent nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-lock-all").await?;
    /// let accounts = client.lock_all(["alice", "bob"]).await?;
    /// let token = accounts.get("alice").expect("it was asked for").fencing_token();
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

    /// Takes all these locks if nobody holds or waits for any of them; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] as [`lock_all`](Self::lock_all). Otherwise as
    /// [`Mutex::try_lock`](crate::Mutex::try_lock).
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all). Where a lock is not free, those that were taken before are
    /// released; the call waits at most 100 ms for that.
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

    /// The same as [`lock_all`](Self::lock_all), but for no longer than `timeout` for all of them
    /// together; `None` when the time is up. A timeout of zero is a
    /// [`try_lock_all`](Self::try_lock_all).
    ///
    /// # Errors
    ///
    /// As [`lock_all`](Self::lock_all).
    ///
    /// # Cancel safety
    ///
    /// As [`lock_all`](Self::lock_all). When the time is up, what was taken is released just as if
    /// the future had been dropped; the call waits at most 100 ms for that.
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

    /// Returns several locks to be acquired together, without I/O: see
    /// [`lock_all`](Self::lock_all).
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

/// Several locks that are acquired together: all of them, or none.
///
/// Created by [`Client::multi_lock`]. Cheap to create, clone and drop.
#[derive(Clone, Debug)]
pub struct MultiLock {
    sessions: Sessions,
    names: Vec<String>,
    max_hold: Option<Duration>,
}

impl MultiLock {
    /// Limits how long the locks are held, counted from the grant of the last one: see
    /// [`Mutex::max_hold`](crate::Mutex::max_hold).
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

    /// Waits for all of the locks: see [`Client::lock_all`].
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
        // Waiting for ever ends with a guard or an error.
        self.several()?.take(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Acquires the locks if all of them are free: see [`Client::try_lock_all`].
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

    /// Waits up to the given duration for all of the locks: see [`Client::lock_all_timeout`].
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

    fn several(&self) -> Result<Several> {
        Several::new(self.sessions.clone(), &self.names, checked(self.max_hold)?)
    }
}
