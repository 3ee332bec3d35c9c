//! Redis and Valkey: ten keys, all of one slot, that scripts alone write to. A call is one script,
//! and so one transaction.
//!
//! What is a key elsewhere, `{namespace}/{name}/{session in hex}-{ticket}` and `.{label}`, is a
//! member of a sorted set here, `{namespace}/{name} {number}`; `scripts/lib.lua` lists all that
//! there is. No key has a time to live: sessions end by the server's clock, and who looks ahead
//! puts them away.

mod answer;
mod connection;
mod dialect;
mod error;
mod line;
mod message;
mod script;
mod server;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use self::{
    connection::{Connector, Use},
    dialect::Lines,
    line::{Line, Shared},
    script::Keys,
};
use super::{Backend, Entry, Facts, Store};
use crate::{
    backend::{
        error::{Result, StoreError},
        remote::Remote,
        sql::{key::Place, store::SqlStore},
        trust,
    },
    error::Error,
    runtime::{
        clock::{self, timeout},
        random,
    },
};

/// A shorter session would not outlive a server that is busy for a moment.
const SHORTEST: Duration = Duration::from_secs(1);

/// The backend of `redis://` and `rediss://`.
#[derive(Debug)]
pub(crate) struct Redis {
    connector: Arc<Connector>,
}

impl Redis {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        trust::check(&remote, "Redis")?;
        Ok(Self { connector: Arc::new(Connector::new(remote)) })
    }
}

#[async_trait]
impl Backend for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let (ttl, connector) = (ttl.max(SHORTEST), &self.connector);
        // Of our own choice; should an answer be lost, that session ends with its TTL.
        let (session, patience) = (random::id(), connector.patience_at_first());
        let mut link = connector.connect(session, Use::Requests, patience).await?;
        let beats = connector.connect(session, Use::Beats, patience).await?;
        let microseconds = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        let open = message::open(microseconds, &link.server, link.keeps);
        let sent = clock::now();
        let opening = timeout(patience, connector.call(&mut link, session, &open));
        // A session that may have begun ends with its TTL.
        let late = |late: tokio::time::error::Elapsed| StoreError::Unavailable(late.into());
        let begun = opening.await.map_err(late)??;
        connector.clock.read(&begun.clock, sent);
        begun.outcomes("opening a session")?;
        let shared = Arc::new(Shared::new(Arc::clone(connector), session));
        let requests = Line::start(&shared, link, Use::Requests);
        let beats = Line::start(&shared, beats, Use::Beats);
        let lines = Lines { shared, requests, beats };
        Ok((Facts::new(ttl), Arc::new(SqlStore::new(lines, ttl))))
    }
}

/// The key of the queues, and the entry's member.
pub(crate) fn held(entry: &Entry) -> (String, String) {
    let Place { dir, number } = Place::of(entry);
    (Keys::new().queue().to_owned(), format!("{dir} {number:016}"))
}
