//! What Redis is asked, and how a session is told of changes.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    line::{Line, Shared},
    message::{self, Message},
};
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

/// A session's way to the server.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: Line,
    pub(super) beats: Line,
}

#[async_trait]
impl Dialect for Lines {
    type Message = Message;

    fn session(&self) -> i64 {
        self.shared.session
    }

    async fn ask(&self, operation: &'static str, message: Message) -> Result<Vec<Outcome>> {
        let line = match &message {
            Message::Call(call) if call.beats => &self.beats,
            _ => &self.requests,
        };
        line.ask(operation, message).await
    }

    fn released(&self, ticket: Ticket) {
        self.shared.released.add(ticket);
    }

    fn keep_alive(&self) -> Message {
        message::keep_alive(&self.shared.watches.next_due(ASKED_ON_THE_WAY)).into()
    }

    fn close(&self) -> Message {
        message::close().into()
    }

    fn join(&self, _: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        message::join(joiners, value, if_free).into()
    }

    fn standing(&self, own: &Place<'_>) -> Message {
        message::standing(own).into()
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        message::present(own, ahead).into()
    }

    fn own_entries(&self) -> Message {
        message::own_entries().into()
    }

    fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        number: Option<u64>,
        successor: Option<u64>,
    ) -> Message {
        message::leave(queue, ticket, number, successor).into()
    }

    fn rewrite(&self, entry: &Place<'_>, value: &[u8], version: u64) -> Message {
        message::rewrite(entry, value, version).into()
    }

    fn relabel(&self, entry: &Place<'_>, label: &str, value: &[u8]) -> Message {
        message::relabel(entry, label, value).into()
    }

    fn commit(&self, guard: Option<&Place<'_>>, writes: &[Write]) -> Message {
        message::commit(guard, writes).into()
    }

    fn read(&self, key: &str) -> Message {
        message::read(key).into()
    }

    fn queues(&self, namespace: &str) -> Message {
        message::queues(namespace).into()
    }

    fn followed(&self, entry: &Place<'_>) -> Message {
        message::followed(entry).into()
    }

    async fn durability(&self) -> Result<Durability> {
        self.ask(READ, Message::Settings).await?;
        self.shared.durability.lock().clone().ok_or_else(nonsense)
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        // Before the server knows of it: what it says at once is heard.
        let mut registered = self.registered(place.dir, place.number);
        let outcomes = self.ask("watch of a key", message::watch(&place).into()).await?;
        let told = last(&outcomes)?;
        let row = told
            .first()
            .filter(|row| key::entry(place.dir, row).is_some_and(|found| found.key == entry.key));
        let Some(row) = row else {
            // What has its number and another name is watched in vain.
            registered.known = told.first().is_some();
            return Ok(None);
        };
        let session = key::session_of(&entry.key);
        if let Some(session) = session.filter(|session| *session != self.shared.session) {
            let end = left(row.number(4).ok_or_else(nonsense)?);
            self.shared.watches.note(&registered.what, [(session, end)]);
        }
        Ok(Some(Box::pin(async move { registered.news().await.map(|()| Event::Deleted) })))
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.shared.session);
        let registered = ask.watch.then(|| self.registered(dir, 0));
        let message = message::list(dir, ask.values, ask.watch);
        let outcomes = self.ask(READ, message.into()).await?;
        let rows = last(&outcomes)?.rows();
        let watch = registered.map(|mut registered| {
            let end = |row: &Row| {
                let owner = i64::from_str_radix(row.text(1)?, 16).ok()?;
                Some((owner, left(row.number(4)?))).filter(|(owner, _)| *owner != session)
            };
            self.shared.watches.note(&registered.what, rows.iter().filter_map(end));
            Box::pin(async move { registered.news().await.map(|()| Event::Touched) }) as Watch
        });
        listing(session, dir, rows, ask.values, watch)
    }
}

impl Lines {
    fn registered(&self, dir: &str, number: u64) -> Registered {
        let line = self.requests.clone();
        Registered::new(&self.shared.watches, (dir, number), move |(dir, number)| {
            line.order(message::unwatch(dir, *number));
        })
    }
}
