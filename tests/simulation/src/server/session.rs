//! Sessions, as the servers keep them.

use std::{fmt, time::Duration};

use tokio::sync::watch;

use crate::events::Deed;

#[derive(Debug)]
pub(crate) struct SessionRecord {
    pub(crate) process: usize,
    pub(crate) ttl: Duration,
    /// When the one who decides has last heard of it.
    pub(crate) heard: Duration,
    /// When the server that it is connected to has last heard of it, and has not yet told.
    pub(crate) touched: bool,
    /// Which server that is; `None` while there is no connection.
    pub(crate) replica: Option<usize>,
    /// Counts its connections: what was sent by an earlier one is lost.
    pub(crate) connection: u64,
    /// When its client has last heard of a server.
    pub(crate) answered: Duration,
    /// The latest revision of which it was told: it never goes back behind that.
    pub(crate) told: u64,
    /// One connection: requests are applied, and replies come, in their order.
    pub(crate) applied: Duration,
    pub(crate) replied: Duration,
    /// Requests that wait for a connection, in their order.
    pub(crate) kept: Kept,
    /// Its client would have it end, and does nothing else for it any more.
    pub(crate) closing: bool,
    /// Tells its client that the session is over.
    pub(crate) ended: watch::Sender<bool>,
}

impl SessionRecord {
    /// Of one whose servers are not simulated here.
    pub(crate) fn of(process: usize, ttl: Duration, now: Duration) -> Self {
        Self {
            process,
            ttl,
            heard: now,
            touched: false,
            replica: None,
            connection: 0,
            answered: now,
            told: 0,
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
