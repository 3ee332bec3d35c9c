//! What PostgreSQL is asked, and how a session is told of changes.

use async_trait::async_trait;

use super::{durability, message::Message, session::Session, statements};
use crate::backend::{
    Ask, Entry, Event, Listing, Watch, Write,
    durability::Durability,
    error::Result,
    name::{Queue, Ticket},
    sql::{
        dialect::{Dialect, Joiner, READ},
        key::{self, Place},
        outcome::{Outcome, Row},
        registered::Registered,
        told::{last, left, listing, nonsense},
        watches::ASKED_ON_THE_WAY,
    },
};

#[async_trait]
impl Dialect for Session {
    type Message = Message;

    fn session(&self) -> i64 {
        self.session
    }

    async fn ask(&self, operation: &'static str, message: Message) -> Result<Vec<Outcome>> {
        self.connection.ask(operation, message).await
    }

    fn released(&self, ticket: Ticket) {
        self.released.add(ticket);
    }

    fn keep_alive(&self) -> Message {
        statements::keep_alive(self.session, &self.watches.next_due(ASKED_ON_THE_WAY))
    }

    fn close(&self) -> Message {
        statements::close(self.session).into()
    }

    fn join(&self, turn: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        statements::join(self.session, turn, joiners, value, if_free)
    }

    fn standing(&self, own: &Place<'_>) -> Message {
        statements::standing(self.session, own)
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        statements::present(self.session, own, ahead)
    }

    fn own_entries(&self) -> Message {
        statements::own_entries(self.session).into()
    }

    fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        number: Option<u64>,
        successor: Option<u64>,
    ) -> Message {
        statements::leave(self.session, queue, ticket, number, successor).into()
    }

    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        statements::rewrite(self.session, entry, value, version).into()
    }

    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        statements::relabel(self.session, entry, label, value).into()
    }

    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        statements::commit(self.session, guards, writes).into()
    }

    fn read(&self, key: &str) -> Message {
        statements::read(key).into()
    }

    fn queues(&self, namespace: &str) -> Message {
        statements::queues(self.session, namespace)
    }

    async fn durability(&self) -> Result<Durability> {
        let outcomes = self.ask(READ, durability::SQL.to_owned().into()).await?;
        last(&outcomes)?.first().map(durability::read).ok_or_else(nonsense)
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        // Before the server knows of it: what it says at once is heard.
        let mut registered = self.registered(place.dir, place.number);
        let sql = statements::watch(self.session, &place);
        let outcomes = self.ask("watch of a key", sql).await?;
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
        if let Some(session) = session.filter(|session| *session != self.session) {
            let end = left(row.number(4).ok_or_else(nonsense)?);
            self.watches.note(&registered.what, [(session, end)]);
        }
        Ok(Some(Box::pin(async move { registered.news().await.map(|()| Event::Deleted) })))
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.session);
        let registered = ask.watch.then(|| self.registered(dir, 0));
        let sql = statements::list(session, dir, ask.values, ask.watch);
        let outcomes = self.ask(READ, sql).await?;
        let rows = last(&outcomes)?.rows();
        let watch = registered.map(|mut registered| {
            let end = |row: &Row| {
                let owner = i64::from_str_radix(row.text(1)?, 16).ok()?;
                Some((owner, left(row.number(4)?))).filter(|(owner, _)| *owner != session)
            };
            self.watches.note(&registered.what, rows.iter().filter_map(end));
            Box::pin(async move { registered.news().await.map(|()| Event::Touched) }) as Watch
        });
        listing(session, dir, rows, ask.values, watch)
    }
}

impl Session {
    fn registered(&self, dir: &str, number: u64) -> Registered {
        let (connection, session) = (self.connection.clone(), self.session);
        Registered::new(&self.watches, (dir, number), move |(dir, number)| {
            connection.order(statements::unwatch(session, dir, *number).into());
        })
    }
}
