//! The state that the connections of one session share.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64},
};

use super::{channels::Channels, connection::Connector, latest::Latest};
use crate::{
    backend::{Durability, contract::store::Losses, sql::watches::Watches},
    runtime::mutex::Mutex,
};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) connector: Arc<Connector>,
    pub(super) session: i64,
    pub(super) latest: Latest,
    pub(super) watches: Arc<Watches>,
    /// The highest number of the session's writes in any reply that counts. A new primary may lack
    /// the writes that replicas have not confirmed.
    pub(super) writes: AtomicU64,
    pub(super) durability: Mutex<Option<Durability>>,
    pub(super) channels: Channels,
    pub(super) losses: Losses,
    /// Ended sessions have left more than one request could remove.
    pub(super) unfinished: AtomicBool,
}

impl Shared {
    /// `server`: the one on which the session was opened.
    pub(super) fn new(connector: Arc<Connector>, session: i64, server: &str) -> Self {
        let (watches, writes, durability, channels, losses, unfinished) = <_>::default();
        let latest = Latest::new(server);
        Self {
            connector,
            session,
            latest,
            watches,
            writes,
            durability,
            channels,
            losses,
            unfinished,
        }
    }
}
