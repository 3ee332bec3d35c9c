//! Redis and Valkey: four keys for each namespace, in one slot. Only scripts write to them. A call
//! is one script, and so one transaction.
//!
//! Other stores use keys of the form `{namespace}/{name}/{session in hex}-{ticket}`, followed by
//! `.{label}`. Here each of them is a member of a sorted set, and begins with the queue's directory
//! and the number: see `scripts/base.lua` for the whole layout. No key has a time to live while a
//! session lives. Sessions end by the server's clock, and requests of other sessions remove their
//! entries.

mod answer;
mod batch;
mod call;
mod channels;
mod clock;
mod cluster;
mod connection;
mod connection_task;
mod dialect;
mod error;
mod former;
mod gate;
mod labels;
mod latest;
mod message;
mod opening;
mod owner;
mod requester;
mod script;
mod sentinel;
mod server;
mod shared;
mod waiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;

use self::{
    connection::{Connector, Use},
    connection_task::Task,
    dialect::Connections,
    message::Calls,
    opening::Opened,
    script::Keys,
    shared::Shared,
};
use super::{Backend, Entry, Facts, Store};
use crate::{
    backend::{
        Durability, Result,
        opening::SHORTEST,
        remote::Remote,
        sql::{
            connection_handle::ConnectionHandle,
            key::{self, Place},
            store::SqlStore,
        },
        trust,
    },
    error::Error,
    store_kind::StoreKind,
    telemetry,
};

/// The backend of `redis://` and `rediss://`.
#[derive(Debug)]
pub(crate) struct Redis {
    connector: Arc<Connector>,
    /// The warning that locks are not exclusive here was logged.
    reported: AtomicBool,
}

impl Redis {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        trust::check(&remote)?;
        Ok(Self { connector: Arc::new(Connector::new(remote)), reported: AtomicBool::new(false) })
    }
}

#[async_trait]
impl Backend for Redis {
    fn kind(&self) -> StoreKind {
        StoreKind::Redis
    }

    fn check_mutex(&self, name: &str) -> Result<(), Error> {
        self.connector.bridge().map_or(Ok(()), |bridge| bridge.check(name))
    }

    fn mutexes_alone(&self) -> bool {
        self.connector.bridge().is_some()
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let (ttl, connector) = (ttl.max(SHORTEST), &self.connector);
        let Opened { session, requests, beats, acks } = connector.open(ttl).await?;
        let mut durability = requests.durability.clone();
        if let (Some(durability), Some(bridge)) = (&mut durability, connector.bridge()) {
            gate::limit(durability, bridge);
        }
        if let Some(Durability { exclusive: false, reasons, .. }) = &durability
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            telemetry::not_exclusive(self.kind().name(), reasons);
        }
        let shared = Shared::new(Arc::clone(connector), session, &beats.server.name);
        let shared = Arc::new(shared);
        let start = |link, used| {
            let task = Task { shared: Arc::clone(&shared), used };
            ConnectionHandle::start(task, link, connector.remote.request_timeout)
        };
        let (requests, beats) = (start(requests, Use::Requests), start(beats, Use::Beats));
        let acks = acks.map(|link| start(link, Use::Acks));
        let calls = Calls { bridge: connector.bridge().cloned(), owner: <_>::default() };
        let connections = Connections { calls, shared, requests, beats, acks };
        let facts = Facts { joins_late: true, ticket_in: Some(key::ticket_in), ..Facts::new(ttl) };
        Ok((facts, Arc::new(SqlStore::new(connections, ttl))))
    }
}

/// Returns the key of the queues, and the member that exists as long as the entry does.
pub(crate) fn held(entry: &Entry) -> Option<(String, String)> {
    let Place { dir, number } = Place::of(entry);
    let parts = key::parts(&entry.key)?;
    let (namespace, _) = dir.rsplit_once('/')?;
    let member = format!("~{:x} e {} {dir} {number:016}", parts.session, parts.ticket);
    Some((Keys::of(namespace).queue().to_owned(), member))
}
