//! The requests to PostgreSQL, and how a session learns of changes.

use async_trait::async_trait;

use super::{
    durability,
    looks::Look,
    message::Message,
    opening,
    session::Session,
    statements::{self, PostgresStatements},
};
use crate::{
    backend::{
        Ask, Durability, Entry, Fate, Joined, Joiner, Listing, Queue, Result, Standing, Ticket,
        Watch, Watched,
        sql::{
            dialect::{Dialect, READ},
            key::{self, Place},
            outcome::Outcome,
            registered::Registered,
            replies::{last, listing, nonsense, present},
            step::Kind,
            watches::ASKED_ON_THE_WAY,
        },
    },
    runtime::{OnDrop, clock::timeout},
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
        let _leaves = self.in_order(&message).await;
        if let Some(ticket) = message.leaves_with().and_then(Ticket::parse) {
            // By then the join's outcome is known, or the time for it is over.
            let joined = self.statements.in_rows.settled(ticket);
            drop(timeout(self.connection.patience() * 2, joined).await);
        }
        self.connection.ask(operation, message).await
    }

    fn awaited(&self) -> Vec<i64> {
        self.watches.next_due(ASKED_ON_THE_WAY)
    }

    fn has_left(&self, Joiner { queue, ticket }: Joiner<'_>, existed: bool) {
        self.statements.in_rows.left(queue.dir(), ticket, existed);
    }

    fn released(&self, dir: &str, ticket: Ticket) {
        self.released.add(dir, ticket);
    }

    fn has_joined(&self, joiners: &[Joiner<'_>], joined: Option<&[Option<Joined>]>) {
        let in_rows = &self.statements.in_rows;
        let Some(joined) = joined else {
            joiners.iter().for_each(|joiner| in_rows.doubt(joiner.queue.dir(), joiner.ticket));
            return;
        };
        for (Joiner { queue, ticket }, joined) in joiners.iter().zip(joined) {
            // Only the first entry of a queue may be in its row.
            let is_first = matches!(joined, Some(Joined::Queued { standing: Standing::First, .. }));
            in_rows.joined(queue.dir(), *ticket, is_first);
        }
    }

    async fn sweep(&self) -> Result<bool> {
        self.ask(READ, statements::sweep()).await.map(|_| true)
    }

    fn renewed(&self) {
        self.connection.order(opening::tidy(self.connection.patience()));
    }

    async fn durability(&self) -> Result<Durability> {
        let outcomes = self.ask(READ, durability::SQL.to_owned().into()).await?;
        last(&outcomes)?.first().map(durability::read).ok_or_else(nonsense)
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        self.watch_beside(entry, None).await.map(|(watch, _)| watch)
    }

    async fn watch_ahead(&self, ahead: &Entry, own: &Entry) -> Result<Option<Watched>> {
        let (watch, found) = self.watch_beside(ahead, Some(own)).await?;
        let present = present(own, ahead, found.rows());
        Ok(Some(match watch {
            Some(watch) if present.own => Watched::Begun(watch),
            None if present.ahead == Fate::There => Watched::Gone,
            _ => Watched::Over(present),
        }))
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
    /// Watches an entry, and reads it and an own one.
    async fn watch_beside(
        &self,
        entry: &Entry,
        own: Option<&Entry>,
    ) -> Result<(Option<Watch>, Outcome)> {
        let place = Place::of(entry);
        // The registration precedes the request, so that an immediate notification arrives.
        let registered = self.registered(place.dir, place.number);
        let own = own.map(Place::of);
        let watch = Message::from(Look::watch(&place, own.as_ref())).listening();
        let mut outcomes = self.ask("watching a key", watch).await?;
        // The server has moved the watched entry out of the queue's row.
        if let Some(ticket) = key::ticket_in(&entry.key) {
            self.statements.in_rows.moved(place.dir, ticket);
        }
        let (found, watched) = (outcomes.pop(), outcomes.pop());
        let (found, watched) = found.zip(watched).ok_or_else(nonsense)?;
        Ok((registered.on(self.session(), entry, &watched)?, found))
    }

    /// Delays a join until this client's earlier releases from its queues have ended on other
    /// connections. It waits at most half a request's time, because a user's transaction may delay
    /// the releases further. A release is pending until the returned value is dropped.
    async fn in_order(&self, message: &Message) -> Option<OnDrop<impl Fn() + use<>>> {
        let leaving = self.leaving.as_ref()?;
        let queues: Vec<_> = match message.step() {
            Some(step) if step.kind() == Kind::Leave => return Some(leaving.begin(step.dir())),
            Some(step) => vec![step.dir()],
            None => message.joins.iter().map(String::as_str).collect(),
        };
        drop(timeout(self.connection.patience() / 2, leaving.none_in(&queues)).await);
        None
    }

    fn registered(&self, dir: &str, number: u64) -> Registered {
        let (connection, session) = (self.connection.clone(), self.session());
        Registered::new(&self.watches, (dir, number), move |(dir, number)| {
            connection.order(statements::unwatch(session, dir, *number).into());
        })
    }
}
