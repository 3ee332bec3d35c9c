//! The client: what a program makes once and takes its locks from.

pub(crate) mod builder;
mod multi_lock;
mod url;

use std::{sync::Arc, time::Duration};

use crate::{
    error::Result,
    primitives::{election::Election, mutex::Mutex, rwlock::RwLock, semaphore::Semaphore},
    queue::handover::Handover,
    session::{Sessions, Shared},
};

pub use builder::Builder;

/// A connection to a store, and the session that its locks live in. Cheap to clone; all clones are
/// one client.
///
/// However many locks it holds or waits for, it keeps one session alive (on ZooKeeper another one
/// for each 100 KiB of watched keys: the servers' clients cannot restore more after a reconnect).
/// It runs on a small runtime of the library's own, so that a blocked or ended runtime of the
/// caller's stops no keepalive. When its session is lost, every guard is told, and the next lock
/// opens a new session.
///
/// When the last clone, guard and waiter are gone the session is ended in the background;
/// [`close`](Self::close) does it at once and tells how it went.
#[derive(Clone, Debug)]
pub struct Client {
    sessions: Sessions,
    /// If it is on.
    handover: Option<Arc<Handover>>,
}

impl Client {
    /// Connects with the defaults: [`Client::builder`]`(url).connect()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Safe. A session whose opening was under way ends with its TTL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-connect").await?;
    /// # client.close().await }
    /// ```
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        // Nothing of the URL is left in this future while it waits: it may have a password in it.
        let builder = Self::builder(url);
        builder.connect().await
    }

    /// Starts to describe a client. The URL is `etcd://host:2379`, `zk://host:2181` (several hosts
    /// of one cluster separated by commas) or `memory://name`, a store within this process.
    pub fn builder(url: impl AsRef<str>) -> Builder {
        Builder::new(url.as_ref())
    }

    pub(crate) async fn open(shared: Shared, local_handover: Option<u32>) -> Result<Self> {
        let handover =
            local_handover.map(|max| Arc::new(Handover::new(max, shared.runtime.clone())));
        let sessions = Sessions::open(shared).await?;
        Ok(Self { sessions, handover })
    }

    /// The lock of this name. No I/O: the name is checked when it is first locked.
    ///
    /// Any non-empty string will do, of up to 255 bytes once percent-escaped (`/` too, so that no
    /// name lies inside another).
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.sessions.clone(), self.handover.clone(), name.as_ref().to_owned())
    }

    /// The read-write lock of this name. No I/O: the name is checked when it is first locked. It
    /// has nothing to do with a mutex of the same name.
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.sessions.clone(), name.as_ref().to_owned())
    }

    /// The semaphore of this name, with so many permits for all clients together: all have to name
    /// the same number. No I/O: name and number are checked at the first acquisition.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.sessions.clone(), name.as_ref().to_owned(), permits)
    }

    /// The election of this name. No I/O: the name is checked when it is first used. It has nothing
    /// to do with a mutex of the same name.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.sessions.clone(), name.as_ref().to_owned())
    }

    /// What the server granted as the session's time to live: how long a crashed holder's lock
    /// stays taken. It may differ from what the builder asked for: etcd grants whole seconds and at
    /// least one and a half election timeouts, ZooKeeper between 2 and 20 of its ticks.
    #[must_use]
    pub fn session_ttl(&self) -> Duration {
        self.sessions.ttl()
    }

    /// Releases everything and ends the session. `Ok` when the store has confirmed it.
    ///
    /// All clones are closed. Guards are told [`ClientClosed`](crate::LostReason::ClientClosed)
    /// before the store lets go of their keys; waiters and later calls get
    /// [`Error::Closed`](crate::Error::Closed).
    /// Closing again tells the same, or that it was confirmed since. A session that was lost before
    /// counts until it is ended too, or was given up after two TTLs: then its keys are left to the
    /// server's clock.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable) if the store does not confirm within the
    /// [`connect_timeout`](Builder::connect_timeout): the client is closed all the same, and its
    /// keys go when the session's TTL ends.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the closing goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-close").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// client.close().await?;
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        let closing = self.sessions.close();
        if let Some(handover) = &self.handover {
            handover.close();
        }
        closing.await
    }
}
