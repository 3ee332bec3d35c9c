//! How a client's session is doing.

use std::time::Duration;

use super::Client;
use crate::{backend::durability::Durability, error::Result};

/// What a client knows of its session: [`Client::health`](crate::Client::health).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The store has confirmed the session.
    #[non_exhaustive]
    Confirmed {
        /// How long held locks stay valid without another keepalive.
        remaining: Duration,
    },
    /// No lock is held, and the last keepalive is too old. The next lock sends another one.
    Stale,
    /// No session was opened yet: [`connect_lazy`](crate::Builder::connect_lazy) leaves that to the
    /// first call that needs one.
    NotOpened,
    /// The session is over, and what was held is lost. The next lock opens another one.
    Lost,
    /// The client was closed.
    Closed,
}

impl Client {
    /// What is known of the session without asking anybody: for a liveness probe.
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

    /// Asks the store to confirm the session, and tells how long that took: one write on
    /// ZooKeeper, one keepalive on etcd. Opens a session if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`](crate::Error::Unavailable) if no server answers within about twice
    /// the [`request_timeout`](crate::Builder::request_timeout), or if a new session was needed and
    /// could not be opened within the [`connect_timeout`](crate::Builder::connect_timeout);
    /// [`Error::SessionLost`](crate::Error::SessionLost) if the session has ended,
    /// [`Error::Denied`](crate::Error::Denied), [`Error::Closed`](crate::Error::Closed).
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
    /// println!("the store answers within {:?}", client.ping().await?);
    /// # Ok(()) }
    /// ```
    pub async fn ping(&self) -> Result<Duration> {
        let runtime = &self.sessions.shared().runtime;
        runtime.within(self.sessions.ping()).await
    }

    /// Asks the store what it promises as it is configured now: whether locks are exclusive
    /// whatever becomes of servers, and what the loss of one means. Worth a look when a service
    /// starts, and a line in its log.
    ///
    /// It is the store's own word: etcd's list of members, ZooKeeper's `/zookeeper/config`,
    /// PostgreSQL's settings and its `pg_stat_replication`. What the machine does below it, as a
    /// disk that says too early that it has written, nobody tells.
    ///
    /// # Errors
    ///
    /// As [`ping`](Self::ping); [`Error::Denied`](crate::Error::Denied) if the client's user may
    /// not look at that.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
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
