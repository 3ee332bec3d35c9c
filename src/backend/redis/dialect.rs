//! The requests of a Redis session, and its notifications.

use std::sync::Arc;

use async_trait::async_trait;

use super::{
    call::Acks,
    gate, labels,
    message::{self, Calls, Message},
    shared::Shared,
    waiting,
};
use crate::backend::{
    Ask, Durability, Entry, Listing, LossListener, Part, Queue, Result, Watch, Which,
    sql::{
        connection_handle::ConnectionHandle,
        dialect::{Dialect, READ},
        key::Place,
        outcome::Outcome,
        registered::Registered,
        replies::{last, listing, nonsense},
        watches::ASKED_ON_THE_WAY,
    },
};

/// The connections of a session.
#[derive(Debug)]
pub(super) struct Connections {
    pub(super) calls: Calls,
    pub(super) shared: Arc<Shared>,
    pub(super) requests: ConnectionHandle<Message>,
    pub(super) beats: ConnectionHandle<Message>,
    /// The connection for requests that wait for replicas, if the client requires that.
    pub(super) acks: Option<ConnectionHandle<Message>>,
}

#[async_trait]
impl Dialect for Connections {
    type Statements = Calls;

    fn statements(&self) -> &Calls {
        &self.calls
    }

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
        let owner = match &message {
            Message::Call(call) => call.owner.clone(),
            _ => None,
        };
        let outcomes = connection.ask(operation, message).await?;
        if let Some(owner) = owner {
            self.calls.owner.sent(&owner);
        }
        if is_beat {
            gate::tell_losses(&self.shared.losses, &outcomes)?;
        }
        Ok(outcomes)
    }

    fn on_loss(&self, listener: LossListener) {
        self.shared.losses.listen(listener);
    }

    fn awaited(&self) -> Vec<i64> {
        self.shared.watches.next_due(ASKED_ON_THE_WAY)
    }

    async fn sweep(&self) -> Result<bool> {
        self.requests.ask("ending sessions", message::sweep().into()).await?;
        Ok(true)
    }

    async fn durability(&self) -> Result<Durability> {
        self.ask(READ, Message::Settings).await?;
        let mut durability = self.shared.durability.lock().clone().ok_or_else(nonsense)?;
        if let Some(bridge) = &self.calls.bridge {
            gate::limit(&mut durability, bridge);
        }
        Ok(durability)
    }

    async fn watch(&self, entry: &Entry) -> Result<Option<Watch>> {
        let place = Place::of(entry);
        if let Some(gate) = self.calls.gate(place.dir).filter(|_| place.number == 0) {
            return waiting::watch(&self.shared, &self.requests, place.dir, gate).await;
        }
        // Register before the server knows the watch, so that an immediate notification is not
        // missed.
        let registered = self.registered(place.dir, place.number);
        let outcomes = self.ask("watching a key", message::watch(&place).into()).await?;
        registered.on(self.session(), entry, last(&outcomes)?)
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let (dir, session) = (queue.dir(), self.session());
        let is_watched = |part: &Part| ask.watch && part.which != Which::Labels;
        let part = ask.part.filter(|part| !ask.values && !is_watched(part));
        let registered = ask.watch.then(|| self.registered(dir, 0));
        let call = match part {
            Some(part) => message::part(dir, part, ask.watch),
            None => message::list(dir, ask.values, ask.watch, self.calls.gate(dir).as_ref()),
        };
        let outcomes = self.ask(READ, call.into()).await?;
        let rows = last(&outcomes)?.rows();
        let watch = registered.map(|registered| registered.on_queue(session, rows));
        match part {
            Some(Part { which: Which::Labels, .. }) => labels::listing(session, dir, rows, watch),
            _ => listing(session, dir, rows, ask.values, watch),
        }
    }
}

impl Connections {
    /// Registers a watch, which must end on the connection that it began on. Otherwise its end
    /// could overtake the next watch of the same queue. A listing waits for replicas; a watch of
    /// one entry does not.
    fn registered(&self, dir: &str, number: u64) -> Registered {
        let listing = self.acks.as_ref().filter(|_| number == 0);
        let connection = listing.unwrap_or(&self.requests).clone();
        Registered::new(&self.shared.watches, (dir, number), move |(dir, number)| {
            connection.order(message::unwatch(dir, *number).into());
        })
    }
}
