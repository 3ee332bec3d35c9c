//! Which of a session's keys are an attempt's, as the adapter of a store knows it whose keys' names
//! do not tell.

use std::{collections::HashMap, sync::Arc};

use crate::{
    backend::{Joined, Ticket},
    runtime::mutex::Mutex,
};

/// The key of each attempt, by its ticket; `None` while a request is under way that may put one.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<String, Option<Arc<str>>>>);

impl Attempts {
    /// A request of this ticket is about to be sent that may put a key.
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

    /// The store has confirmed that the ticket no longer has a key.
    pub(crate) fn end(&self, ticket: Ticket) {
        self.0.lock().remove(&ticket.to_string());
    }

    /// Returns `true` if a key with this ticket in it is none of an attempt's.
    pub(crate) fn is_stray(&self, key: &Arc<str>, ticket: &str) -> bool {
        self.0.lock().get(ticket).is_none_or(|own| own.as_ref().is_some_and(|own| own != key))
    }
}
