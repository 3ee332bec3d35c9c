//! Several locks at once, as a client offers them.

use std::time::Duration;

use super::Client;
use crate::{
    error::{Error, Result},
    primitives::multi_lock::{AllGuard, MultiLock},
    queue::Wait,
};

impl Client {
    /// Takes all these mutexes' locks, or none: the ones that [`mutex`](Self::mutex) makes. A name
    /// that comes twice counts once.
    ///
    /// They are taken in one order, whatever the order of the names, so that callers whose names
    /// overlap never wait for each other in a circle. That goes for callers of `lock_all`; a
    /// caller that holds a lock already and then asks for others must keep to one order itself.
    ///
    /// Where all are free, up to 32 of them are taken in one request, if the store can do that and
    /// no [`local_handover`](crate::Builder::local_handover) is on. Else they are taken one after
    /// the other, each as [`Mutex::lock`](crate::Mutex::lock) does, and it holds those that it has
    /// while it waits for the next one.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] at once, also if there is no name at all. Otherwise as
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
    pub async fn lock_all<I>(&self, names: I) -> Result<AllGuard>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        // Waiting for ever ends with a guard or an error.
        self.multi_lock(names)?.take(Wait::Forever).await?.ok_or(Error::Closed)
    }

    /// Takes all these locks if nobody holds or waits for any of them; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidName`] as [`lock_all`](Self::lock_all). Otherwise as
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
    pub async fn try_lock_all<I>(&self, names: I) -> Result<Option<AllGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.multi_lock(names)?.take(Wait::No).await
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
    pub async fn lock_all_timeout<I>(&self, names: I, timeout: Duration) -> Result<Option<AllGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.multi_lock(names)?.take(Wait::at_most(timeout)).await
    }

    fn multi_lock(&self, names: impl IntoIterator<Item: AsRef<str>>) -> Result<MultiLock> {
        MultiLock::new(self.sessions.clone(), self.handover.clone(), names)
    }
}
