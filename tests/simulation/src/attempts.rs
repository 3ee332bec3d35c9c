//! Which of a session's keys belong to an attempt: a store's adapter tracks this where the names of
//! the keys do not show it.

use std::{collections::HashMap, sync::Arc};

use crate::{
    backend::{Joined, Ticket},
    runtime::mutex::Mutex,
};

/// The key of each attempt, by ticket; `None` while a request that may create one is under way.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<String, Option<Arc<str>>>>);

impl Attempts {
    /// Records that a request that may create this ticket's key is about to be sent.
    pub(crate) fn begin(&self, ticket: Ticket) {
        self.0.lock().insert(ticket.to_string(), None);
    }

    pub(crate) fn joined(&self, ticket: Ticket, joined: &Joined) {
        match joined {
            Joined::Queued { entry, .. } => self.has(ticket, &entry.key),
            Joined::Occupied => self.end(ticket),
        }
    }

    pub(crate) fn has(&self, ticket: Ticket, key: &Arc<str>) {
        self.0.lock().insert(ticket.to_string(), Some(Arc::clone(key)));
    }

    /// Records that the store has confirmed that the ticket has no key.
    pub(crate) fn end(&self, ticket: Ticket) {
        self.0.lock().remove(&ticket.to_string());
    }

    /// Returns `true` if a key that contains this ticket belongs to no attempt.
    pub(crate) fn is_stray(&self, key: &Arc<str>, ticket: &str) -> bool {
        self.0.lock().get(ticket).is_none_or(|own| own.as_ref().is_some_and(|own| own != key))
    }
}
