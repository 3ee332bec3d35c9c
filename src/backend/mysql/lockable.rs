//! Entries that a user's transaction may have locked: an `UPDATE` would wait for them.

use std::collections::HashSet;

use crate::{backend::Ticket, runtime::mutex::Mutex};

/// The tickets of entries for which the user has got SQL, until they leave.
#[derive(Debug, Default)]
pub(super) struct Lockable(Mutex<HashSet<String>>);

impl Lockable {
    pub(super) fn add(&self, ticket: Ticket) {
        self.0.lock().insert(ticket.to_string());
    }

    pub(super) fn remove(&self, ticket: Ticket) {
        let mut tickets = self.0.lock();
        if !tickets.is_empty() {
            tickets.remove(&ticket.to_string());
        }
    }

    pub(super) fn contains(&self, ticket: &str) -> bool {
        self.0.lock().contains(ticket)
    }
}
