//! PostgreSQL: a row for a session, one for each waiter, ordered by a number that is given under
//! the lock of the queue's row.
//!
//! Keys are `{namespace}/{name}/{session in hex}-{ticket}`, and `.{label}` if what they say of
//! themselves is not nothing.

mod connection;
mod dialect;
mod durability;
mod error;
mod literal;
mod log;
mod message;
mod opening;
pub(crate) mod schema;
mod session;
mod statements;
mod tls;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use self::{connection::Connector, error::refused, session::Session};
use super::{Backend, Facts, Store};
use crate::{
    backend::{
        Result,
        opening::{SHORTEST, within},
        remote::Remote,
        sql::{key, store::SqlStore},
        trust,
    },
    error::Error,
    runtime::{clock, random},
};

/// The backend of `postgres://`.
#[derive(Debug)]
pub(crate) struct Postgres {
    connector: Arc<Connector>,
}

impl Postgres {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        trust::check(&remote, "PostgreSQL")?;
        Ok(Self { connector: Arc::new(Connector::new(remote)) })
    }
}

#[async_trait]
impl Backend for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let ttl = ttl.max(SHORTEST);
        // Of our own choice; should an answer be lost, that session ends with its TTL.
        let (session, patience) = (random::id(), self.connector.remote.opening_timeout());
        let mut link = self.connector.connect(session, patience).await?;
        let endpoint = link.endpoint.clone();
        let refused = |error| refused(&endpoint, &error);
        let version = within(patience, schema::prepare(&mut link)).await?.map_err(refused)?;
        schema::check(version.last())?;
        let begin = opening::open(session, ttl.as_millis(), &link.server, link.set_back);
        let sent = clock::now();
        let begun = within(patience, link.ask(&begin)).await?.map_err(refused)?;
        self.connector.clock.read(&begun, sent);
        self.connector.log.begin(&link.server, link.flushed);
        let session = Session::start(Arc::clone(&self.connector), link, session);
        // Not in the transaction that opens the session, which it must not delay or undo.
        session.connection.order(opening::tidy(self.connector.remote.request_timeout).into());
        let facts = Facts { joins_late: true, ticket_in: Some(key::ticket_in), ..Facts::new(ttl) };
        Ok((facts, Arc::new(SqlStore::new(session, ttl))))
    }
}
