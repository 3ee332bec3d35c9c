//! The operations of one session on the server.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    dialect::{CLOSE, Dialect, JOIN, LEAVE, MessageOf, READ},
    key::{self, Place},
    outcome::{Outcome, Row},
    replies::{self, joined, last, nonsense, standing, why_not_yet},
    statements::Statements,
};
use crate::{
    backend::{
        Ask, Entry, Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore,
        LossListener, Present, Queue, Result, SequencePoint, Specifics, Standing, StoreError,
        Ticket, Watch, Watched, contract::store::watch_and_look,
    },
    lost::LostReason,
};

#[derive(Debug)]
pub(crate) struct SqlStore<D> {
    pub(super) dialect: D,
    ttl: Duration,
}

impl<D: Dialect> SqlStore<D> {
    pub(crate) fn new(dialect: D, ttl: Duration) -> Self {
        Self { dialect, ttl }
    }

    pub(super) async fn ask(
        &self,
        operation: &'static str,
        message: impl FnOnce(&D::Statements) -> MessageOf<D>,
    ) -> Result<Vec<Outcome>> {
        let message = message(self.dialect.statements());
        self.dialect.ask(operation, message).await
    }

    async fn own_entries(&self) -> Result<Vec<Entry>> {
        let outcomes = self.ask(READ, |statements| statements.own_entries()).await?;
        let entry = |row: &Row| key::entry(row.text(4)?, row);
        last(&outcomes)?.rows().iter().map(|row| entry(row).ok_or_else(nonsense)).collect()
    }

    /// Joins all of these queues or none.
    pub(super) async fn join(
        &self,
        joiners: &[Joiner<'_>],
        value: &[u8],
        if_free: bool,
    ) -> Result<Vec<Option<Joined>>> {
        match self.join_now(joiners, value, if_free).await {
            // All sessions in the queue seem dead. Remove them and try again.
            Err(StoreError::NotYet(_)) if self.dialect.sweep().await? => {
                self.join_now(joiners, value, if_free).await
            }
            joined => joined,
        }
    }

    async fn join_now(
        &self,
        joiners: &[Joiner<'_>],
        value: &[u8],
        if_free: bool,
    ) -> Result<Vec<Option<Joined>>> {
        let asked = self.ask(JOIN, |statements| statements.join(joiners, value, if_free)).await;
        let read = asked.and_then(|outcomes| replies(joiners, &outcomes, if_free));
        // After a malformed reply it is unknown whether they have joined.
        let (why_not, joined) = read.inspect_err(|_| self.dialect.has_joined(joiners, None))?;
        self.dialect.has_joined(joiners, Some(&joined));
        if let Some(why_not) = why_not.filter(|_| joined.iter().any(Option::is_none)) {
            return Err(StoreError::NotYet(why_not.into()));
        }
        for (joiner, _) in joiners.iter().zip(&joined).filter(|(_, joined)| joined.is_some()) {
            self.dialect.notify(joiner.queue.dir(), 0);
        }
        Ok(joined)
    }
}

/// Returns why the result is not known yet, if so, and the result of each joiner.
fn replies(
    joiners: &[Joiner<'_>],
    outcomes: &[Outcome],
    if_free: bool,
) -> Result<(Option<&'static str>, Vec<Option<Joined>>)> {
    let (why_not, outcomes) = match outcomes.split_last() {
        Some((last, joined)) if if_free => (why_not_yet(last), joined),
        _ => (None, outcomes),
    };
    let own = outcomes.len().checked_sub(joiners.len()).and_then(|at| outcomes.get(at..));
    let own = joiners.iter().zip(own.ok_or_else(nonsense)?);
    let joined = own.map(|(joiner, outcome)| joined(joiner.queue, outcome));
    Ok((why_not, joined.collect::<Result<_>>()?))
}

#[async_trait]
impl<D: Dialect> LockStore for SqlStore<D> {
    async fn keep_alive(&self) -> Result<Duration> {
        let others = self.dialect.awaited();
        let outcomes =
            self.ask("renewing a session", |statements| statements.keep_alive(&others)).await?;
        match last(&outcomes)?.count {
            0 => Err(StoreError::SessionGone(LostReason::SessionExpired)),
            _ => {
                self.dialect.renewed();
                Ok(self.ttl)
            }
        }
    }

    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined> {
        let joined = self.join(&[joiner], value, join == Join::IfFree).await?.pop().flatten();
        match joined {
            Some(joined) => Ok(joined),
            None if join == Join::IfFree => Ok(Joined::Occupied),
            // An operator has deleted the entry of an earlier attempt.
            None => Err(StoreError::Unavailable("the entry was deleted by an operator".into())),
        }
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let place = Place::of(entry);
        let outcomes = self.ask(READ, |statements| statements.standing(&place)).await?;
        let found = standing(place.dir, last(&outcomes)?.rows())?;
        let own = found.filter(|(own, _)| own.key == entry.key && own.revision == entry.revision);
        Ok(own.map_or(Standing::Evicted, |(_, standing)| standing))
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        let place = Place::of(entry);
        let outcomes =
            self.ask(READ, |statements| statements.present(&place, &Place::of(ahead))).await?;
        Ok(replies::present(entry, ahead, last(&outcomes)?.rows()))
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        Ok(self.own_entries().await?.into_iter().map(|entry| entry.key).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        self.dialect.watch(entry).await
    }

    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        let number = leave.entry.map(|entry| entry.revision);
        let successor = leave.successor.map(|successor| successor.revision);
        let leaving = |statements: &D::Statements| statements.leave(joiner, number, successor);
        let outcomes = self.ask(LEAVE, leaving).await?;
        let [.., deleted, reply] = outcomes.as_slice() else { return Err(nonsense()) };
        let row = reply.first().ok_or_else(nonsense)?;
        self.dialect.notify(joiner.queue.dir(), number.unwrap_or(0));
        self.dialect.has_left(joiner, deleted.count > 0);
        self.dialect.released(joiner.queue.dir(), joiner.ticket);
        // Entries up to this number were present when the key was deleted.
        let at = row.number(0).and_then(|number| u64::try_from(number).ok());
        Ok(LeaveOutcome {
            existed: deleted.count > 0,
            successor: row.flag(1),
            at: SequencePoint(at.map_or(0, |number| number + 1)),
        })
    }

    async fn close(&self) -> Result<()> {
        while !D::Statements::is_closed(&self.ask(CLOSE, Statements::close).await?)? {}
        Ok(())
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        self.dialect.list(queue, ask).await
    }
}

#[async_trait]
impl<D: Dialect> Specifics for SqlStore<D> {
    async fn watch_ahead(
        &self,
        ahead: &Entry,
        _: Option<SequencePoint>,
        own: Option<&Entry>,
    ) -> Result<Watched> {
        if let Some(own) = own
            && let Some(watched) = self.dialect.watch_ahead(ahead, own).await?
        {
            return Ok(watched);
        }
        let look = own.map(|own| self.present(own, ahead));
        watch_and_look(self.watch(ahead, true), look).await
    }

    fn on_loss(&self, listener: LossListener) {
        self.dialect.on_loss(listener);
    }

    fn gives_sql(&self, entry: &Entry) {
        self.dialect.gives_sql(entry);
    }

    fn was_released(&self, queue: &Queue, ticket: Ticket, entry: &Entry) {
        self.dialect.notify(queue.dir(), entry.revision);
        self.dialect.has_left(Joiner { queue, ticket }, true);
        self.dialect.released(queue.dir(), ticket);
    }

    async fn own_entry(&self, key: &str) -> Result<Option<Entry>> {
        let own = self.own_entries().await?;
        Ok(own.into_iter().find(|entry| *entry.key == *key))
    }

    /// Deletes an entry. Its number identifies it, because no number is given twice.
    async fn remove(&self, entry: &Entry) -> Result<bool> {
        let Some(parts) = key::parts(&entry.key) else { return Ok(false) };
        let Some(ticket) = Ticket::parse(parts.ticket) else { return Ok(false) };
        let joiner = Joiner { queue: &Queue::at(parts.dir, parts.label), ticket };
        let leaving = LeaveRequest { entry: Some(entry), ..LeaveRequest::default() };
        Ok(self.leave(joiner, leaving).await?.existed)
    }
}
