//! What PostgreSQL is asked, and how a session is told of changes.

use async_trait::async_trait;

use super::{
    durability,
    message::Message,
    session::Session,
    statements::{self, PostgresStatements},
};
use crate::backend::{
    Ask, Durability, Entry, Listing, Queue, Result, Ticket, Watch,
    sql::{
        dialect::{Dialect, READ},
        key::Place,
        outcome::Outcome,
        registered::Registered,
        told::{last, listing, nonsense},
        watches::ASKED_ON_THE_WAY,
    },
};

#[async_trait]
impl Dialect for Session {
    type Statements = PostgresStatements;

    fn statements(&self) -> &PostgresStatements {
        &self.statements
    }

    fn session(&self) -> i64 {
        self.statements.session
    }

    async fn ask(&self, operation: &'static str, message: Message) -> Result<Vec<Outcome>> {
        self.connection.ask(operation, message).await
    }

    fn awaited(&self) -> Vec<i64> {
        self.watches.next_due(ASKED_ON_THE_WAY)
    }

    fn released(&self, ticket: Ticket) {
        self.released.add(ticket);
    }

    async fn durability(&self) -> Result<Durability> {
        let outcomes = self.ask(READ, durability::SQL.to_owned().into()).await?;
        last(&outcomes)?.first().map(durability::read).ok_or_else(nonsense)
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        // Before the server knows of it: what it says at once is heard.
        let registered = self.registered(place.dir, place.number);
        let outcomes =
            self.ask("watch of a key", statements::watch(self.session(), &place)).await?;
        let told = outcomes.get(statements::WATCH_TELLS).ok_or_else(nonsense)?;
        registered.on(self.session(), entry, told)
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.session());
        let registered = ask.watch.then(|| self.registered(dir, 0));
        let message = statements::list(session, dir, ask.values, ask.watch);
        let outcomes = self.ask(READ, message).await?;
        let rows = last(&outcomes)?.rows();
        let watch = registered.map(|registered| registered.on_queue(session, rows));
        listing(session, dir, rows, ask.values, watch)
    }
}

impl Session {
    fn registered(&self, dir: &str, number: u64) -> Registered {
        let (connection, session) = (self.connection.clone(), self.session());
        Registered::new(&self.watches, (dir, number), move |(dir, number)| {
            connection.order(statements::unwatch(session, dir, *number).into());
        })
    }
}
