//! PostgreSQL: a row for each session, a row for each queue with the entry that is alone in it, and
//! a row for each other entry. The entries are ordered by a number that is drawn while the queue's
//! row is locked.
//!
//! Keys are `{namespace}/{name}/{session in hex}-{ticket}`, followed by `.{label}` if the label is
//! not empty.

mod alone;
mod background;
mod batch;
#[cfg(feature = "bb8-postgres-0_9")]
mod bb8;
mod calls;
mod connection;
#[cfg(feature = "deadpool-postgres-0_14")]
mod deadpool;
mod dialect;
#[cfg(any(feature = "bb8-postgres-0_9", feature = "deadpool-postgres-0_14"))]
mod driver;
mod durability;
mod error;
mod in_rows;
mod lane;
mod leaving;
mod lent;
mod listening;
mod literal;
mod locked;
mod log;
mod looks;
mod message;
mod observed;
mod opening;
mod other;
pub(crate) mod pool;
mod pooled;
mod quiet_queues;
mod requester;
pub(crate) mod schema;
mod session;
mod socket;
mod statements;
mod tls;
mod turns;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use self::{connection::Connector, error::refused, message::FLUSHED, session::Session};
use super::{Backend, Facts, Store};
use crate::{
    backend::{
        Result,
        opening::{SHORTEST, within},
        remote::Remote,
        sql::{key, outcome::Outcome, store::SqlStore},
        trust,
    },
    error::Error,
    runtime::{clock, random},
    store_kind::StoreKind,
};

/// The backend of `postgres://`.
#[derive(Debug)]
pub(crate) struct Postgres {
    connector: Arc<Connector>,
}

impl Postgres {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        trust::check(&remote)?;
        Ok(Self { connector: Arc::new(Connector::new(remote)) })
    }
}

#[async_trait]
impl Backend for Postgres {
    fn kind(&self) -> StoreKind {
        StoreKind::Postgres
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let ttl = ttl.max(SHORTEST);
        // The client chooses the number. If the reply is lost, the session ends with its TTL.
        let (session, patience) = (random::id(), self.connector.remote.opening_timeout());
        let mut link = self.connector.connect(patience).await?;
        let endpoint = link.endpoint.clone();
        let refused = |error| refused(&endpoint, &error);
        let version = within(patience, schema::prepare(&mut link)).await?.map_err(refused)?;
        schema::check(version.last())?;
        within(patience, link.adopt()).await??;
        let verified = self.connector.verify_pool(link.by_pool.clone(), link.name, patience);
        verified.await?;
        let begin = opening::open(session, ttl.as_millis(), &link.server, link.set_back);
        within(patience, link.prepare()).await?.map_err(refused)?;
        let sent = clock::now();
        let begun = within(patience, link.ask(&begin)).await?.map_err(refused)?;
        self.connector.clock.read(&begun, sent);
        self.connector.log.begin(&link.server, link.flushed);
        let read = begun.first().and_then(Outcome::first);
        let read = read.and_then(|row| Some((row.number(0)?, row.number(FLUSHED)?)));
        let leave = |(shows, beat)| self.connector.host.leave(&link.server, shows, beat);
        let observation = read.and_then(leave);
        let session = Session::start(Arc::clone(&self.connector), link, session);
        // A separate transaction, so that it neither delays nor undoes the opening of the session.
        if let Some(observation) = observation {
            session.connection.order(observation.into());
        }
        session.connection.order(opening::tidy(self.connector.remote.request_timeout));
        let facts = Facts {
            joins_late: true,
            // A deletion returns the last number that is in the queue then.
            follows_if_there: true,
            ticket_in: Some(key::ticket_in),
            one_at_a_time: self.connector.remote.pooled,
            ..Facts::new(ttl)
        };
        Ok((facts, Arc::new(SqlStore::new(session, ttl))))
    }
}
