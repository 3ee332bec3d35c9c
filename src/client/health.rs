//! The state of a client's session.

use std::time::Duration;

use super::Client;
use crate::{backend::durability::Durability, error::Result};

/// Reports the state of a client's session: [`Client::health`](crate::Client::health).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The store has confirmed the session, and the deadline has not passed.
    #[non_exhaustive]
    Confirmed {
        /// How long the session stays confirmed without another keepalive.
        ///
        /// If the client has several sessions on ZooKeeper, this is the longest of their times. For
        /// the time of one lock, see [`LockGuard::remaining`](crate::LockGuard::remaining).
        remaining: Duration,
    },
    /// No lock is held, and the last keepalive is too old.
    ///
    /// The next call that acquires a lock confirms the session again, or opens a new one. On
    /// ZooKeeper, this is the usual state of a client that has neither held nor awaited a lock for
    /// some time: only pings then renew its session, and they do not confirm it.
    Stale,
    /// No session has been opened yet.
    ///
    /// After [`connect_lazy`](crate::Builder::connect_lazy), the first call that needs a session
    /// opens one.
    NotOpened,
    /// The session has ended, and its locks are lost.
    ///
    /// The next call that acquires a lock opens a new session. In a forked child, and after the
    /// client's runtime was shut down, that call fails with
    /// [`Error::Runtime`](crate::Error::Runtime).
    Lost,
    /// The client was closed.
    Closed,
}

impl Client {
    /// Returns the session's state without I/O.
    ///
    /// A readiness probe can use this method: a process whose session is [`Lost`](Health::Lost)
    /// should accept no work that needs a lock. A liveness probe should fail only on
    /// [`Closed`](Health::Closed). A restart does not repair the connection to the store, but gives
    /// up the locks.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// # use distlock::Health;
    /// let client = distlock::Client::connect("memory://docs-health").await?;
    /// assert!(matches!(client.health(), Health::Confirmed { .. }));
    /// client.close().await?;
    /// assert_eq!(client.health(), Health::Closed);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn health(&self) -> Health {
        if self.is_closed() {
            return Health::Closed;
        }
        match self.sessions.remaining() {
            Some(remaining) if !remaining.is_zero() => Health::Confirmed { remaining },
            Some(_) => Health::Stale,
            None if !self.sessions.is_opened() => Health::NotOpened,
            None => Health::Lost,
        }
    }

    /// Confirms the session with the store, and returns how long that took.
    ///
    /// The request is one write on ZooKeeper and one keepalive on the other stores. If there is no
    /// session, the call opens one. On ZooKeeper, after a pause of the process or a slow opening of
    /// the session, the call first waits until a write proves enough again, for up to 3/8 of the
    /// TTL. The returned time and the time limit of the call do not include this wait.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable) if no server replies within about twice
    /// the [`request_timeout`](crate::Builder::request_timeout), or if a new session was needed and
    /// could not be opened within the [`connect_timeout`](crate::Builder::connect_timeout).
    /// [`Error::SessionLost`](crate::Error::SessionLost) if the session has ended.
    /// [`Error::Denied`](crate::Error::Denied), [`Error::Backend`](crate::Error::Backend),
    /// [`Error::Closed`](crate::Error::Closed) and [`Error::Runtime`](crate::Error::Runtime). On
    /// Redis, also [`Error::NotYet`](crate::Error::NotYet) while a version 1 client has a session.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-ping").await?;
    /// println!("the store replied within {:?}", client.ping().await?);
    /// # Ok(()) }
    /// ```
    pub async fn ping(&self) -> Result<Duration> {
        let runtime = &self.sessions.shared().runtime;
        runtime.within(self.sessions.ping()).await
    }

    /// Queries what the store promises with its current settings.
    ///
    /// The result reports whether locks stay exclusive when servers fail, and what happens when a
    /// server is lost. A service can call this method at startup and log the result.
    ///
    /// The result is based on the store's own information: etcd's list of members, ZooKeeper's
    /// `/zookeeper/config`, and the settings and replicas that PostgreSQL, MySQL and Redis report.
    /// On Redlock, the result names the nodes that do not count for the moment. On Redis, a setting
    /// that the client's user may not read counts as unsafe. On PostgreSQL, without the rights of
    /// `pg_read_all_stats`, backups in progress and `pg_receivewal` count as standbys. The result
    /// does not cover faulty hardware, such as a disk that confirms a write too early.
    ///
    /// # Errors
    ///
    /// As [`ping`](Self::ping). [`Error::Denied`](crate::Error::Denied) if the client's user may
    /// not read the required information.
    ///
    /// # Cancel safety
    ///
    /// Safe: the call only reads.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-durability").await?;
    /// let durability = client.durability().await?;
    /// assert!(durability.exclusive, "{:?}", durability.reasons);
    /// # Ok(()) }
    /// ```
    pub async fn durability(&self) -> Result<Durability> {
        self.sessions.ask(|store| store.durability()).await
    }
}
