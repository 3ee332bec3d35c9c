//! Sessions on the servers.

use std::{fmt, time::Duration};

use tokio::sync::watch;

use crate::events::Deed;

#[derive(Debug)]
pub(crate) struct SessionRecord {
    pub(crate) process: usize,
    pub(crate) ttl: Duration,
    /// When the leader last heard of it.
    pub(crate) heard: Duration,
    /// Whether its server has heard of it since its last report to the leader.
    pub(crate) touched: bool,
    /// The server that it is connected to; `None` without a connection.
    pub(crate) replica: Option<usize>,
    /// The number of its connection: requests sent on an earlier one are lost.
    pub(crate) connection: u64,
    /// When its client last heard from a server.
    pub(crate) answered: Duration,
    /// The latest revision that the client has seen: it never sees an earlier state.
    pub(crate) seen_revision: u64,
    /// On one connection, requests are applied and replies delivered in order.
    pub(crate) applied: Duration,
    pub(crate) replied: Duration,
    /// Requests that wait for a connection, in order.
    pub(crate) kept: Kept,
    /// Its client is closing it, and makes no other request for it.
    pub(crate) closing: bool,
    /// Notifies its client that the session has ended.
    pub(crate) ended: watch::Sender<bool>,
}

impl SessionRecord {
    /// A session of a process whose servers are not simulated here.
    pub(crate) fn of(process: usize, ttl: Duration, now: Duration) -> Self {
        Self {
            process,
            ttl,
            heard: now,
            touched: false,
            replica: None,
            connection: 0,
            answered: now,
            seen_revision: 0,
            applied: now,
            replied: now,
            kept: Kept::default(),
            closing: false,
            ended: watch::channel(false).0,
        }
    }
}

#[derive(Default)]
pub(crate) struct Kept(pub(crate) Vec<Deed>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.0.len())
    }
}
