//! What Redis is asked, and how a session is told of changes.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    gate::{self, Gate},
    message::{self, Acks, Message},
    shared::Shared,
    waiting,
};
use crate::backend::{
    Ask, Entry, Event, Listing, ToldOfLoss, Watch, Write,
    bridge::Bridge,
    durability::Durability,
    error::Result,
    name::{Queue, Ticket},
    sql::{
        connection_handle::ConnectionHandle,
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
pub(super) struct Connections {
    pub(super) shared: Arc<Shared>,
    pub(super) requests: ConnectionHandle<Message>,
    pub(super) beats: ConnectionHandle<Message>,
    /// If replicas have to have what counts.
    pub(super) acks: Option<ConnectionHandle<Message>>,
}

#[async_trait]
impl Dialect for Connections {
    type Message = Message;

    fn session(&self) -> i64 {
        self.shared.session
    }

    async fn ask(&self, operation: &'static str, message: Message) -> Result<Vec<Outcome>> {
        let connection = match &message {
            Message::Call(call) if call.beats => &self.beats,
            Message::Call(call) if call.acks != Acks::Nothing => {
                self.acks.as_ref().unwrap_or(&self.requests)
            }
            _ => &self.requests,
        };
        let is_beat = matches!(&message, Message::Call(call) if call.beats);
        let outcomes = connection.ask(operation, message).await?;
        if is_beat {
            self.shared.losses.tell(&outcomes)?;
        }
        Ok(outcomes)
    }

    fn on_loss(&self, told: ToldOfLoss) {
        self.shared.losses.listen(told);
    }

    /// A server that does not know of it does not know the session's last write either, with which
    /// the session is lost.
    fn released(&self, _: Ticket) {}

    fn keep_alive(&self) -> Message {
        message::keep_alive(&self.shared.watches.next_due(ASKED_ON_THE_WAY)).into()
    }

    fn close(&self) -> Message {
        message::close().into()
    }

    fn join(&self, _: i64, joiners: &[Joiner<'_>], value: &[u8], if_free: bool) -> Message {
        message::join(joiners, value, if_free, self.bridge()).into()
    }

    fn standing(&self, own: &Place<'_>) -> Message {
        message::standing(own, self.gate(own.dir).as_ref()).into()
    }

    fn present(&self, own: &Place<'_>, ahead: &Place<'_>) -> Message {
        message::present(own, ahead, self.gate(own.dir).as_ref()).into()
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

    fn commit(&self, guards: &[Place<'_>], writes: &[Write]) -> Message {
        message::commit(guards, writes, self.bridge()).into()
    }

    fn read(&self, key: &str) -> Message {
        message::read(key).into()
    }

    fn queues(&self, namespace: &str) -> Message {
        message::queues(namespace).into()
    }

    async fn durability(&self) -> Result<Durability> {
        self.ask(READ, Message::Settings).await?;
        let mut told = self.shared.durability.lock().clone().ok_or_else(nonsense)?;
        if let Some(bridge) = self.bridge() {
            gate::limit(&mut told, bridge);
        }
        Ok(told)
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        if let Some(gate) = self.gate(place.dir).filter(|_| place.number == 0) {
            return waiting::watch(&self.shared, &self.requests, place.dir, gate).await;
        }
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
        let message = message::list(dir, ask.values, ask.watch, self.gate(dir).as_ref());
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

impl Connections {
    fn bridge(&self) -> Option<&Bridge> {
        self.shared.connector.bridge()
    }

    fn gate(&self, dir: &str) -> Option<Gate> {
        Gate::of(self.bridge(), dir)
    }

    fn registered(&self, dir: &str, number: u64) -> Registered {
        let connection = self.requests.clone();
        Registered::new(&self.shared.watches, (dir, number), move |(dir, number)| {
            connection.order(message::unwatch(dir, *number).into());
        })
    }
}
