//! MySQL and MariaDB: a row for each session, a row for each queue with the entry that is alone in
//! it, and a row for each other entry. The entries are ordered by a number that is drawn while a
//! row of the queue is locked. The server cannot notify, so waiters poll.
//!
//! Keys are `{namespace}/{name}/{session in hex}-{ticket}`, followed by `.{label}` if the label is
//! not empty.

mod alone;
mod borrowing;
mod by_pool;
mod connection;
mod dialect;
mod driver;
mod durability;
mod ending;
mod error;
mod join;
mod known_queues;
mod later;
mod leave;
mod lent;
mod literal;
mod lockable;
mod looks;
mod message;
#[cfg(feature = "mysql_async-0_37")]
mod mysql_async_pool;
mod opening;
mod places;
pub(crate) mod pool;
mod registered;
mod replies;
pub(crate) mod schema;
mod sent;
mod session;
mod statements;
mod tables;
mod time;
mod tls;
mod waiting;
mod watches;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use self::{connection::Connector, session::Session};
use super::{Backend, Entry, Facts, Store};
use crate::{
    backend::{
        Result,
        opening::{SHORTEST, within},
        remote::Remote,
        sql::{
            key::{self, Place, session_of},
            store::SqlStore,
        },
        trust,
    },
    error::Error,
    runtime::{clock, random},
    store_kind::StoreKind,
};

/// The backend of `mysql://`.
#[derive(Debug)]
pub(crate) struct Mysql {
    connector: Arc<Connector>,
}

impl Mysql {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        if remote.database.is_none() {
            return Err(Error::InvalidArgument {
                argument: "url",
                reason: "name the database that stores the locks: mysql://host/database".into(),
            });
        }
        trust::check(&remote)?;
        Ok(Self { connector: Arc::new(Connector::new(remote)) })
    }
}

#[async_trait]
impl Backend for Mysql {
    fn kind(&self) -> StoreKind {
        StoreKind::Mysql
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let ttl = ttl.max(SHORTEST);
        // The client chooses the number. If the reply is lost, the session ends with its TTL.
        let (session, patience) = (random::id(), self.connector.remote.opening_timeout());
        let mut link = self.connector.connect(ttl, patience).await?;
        within(patience, tables::prepare(&mut link)).await??;
        within(patience, self.connector.locate(&mut link)).await??;
        self.connector.verify_pool(&link, patience).await?;
        let begin = opening::open(session, ttl.as_micros());
        let sent = clock::now();
        let begun = within(patience, link.first(&begin)).await??;
        self.connector.clock.read(&begun, sent);
        let session = Session::start(Arc::clone(&self.connector), link, session, ttl);
        session.connection.order(opening::tidy());
        session.connection.order(opening::tidied());
        let facts = Facts {
            one_at_a_time: true,
            joins_late: true,
            ticket_in: Some(key::ticket_in),
            ..Facts::new(ttl)
        };
        Ok((facts, Arc::new(SqlStore::new(session, ttl))))
    }
}

/// Returns the statement with which a user's transaction checks that the entry is present, and
/// locks it.
pub(crate) fn held(entry: &Entry) -> Option<String> {
    Some(statements::held(session_of(&entry.key)?, &Place::of(entry)))
}

/// Returns the statement with which a user's transaction deletes this entry. It changes a row if
/// the entry was present.
pub(crate) fn unlock(entry: &Entry) -> Option<String> {
    Some(statements::unlock(session_of(&entry.key)?, &Place::of(entry)))
}
