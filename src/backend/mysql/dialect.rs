//! What MySQL and MariaDB are asked, and how a session looks for changes.

use async_trait::async_trait;

use super::{
    durability,
    looks::{self, What},
    message::Message,
    registered::Registered,
    session::Session,
    statements,
};
use crate::backend::{
    Ask, Entry, Event, Listing, Watch, Write,
    durability::Durability,
    error::Result,
    name::{Queue, Ticket},
    sql::{
        dialect::{Dialect, Joiner, READ},
        key::Place,
        outcome::Outcome,
        told::{last, listing, nonsense},
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

    fn tell(&self, dir: &str, number: u64) {
        self.connector.tell(dir, number);
    }

    fn released(&self, ticket: Ticket) {
        self.released.add(ticket);
    }

    fn keep_alive(&self) -> Message {
        statements::keep_alive(self.session)
    }

    fn close(&self) -> Message {
        statements::close(self.session)
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
        statements::own_entries(self.session)
    }

    fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        number: Option<u64>,
        successor: Option<u64>,
    ) -> Message {
        statements::leave(self.session, queue, ticket, number, successor)
    }

    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        statements::rewrite(self.session, entry, value, version)
    }

    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        statements::relabel(self.session, entry, label, value)
    }

    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        statements::commit(self.session, guards, writes)
    }

    fn read(&self, key: &str) -> Message {
        statements::read(key)
    }

    fn queues(&self, namespace: &str) -> Message {
        statements::queues(self.session, namespace)
    }

    async fn durability(&self) -> Result<Durability> {
        let outcomes = self.ask(READ, statements::durability()).await?;
        Ok(durability::read(&outcomes))
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        let what: What = (place.dir.into(), place.number);
        // Before it is looked at: what this client does meanwhile is heard.
        let mut registered = Registered::new(self, what.clone());
        let message = looks::first(self.session, &what);
        let outcomes = self.ask("watch of a key", message).await?;
        let Some(row) = last(&outcomes)?.first() else { return Ok(None) };
        let (_, seen) = looks::read(row).ok_or_else(nonsense)?;
        // What has its number and another name is watched in vain.
        if seen.is != *entry.key {
            return Ok(None);
        }
        self.watches.note(&what, seen);
        Ok(Some(Box::pin(async move { registered.news().await.map(|()| Event::Deleted) })))
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.session);
        let list = statements::list(dir, ask.values);
        let (rows, watch) = if ask.watch {
            let what = (dir.into(), 0);
            let mut registered = Registered::new(self, what);
            let what = (dir.into(), 0);
            let message = looks::listed(session, &what, list);
            let outcomes = self.ask(READ, message).await?;
            let [.., seen, rows] = outcomes.as_slice() else { return Err(nonsense()) };
            let (_, seen) = seen.first().and_then(looks::read).ok_or_else(nonsense)?;
            self.watches.note(&what, seen);
            let watch = async move { registered.news().await.map(|()| Event::Touched) };
            (rows.rows().to_vec(), Some(Box::pin(watch) as Watch))
        } else {
            let message = statements::reads(session, vec![list]).sweeping();
            let outcomes = self.ask(READ, message).await?;
            (last(&outcomes)?.rows().to_vec(), None)
        };
        listing(session, dir, &rows, ask.values, watch)
    }
}
