//! A session, and its requests to the file.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    error::Failure, key::Place, open_file::OpenFile, requests::Kind, tables::Tables,
    watched_entry::What,
};
use crate::{
    backend::{
        Ask, Entry, Event, Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore,
        Present, Queue, Result, Specifics, Standing, StoreError, Watch,
    },
    lost::LostReason,
};

const JOIN: &str = "joining a queue";
pub(super) const READ: &str = "reading a queue";

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

    /// Runs work if the session exists. A look removes dead sessions first.
    pub(super) async fn within<T: Send + 'static>(
        &self,
        operation: &'static str,
        kind: Kind,
        work: impl FnOnce(&Tables<'_, '_>, i64) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T> {
        let session = self.session;
        let entered = move |tables: &Tables<'_, '_>| {
            tables.enter(session)?;
            if kind == Kind::Look {
                tables.sweep(session)?;
            }
            work(tables, session)
        };
        self.ask(operation, kind, entered).await
    }

    /// Joins all of these queues or none.
    pub(super) async fn join(
        &self,
        joiners: &[Joiner<'_>],
        value: &[u8],
        if_free: bool,
    ) -> Result<Vec<Option<Joined>>> {
        let owned = |Joiner { queue, ticket }: &Joiner<'_>| ((*queue).clone(), *ticket);
        let (joiners, value) = (joiners.iter().map(owned).collect::<Vec<_>>(), value.to_owned());
        let kind = Kind::Write(joiners.len());
        let join =
            move |tables: &Tables<'_, '_>, session| tables.join(session, &joiners, &value, if_free);
        self.within(JOIN, kind, join).await
    }
}

#[async_trait]
impl LockStore for SqliteStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let session = self.session;
        self.ask("renewing a session", Kind::Keepalive, move |tables| tables.keep_alive(session))
            .await?;
        Ok(self.ttl)
    }

    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined> {
        let joined = self.join(&[joiner], value, join == Join::IfFree).await?.pop();
        Ok(joined.flatten().unwrap_or(Joined::Occupied))
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let entry = entry.clone();
        self.within(READ, Kind::Look, move |tables, _| tables.standing(&entry)).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        let (entry, ahead) = (entry.clone(), ahead.clone());
        self.within(READ, Kind::Look, move |tables, _| tables.present(&entry, &ahead)).await
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        self.within(READ, Kind::Read, |tables, session| tables.own_keys(session)).await
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        let entry = entry.clone();
        let watch = self.within("watching a key", Kind::Look, move |tables, _| {
            let there = tables.is_there(&entry)?.is_some();
            Ok(there.then(|| tables.wait(What::Entry(entry))))
        });
        Ok(watch.await?.map(|watch| Box::pin(event(watch)) as Watch))
    }

    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        let joiner = (joiner.queue.clone(), joiner.ticket);
        let number = |entry| Place::of(entry).number;
        let (number, successor) = (leave.entry.map(number), leave.successor.map(number));
        let leave = move |tables: &Tables<'_, '_>, session| {
            tables.leave(session, &joiner, number, successor)
        };
        self.within("leaving a queue", Kind::Write(0), leave).await
    }

    /// Ends the session. A write that fails now may succeed later, for example when a full disk has
    /// space again.
    async fn close(&self) -> Result<()> {
        let session = self.session;
        let close = move |tables: &Tables<'_, '_>| tables.close(session);
        self.ask("ending a session", Kind::Write(0), close).await.map_err(|error| match error {
            StoreError::Fatal { source, .. } => StoreError::Unavailable(source),
            error => error,
        })
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let dir = queue.dir().to_owned();
        let read = self.within(READ, Kind::Look, move |tables, session| {
            let members = tables.members(session, &dir, ask.values)?;
            let notes = tables.notes(&dir)?;
            let watch = match ask.watch {
                false => None,
                true => {
                    let (look, _) = tables.look(&dir)?;
                    Some(tables.wait(What::Queue(dir, look)))
                }
            };
            Ok((members, notes, watch))
        });
        let (members, notes, watch) = read.await?;
        let watch = watch.map(|watch| Box::pin(event(watch)) as Watch);
        Ok(Listing { members, notes, watch, ..Listing::default() })
    }
}

#[async_trait]
impl Specifics for SqliteStore {
    async fn ended(&self) -> LostReason {
        let mut replaced = self.file.sign.replaced.subscribe();
        // An error means that the file is closed, and this session with it.
        let _gone = replaced.wait_for(|replaced| *replaced).await.is_err();
        LostReason::SessionExpired
    }
}

/// Returns the event that a waiter is notified of.
async fn event(watch: tokio::sync::oneshot::Receiver<Result<Event>>) -> Result<Event> {
    watch.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the file is closed".into())))
}
