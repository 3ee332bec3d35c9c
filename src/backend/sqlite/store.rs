//! One session, and what is asked of the file in its name.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    error::Failure,
    key::number,
    open_file::OpenFile,
    queue::{Joiner, Leaver},
    requests::Kind,
    tables::Tables,
    watched_entry::What,
};
use crate::{
    backend::{
        Ask, Entry, Event, Join, Joined, LeaveOutcome, LeaveRequest, Listing, Present, Standing,
        Store, Watch,
        error::{Result, StoreError},
        name::{Queue, Ticket},
    },
    lost::LostReason,
};

const JOIN: &str = "joining a queue";
pub(super) const READ: &str = "read of a queue";

#[derive(Debug)]
pub(super) struct SqliteStore {
    file: Arc<OpenFile>,
    pub(super) session: i64,
    ttl: Duration,
    request_timeout: Duration,
}

impl SqliteStore {
    pub(super) fn new(
        file: Arc<OpenFile>,
        session: i64,
        ttl: Duration,
        request_timeout: Duration,
    ) -> Self {
        Self { file, session, ttl, request_timeout }
    }

    pub(super) async fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: Kind,
        work: impl FnOnce(&Tables<'_, '_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        self.file.ask(operation, kind, self.request_timeout, work).await
    }

    /// Joins all of these queues or none.
    pub(super) async fn join(
        &self,
        joiners: Vec<Joiner>,
        value: &[u8],
        if_free: bool,
    ) -> Result<Vec<Option<Joined>>> {
        let (session, value) = (self.session, value.to_owned());
        self.ask(JOIN, Kind::Write, move |tables| tables.join(session, &joiners, &value, if_free))
            .await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let session = self.session;
        self.ask("keepalive", Kind::Keepalive, move |tables| tables.keep_alive(session)).await?;
        Ok(self.ttl)
    }

    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined> {
        let joiners = vec![Joiner { queue: queue.clone(), ticket }];
        match self.join(joiners, value, join == Join::IfFree).await?.pop().flatten() {
            Some(joined) => Ok(joined),
            None => Ok(Joined::Occupied),
        }
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let (session, entry) = (self.session, entry.clone());
        self.ask(READ, Kind::Look, move |tables| tables.standing(session, &entry)).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        let (session, entry, ahead) = (self.session, entry.clone(), ahead.clone());
        self.ask(READ, Kind::Look, move |tables| tables.present(session, &entry, &ahead)).await
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let session = self.session;
        let keys = self.ask(READ, Kind::Read, move |tables| tables.own_keys(session)).await?;
        Ok(keys.into_iter().map(Into::into).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        let (session, entry) = (self.session, entry.clone());
        let told = self.ask("watch of a key", Kind::Look, move |tables| {
            tables.enter(session)?;
            tables.sweep(session)?;
            let there = tables.is_there(&entry)?.is_some();
            Ok(there.then(|| tables.wait(What::Entry(entry))))
        });
        Ok(told.await?.map(|told| Box::pin(news(told)) as Watch))
    }

    async fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        leave: LeaveRequest<'_>,
    ) -> Result<LeaveOutcome> {
        let leaver = Leaver {
            joiner: Joiner { queue: queue.clone(), ticket },
            number: leave.entry.map(number),
            successor: leave.successor.map(number),
        };
        let session = self.session;
        self.ask("leaving a queue", Kind::Write, move |tables| tables.leave(session, &leaver)).await
    }

    async fn ended(&self) -> LostReason {
        let mut replaced = self.file.sign.replaced.subscribe();
        // An error: the file is closed, and this session with it.
        let _gone = replaced.wait_for(|replaced| *replaced).await.is_err();
        LostReason::SessionExpired
    }

    /// What cannot be written now may be later: the disk is full, for example.
    async fn close(&self) -> Result<()> {
        let session = self.session;
        let close = move |tables: &Tables<'_, '_>| tables.close(session);
        self.ask("ending a session", Kind::Write, close).await.map_err(|error| match error {
            StoreError::Fatal { source, .. } => StoreError::Unavailable(source),
            error => error,
        })
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (session, dir) = (self.session, queue.dir().to_owned());
        let read = self.ask(READ, Kind::Look, move |tables| {
            tables.enter(session)?;
            tables.sweep(session)?;
            let members = tables.members(session, &dir, ask.values)?;
            let notes = tables.notes(&dir)?;
            let told = match ask.watch {
                false => None,
                true => {
                    let (look, _) = tables.look(&dir)?;
                    Some(tables.wait(What::Queue(dir, look)))
                }
            };
            Ok((members, notes, told))
        });
        let (members, notes, told) = read.await?;
        let watch = told.map(|told| Box::pin(news(told)) as Watch);
        Ok(Listing { members, notes, watch, seem_dead: Vec::new() })
    }
}

/// What those who wait are told.
async fn news(told: tokio::sync::oneshot::Receiver<Result<Event>>) -> Result<Event> {
    told.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the file is closed".into())))
}
