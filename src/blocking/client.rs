//! The client.

use std::time::Duration;

use super::{AllGuard, Election, Mutex, RwLock, Semaphore, wait};
use crate::{Builder, Result};

/// A connection to a store, and the session that its locks live in:
/// [`distlock::Client`](crate::Client) for threads. Cheap to clone; all clones are one client.
///
/// It can be made of an async client, and gives it back: both are then one client.
#[derive(Clone, Debug)]
pub struct Client {
    client: crate::Client,
}

impl Client {
    /// Connects with the defaults: [`Client::builder`]`(url).connect_blocking()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-connect")?;
    /// # client.close() }
    /// ```
    pub fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect_blocking()
    }

    /// Starts to describe a client, as [`distlock::Client::builder`](crate::Client::builder) does.
    /// [`Builder::connect_blocking`] makes it.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::builder("memory://docs-blocking-builder")
    ///     .namespace("/app/locks")
    ///     .session_ttl(Duration::from_secs(15))
    ///     .connect_blocking()?;
    /// # client.close() }
    /// ```
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    /// The lock of this name: [`distlock::Client::mutex`](crate::Client::mutex).
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.client.mutex(name))
    }

    /// The read-write lock of this name: [`distlock::Client::rw_lock`](crate::Client::rw_lock).
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.client.rw_lock(name))
    }

    /// The semaphore of this name, with so many permits:
    /// [`distlock::Client::semaphore`](crate::Client::semaphore).
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.client.semaphore(name, permits))
    }

    /// The election of this name: [`distlock::Client::election`](crate::Client::election).
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.client.election(name))
    }

    /// Takes all these mutexes' locks, or none:
    /// [`distlock::Client::lock_all`](crate::Client::lock_all).
    ///
    /// # Errors
    ///
    /// As [`distlock::Client::lock_all`](crate::Client::lock_all).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-lock-all")?;
    /// let accounts = client.lock_all(["alice", "bob"])?;
    /// assert!(client.try_lock_all(["bob", "carol"])?.is_none());
    /// accounts.unlock()
    /// # }
    /// ```
    pub fn lock_all<I>(&self, names: I) -> Result<AllGuard>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        wait(self.client.lock_all(names)).map(AllGuard::new)
    }

    /// Takes all these locks if nobody holds or waits for any of them; `None` if somebody does.
    ///
    /// # Errors
    ///
    /// As [`distlock::Client::try_lock_all`](crate::Client::try_lock_all).
    pub fn try_lock_all<I>(&self, names: I) -> Result<Option<AllGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Ok(wait(self.client.try_lock_all(names))?.map(AllGuard::new))
    }

    /// The same as [`lock_all`](Self::lock_all), but for no longer than `timeout` for all of them
    /// together; `None` when the time is up.
    ///
    /// # Errors
    ///
    /// As [`distlock::Client::lock_all_timeout`](crate::Client::lock_all_timeout).
    pub fn lock_all_timeout<I>(&self, names: I, timeout: Duration) -> Result<Option<AllGuard>>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Ok(wait(self.client.lock_all_timeout(names, timeout))?.map(AllGuard::new))
    }

    /// What the server granted as the session's time to live:
    /// [`distlock::Client::session_ttl`](crate::Client::session_ttl).
    #[must_use]
    pub fn session_ttl(&self) -> Duration {
        self.client.session_ttl()
    }

    /// Releases everything and ends the session. `Ok` when the store has confirmed it.
    ///
    /// All clones are closed. Threads that wait for a lock get
    /// [`Error::Closed`](crate::Error::Closed), those that wait for a guard's loss are told.
    /// Closing twice is fine.
    ///
    /// # Errors
    ///
    /// As [`distlock::Client::close`](crate::Client::close).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let client = distlock::blocking::Client::connect("memory://docs-blocking-close")?;
    /// let guard = client.mutex("a").lock()?;
    /// client.close()?;
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub fn close(&self) -> Result<()> {
        wait(self.client.close())
    }

    /// The same client, for tasks.
    #[must_use]
    pub fn as_async(&self) -> &crate::Client {
        &self.client
    }
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self { client }
    }
}

impl From<Client> for crate::Client {
    fn from(client: Client) -> Self {
        client.client
    }
}

impl Builder {
    /// The same as [`connect`](Self::connect), for threads: blocks this one.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> distlock::Result<()> {
    /// let builder = distlock::blocking::Client::builder("memory://docs-connect-blocking");
    /// let client = builder.owner("worker-7").connect_blocking()?;
    /// # client.close() }
    /// ```
    pub fn connect_blocking(self) -> Result<Client> {
        wait(self.connect()).map(Into::into)
    }
}
