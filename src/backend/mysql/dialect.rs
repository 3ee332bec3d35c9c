//! The requests to MySQL and MariaDB, and how a session polls for changes.

use async_trait::async_trait;

use super::{
    durability, looks,
    message::Message,
    registered::Registered,
    session::Session,
    statements::{self, MysqlStatements},
};
use crate::backend::{
    Ask, Durability, Entry, Event, Joiner, Listing, Queue, Result, Ticket, Watch,
    sql::{
        dialect::{Dialect, READ},
        key::{Place, ticket_in},
        outcome::Outcome,
        replies::{last, listing, nonsense},
        watched::What,
    },
};

#[async_trait]
impl Dialect for Session {
    type Statements = MysqlStatements;

    fn statements(&self) -> &MysqlStatements {
        &self.statements
    }

    fn session(&self) -> i64 {
        self.statements.session
    }

    async fn ask(&self, operation: &'static str, message: Message) -> Result<Vec<Outcome>> {
        match &self.by_pool {
            Some(by_pool) if message.goes_by_pool() => {
                if message.sweeps {
                    self.sweep().await?;
                }
                by_pool.ask(operation, message).await
            }
            _ => self.connection.ask(operation, message).await,
        }
    }

    fn notify(&self, dir: &str, number: u64) {
        self.connector.notify(dir, number);
    }

    fn renewed(&self) {
        self.connection.order(Message::default().sweeping());
    }

    fn gives_sql(&self, entry: &Entry) {
        if let Some(ticket) = ticket_in(&entry.key) {
            self.lockable.add(ticket);
        }
    }

    fn has_left(&self, Joiner { ticket, .. }: Joiner<'_>, _: bool) {
        self.lockable.remove(ticket);
    }

    fn released(&self, dir: &str, ticket: Ticket) {
        self.released.add(dir, ticket);
    }

    async fn sweep(&self) -> Result<bool> {
        self.ask(READ, Message::default().sweeping()).await.map(|_| true)
    }

    async fn durability(&self) -> Result<Durability> {
        let outcomes = self.ask(READ, statements::durability()).await?;
        Ok(durability::read(&outcomes))
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        let what: What = (place.dir.into(), place.number);
        // The registration precedes the query, so that changes of this client in between are
        // noticed.
        let registered = Registered::new(self, what.clone());
        let message = looks::first(&what);
        let outcomes = self.ask("watching a key", message).await?;
        let Some(row) = last(&outcomes)?.first() else { return Ok(None) };
        let (_, seen) = looks::read(row).ok_or_else(nonsense)?;
        // The entry has a new key, so the old one has gone.
        if seen.is != *entry.key {
            return Ok(None);
        }
        self.watches.note(&what, seen);
        Ok(Some(registered.until(Event::Deleted)))
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.session());
        let list = statements::list(dir, ask.values);
        let (rows, watch) = if ask.watch {
            let what: What = (dir.into(), 0);
            let registered = Registered::new(self, what.clone());
            let message = looks::listed(&what, list);
            let outcomes = self.ask(READ, message).await?;
            let [.., seen, rows] = outcomes.as_slice() else { return Err(nonsense()) };
            let (_, seen) = seen.first().and_then(looks::read).ok_or_else(nonsense)?;
            self.watches.note(&what, seen);
            (rows.rows().to_vec(), Some(registered.until(Event::Touched)))
        } else {
            let message = Message::plain(vec![list]).of_session().sweeping();
            let outcomes = self.ask(READ, message).await?;
            (last(&outcomes)?.rows().to_vec(), None)
        };
        listing(session, dir, &rows, ask.values, watch)
    }
}
