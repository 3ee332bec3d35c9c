//! SQLite: the queue in a file, for the processes of one host.
//!
//! The tables have a row for each session and a row for each entry. Entries are ordered by a
//! number, which is drawn while no other connection writes. A key is of the form
//! `{namespace}/{name}/{session in hex}-{ticket}`, followed by `.{label}` if the label is not
//! empty.

mod block;
mod data;
mod error;
mod extras;
mod file;
mod inbox;
mod job;
pub(crate) mod key;
mod numbers;
pub(crate) mod open_file;
mod queue;
pub(crate) mod requests;
pub(crate) mod schema;
mod statements;
mod store;
pub(crate) mod tables;
mod watched_entry;
mod watches;
mod worker;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;

use self::{open_file::OpenFile, requests::Kind, store::SqliteStore};
use super::{Backend, Facts, Store};
use crate::{
    backend::{Result, StoreError, opening::SHORTEST, remote::Remote},
    error::Error,
    runtime::random,
    store_kind::StoreKind,
};

/// The backend of `sqlite://`.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    connect_timeout: Duration,
    request_timeout: Duration,
}

impl Sqlite {
    pub(crate) fn new(remote: &Remote) -> Result<Self, Error> {
        if cfg!(not(target_os = "linux")) {
            // Sessions of an earlier boot cannot be recognized without the boot's id.
            let reason = "sqlite:// works only on Linux, because it needs the kernel's boot ID: \
                          use another store";
            return Err(Error::InvalidArgument { argument: "url", reason: reason.into() });
        }
        let path = remote.endpoints.first().map(PathBuf::from).unwrap_or_default();
        let Remote { connect_timeout, request_timeout, .. } = *remote;
        Ok(Self { path, connect_timeout, request_timeout })
    }
}

#[async_trait]
impl Backend for Sqlite {
    fn kind(&self) -> StoreKind {
        StoreKind::Sqlite
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let ttl = ttl.max(SHORTEST);
        let milliseconds = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let mut tries = 0;
        loop {
            // The client chooses the session's id. If the reply is lost, that session ends with its
            // TTL.
            let session = random::id();
            let open_file = OpenFile::to(&self.path, self.connect_timeout)?;
            open_file.begins(ttl);
            let begun = open_file.ask(
                "opening a session",
                Kind::Write(0),
                self.connect_timeout,
                move |tables| tables.open(session, milliseconds),
            );
            match begun.await {
                Ok(()) => {
                    let store = SqliteStore::new(open_file, session, ttl, self.request_timeout);
                    return Ok((Facts::new(ttl), Arc::new(store)));
                }
                // The file was replaced after it was opened: try the new one.
                Err(StoreError::SessionGone(_)) if tries == 0 => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}
