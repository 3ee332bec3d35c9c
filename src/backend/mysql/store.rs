//! One session, and what is asked of the server in its name.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    line::Line,
    looks::{self, What},
    statements::{self, Joiner},
    watches::Waiting,
};
use crate::{
    backend::{
        Ask, Entry, Event, Fate, Join, Joined, Leaving, Left, Listing, Moment, Present, Standing,
        Store, Watch,
        error::{Result, StoreError},
        name::{Queue, Ticket},
        sql::{
            key::{self, Place},
            outcome::{Outcome, Row},
            told::{joined, last, nonsense, standing, why_not_yet},
        },
    },
    lost::LostReason,
    runtime::random,
};

const JOIN: &str = "joining a queue";
pub(super) const READ: &str = "read of a queue";

#[derive(Debug)]
pub(super) struct MysqlStore {
    pub(super) line: Line,
    ttl: Duration,
}

impl MysqlStore {
    pub(super) fn new(line: Line, ttl: Duration) -> Self {
        Self { line, ttl }
    }

    /// Joins all of these queues or none.
    pub(super) async fn join(
        &self,
        joiners: &[Joiner<'_>],
        value: &[u8],
        if_free: bool,
    ) -> Result<Vec<Option<Joined>>> {
        let message = statements::join(self.line.session, random::id(), joiners, value, if_free);
        let outcomes = self.line.ask(JOIN, message).await?;
        let (why_not, outcomes) = match outcomes.split_last() {
            Some((told, joined)) if if_free => (why_not_yet(told), joined),
            _ => (None, outcomes.as_slice()),
        };
        let told = outcomes.len().checked_sub(joiners.len()).and_then(|at| outcomes.get(at..));
        let told = told.ok_or_else(nonsense)?;
        let joined =
            joiners.iter().zip(told).map(|(joiner, outcome)| joined(joiner.queue, outcome));
        let joined: Vec<_> = joined.collect::<Result<_>>()?;
        if let Some(why_not) = why_not.filter(|_| joined.iter().any(Option::is_none)) {
            return Err(StoreError::NotYet(why_not.into()));
        }
        for (joiner, _) in joiners.iter().zip(&joined).filter(|(_, joined)| joined.is_some()) {
            self.tell(joiner.queue.dir(), 0);
        }
        Ok(joined)
    }

    /// This session has done something to an entry, or with the number 0 in a queue: those of this
    /// client who wait for it need not look.
    pub(super) fn tell(&self, dir: &str, number: u64) {
        self.line.connector.tell(dir, number);
    }
}

/// Takes the watch back when it is dropped.
pub(super) struct Registered {
    line: Line,
    waiting: Waiting,
}

impl Registered {
    pub(super) fn new(line: &Line, what: What) -> Self {
        Self { line: line.clone(), waiting: line.watches.wait(what) }
    }

    pub(super) async fn news(&mut self) -> Result<()> {
        self.waiting.news().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.line.watches.leave(&self.waiting);
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let message = statements::keep_alive(self.line.session);
        let outcomes = self.line.ask("keepalive", message).await?;
        match last(&outcomes)?.count {
            0 => Err(StoreError::SessionGone(LostReason::SessionExpired)),
            _ => Ok(self.ttl),
        }
    }

    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined> {
        let joiner = Joiner { queue, ticket };
        let joined = self.join(&[joiner], value, join == Join::IfFree).await?.pop();
        match joined.ok_or_else(nonsense)? {
            Some(joined) => Ok(joined),
            None if join == Join::IfFree => Ok(Joined::Occupied),
            None => Err(nonsense()),
        }
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let place = Place::of(entry);
        let message = statements::standing(self.line.session, &place);
        let outcomes = self.line.ask(READ, message).await?;
        let told = standing(place.dir, last(&outcomes)?.rows())?;
        let own = told.filter(|(own, _)| own.key == entry.key && own.revision == entry.revision);
        Ok(own.map_or(Standing::Evicted, |(_, standing)| standing))
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        let place = Place::of(entry);
        let message = statements::present(self.line.session, &place, &Place::of(ahead));
        let outcomes = self.line.ask(READ, message).await?;
        let rows = last(&outcomes)?.rows().iter();
        let found: Vec<_> = rows.filter_map(|row| key::entry(place.dir, row)).collect();
        let is_there = |entry: &Entry| {
            found.iter().any(|found| found.key == entry.key && found.revision == entry.revision)
        };
        Ok(Present { own: is_there(entry), ahead: Fate::of(is_there(ahead)) })
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let message = statements::own_entries(self.line.session);
        let outcomes = self.line.ask(READ, message).await?;
        let key = |row: &Row| Some(key::entry(row.text(4)?, row)?.key);
        last(&outcomes)?.rows().iter().map(|row| key(row).ok_or_else(nonsense)).collect()
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        let what: What = (place.dir.into(), place.number);
        // Before it is looked at: what this client does meanwhile is heard.
        let mut registered = Registered::new(&self.line, what.clone());
        let message = looks::first(self.line.session, &what);
        let outcomes = self.line.ask("watch of a key", message).await?;
        let Some(row) = last(&outcomes)?.first() else { return Ok(None) };
        let (_, seen) = looks::read(row).ok_or_else(nonsense)?;
        // What has its number and another name is watched in vain.
        if seen.is != *entry.key {
            return Ok(None);
        }
        self.line.watches.note(&what, seen);
        Ok(Some(Box::pin(async move { registered.news().await.map(|()| Event::Deleted) })))
    }

    async fn leave(&self, queue: &Queue, ticket: Ticket, leave: Leaving<'_>) -> Result<Left> {
        let number = leave.entry.map(|entry| entry.revision);
        let successor = leave.successor.map(|successor| successor.revision);
        let message = statements::leave(self.line.session, queue, ticket, number, successor);
        let outcomes = self.line.ask("leaving a queue", message).await?;
        let [.., deleted, told] = outcomes.as_slice() else { return Err(nonsense()) };
        let row = told.first().ok_or_else(nonsense)?;
        self.tell(queue.dir(), number.unwrap_or(0));
        self.line.released.add(ticket);
        // Those who have joined up to that number were there as the key was deleted.
        let at = row.number(0).and_then(|number| u64::try_from(number).ok());
        Ok(Left {
            existed: deleted.count > 0,
            successor: row.flag(1),
            at: Moment(at.map_or(0, |number| number + 1)),
        })
    }

    async fn close(&self) -> Result<()> {
        let message = statements::close(self.line.session);
        self.line.ask("ending a session", message).await.map(|_: Vec<Outcome>| ())
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        self.read_all(queue, ask).await
    }
}
