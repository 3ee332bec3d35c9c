//! What a session has released of late, in case the server is followed by one that does not know.

use std::collections::VecDeque;

use crate::{backend::Ticket, runtime::mutex::Mutex};

/// How many releases are remembered: more than a standby lags behind.
const REMEMBERED: usize = 4096;

/// The tickets of entries that were deleted, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Released(Mutex<VecDeque<Ticket>>);

impl Released {
    /// The server has confirmed it.
    pub(crate) fn add(&self, ticket: Ticket) {
        let mut tickets = self.0.lock();
        if tickets.len() == REMEMBERED {
            tickets.pop_front();
        }
        tickets.push_back(ticket);
    }

    /// As a list for SQL, if there are any.
    pub(crate) fn list(&self) -> Option<String> {
        let tickets = self.0.lock();
        let quoted: Vec<_> = tickets.iter().map(|ticket| format!("'{ticket}'")).collect();
        (!quoted.is_empty()).then(|| quoted.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered() {
        let released = Released::default();
        assert_eq!(released.list(), None);
        let tickets: Vec<_> = (0..=REMEMBERED).map(|_| Ticket::random()).collect();
        released.add(tickets[0]);
        assert_eq!(released.list().unwrap(), format!("'{}'", tickets[0]));
        for ticket in &tickets[1..] {
            released.add(*ticket);
        }
        let list = released.list().unwrap();
        assert!(!list.contains(&tickets[0].to_string()));
        assert!(tickets[1..].iter().all(|ticket| list.contains(&ticket.to_string())));
    }
}
