//! One session, and what is asked of the server in its name.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{
    line::Line,
    statements::{self, Joiner},
    watches::{Waiting, What},
};
use crate::{
    backend::{
        Ask, Entry, Event, Fate, Join, Joined, Leaving, Left, Listing, Moment, Present, Standing,
        Store, Watch,
        error::{Result, StoreError},
        name::{Queue, Ticket},
        sql::{
            key::{self, Place},
            outcome::Row,
            told::{joined, last, left, nonsense, standing, why_not_yet},
        },
    },
    lost::LostReason,
    runtime::random,
};

const JOIN: &str = "joining a queue";
pub(super) const READ: &str = "read of a queue";

#[derive(Debug)]
pub(super) struct PostgresStore {
    pub(super) line: Line,
    ttl: Duration,
}

impl PostgresStore {
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
        let sql = statements::join(self.line.session, random::id(), joiners, value, if_free);
        let outcomes = self.line.ask(JOIN, sql).await?;
        let (why_not, outcomes) = match outcomes.split_last() {
            Some((told, joined)) if if_free => (why_not_yet(told), joined),
            _ => (None, outcomes.as_slice()),
        };
        let told = outcomes.len().checked_sub(joiners.len()).and_then(|at| outcomes.get(at..));
        let told = told.ok_or_else(nonsense)?;
        let joined =
            joiners.iter().zip(told).map(|(joiner, outcome)| joined(joiner.queue, outcome));
        let joined: Vec<_> = joined.collect::<Result<_>>()?;
        match why_not.filter(|_| joined.iter().any(Option::is_none)) {
            Some(why_not) => Err(StoreError::NotYet(why_not.into())),
            None => Ok(joined),
        }
    }
}

/// Takes the watch back if it is dropped, and nobody else here has it.
pub(super) struct Registered {
    line: Line,
    waiting: Waiting,
    pub(super) what: What,
    /// The server knows of it.
    pub(super) known: bool,
}

impl Registered {
    pub(super) fn new(line: &Line, dir: &str, number: u64) -> Self {
        let what: What = (dir.into(), number);
        let waiting = line.watches.wait(what.clone());
        Self { line: line.clone(), waiting, what, known: true }
    }

    pub(super) async fn news(&mut self) -> Result<()> {
        self.waiting.news().await
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let (line, (dir, number)) = (&self.line, &self.what);
        line.watches.leave(&self.waiting, || {
            if self.known {
                line.order(statements::unwatch(line.session, dir, *number));
            }
        });
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let sql = statements::keep_alive(self.line.session);
        let outcomes = self.line.ask("keepalive", sql).await?;
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
        let joiners = [Joiner { queue, ticket }];
        let joined = self.join(&joiners, value, join == Join::IfFree).await?.pop().flatten();
        match joined {
            Some(joined) => Ok(joined),
            None if join == Join::IfFree => Ok(Joined::Occupied),
            // An operator has deleted what an earlier attempt had written.
            None => Err(StoreError::Unavailable("the entry was deleted meanwhile".into())),
        }
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let place = Place::of(entry);
        let sql = statements::standing(self.line.session, &place);
        let outcomes = self.line.ask(READ, sql).await?;
        let told = standing(place.dir, last(&outcomes)?.rows())?;
        let own = told.filter(|(own, _)| own.key == entry.key && own.revision == entry.revision);
        Ok(own.map_or(Standing::Evicted, |(_, standing)| standing))
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        let place = Place::of(entry);
        let sql = statements::present(self.line.session, &place, &Place::of(ahead));
        let outcomes = self.line.ask(READ, sql).await?;
        let rows = last(&outcomes)?.rows().iter();
        let found: Vec<_> = rows.filter_map(|row| key::entry(place.dir, row)).collect();
        let is_there = |entry: &Entry| {
            found.iter().any(|found| found.key == entry.key && found.revision == entry.revision)
        };
        Ok(Present { own: is_there(entry), ahead: Fate::of(is_there(ahead)) })
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let sql = statements::own_entries(self.line.session);
        let outcomes = self.line.ask(READ, sql).await?;
        let key = |row: &Row| Some(key::entry(row.text(4)?, row)?.key);
        last(&outcomes)?.rows().iter().map(|row| key(row).ok_or_else(nonsense)).collect()
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        // Before the server knows of it: what it says at once is heard.
        let mut registered = Registered::new(&self.line, place.dir, place.number);
        let sql = statements::watch(self.line.session, &place);
        let outcomes = self.line.ask("watch of a key", sql).await?;
        let told = outcomes.get(statements::WATCH_TELLS).ok_or_else(nonsense)?;
        let row = told
            .first()
            .filter(|row| key::entry(place.dir, row).is_some_and(|found| found.key == entry.key));
        let Some(row) = row else {
            // What has its number and another name is watched in vain.
            registered.known = told.first().is_some();
            return Ok(None);
        };
        let session = key::session_of(&entry.key);
        if let Some(session) = session.filter(|session| *session != self.line.session) {
            let end = left(row.number(4).ok_or_else(nonsense)?);
            self.line.watches.note(&registered.what, [(session, end)]);
        }
        Ok(Some(Box::pin(async move { registered.news().await.map(|()| Event::Deleted) })))
    }

    async fn leave(&self, queue: &Queue, ticket: Ticket, leave: Leaving<'_>) -> Result<Left> {
        let number = leave.entry.map(|entry| entry.revision);
        let successor = leave.successor.map(|successor| successor.revision);
        let sql = statements::leave(self.line.session, queue, ticket, number, successor);
        let outcomes = self.line.ask("leaving a queue", sql).await?;
        let [.., deleted, told] = outcomes.as_slice() else { return Err(nonsense()) };
        let row = told.first().ok_or_else(nonsense)?;
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
        let sql = statements::close(self.line.session);
        self.line.ask("ending a session", sql).await.map(drop)
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        self.read_all(queue, ask).await
    }
}
