//! The queues in whose rows a session may have entries, because there is no index for them.

use std::collections::{HashMap, HashSet};

use tokio::sync::Notify;

use crate::{backend::Ticket, runtime::mutex::Mutex};

/// The number of doubtful queues that are remembered. Each join whose outcome is unknown adds its
/// queue for the rest of the session.
const DOUBTFUL: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct InRows {
    state: Mutex<State>,
    /// Notified when the reply to a join was read.
    joined: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The queues with entries of the session in their rows, and the tickets of these entries.
    known: HashMap<String, Vec<Ticket>>,
    /// The tickets of joins whose replies were not read yet. `true`: the entry has been deleted
    /// since.
    joining: HashMap<Ticket, bool>,
    /// The queues with a join that the server may still apply at any time.
    doubtful: HashSet<String>,
    /// There were more of them than are remembered.
    anywhere: bool,
}

impl InRows {
    /// Records that a join is about to be sent.
    pub(super) fn begin(&self, ticket: Ticket) {
        self.state.lock().joining.insert(ticket, false);
    }

    /// Records that the join's reply was read. `is_first`: the entry may be in the queue's row.
    pub(super) fn joined(&self, dir: &str, ticket: Ticket, is_first: bool) {
        let mut state = self.state.lock();
        let has_left = state.joining.remove(&ticket).unwrap_or(false);
        match is_first && !has_left {
            true => state.add(dir, ticket),
            false => drop(state.forget(dir, ticket)),
        }
        self.joined.notify_waiters();
    }

    /// Records that it is unknown whether a join was or will be applied.
    pub(super) fn doubt(&self, dir: &str, ticket: Ticket) {
        let mut state = self.state.lock();
        state.joining.remove(&ticket);
        state.doubt(dir);
        self.joined.notify_waiters();
    }

    /// Waits until no join of this ticket is pending. A leave would overtake it, because each kind
    /// waits for the connection separately.
    pub(super) async fn settled(&self, ticket: Ticket) {
        loop {
            let joined = self.joined.notified();
            if !self.state.lock().joining.contains_key(&ticket) {
                return;
            }
            joined.await;
        }
    }

    /// Records that the entry has moved to the table of entries.
    pub(super) fn moved(&self, dir: &str, ticket: Ticket) {
        self.state.lock().forget(dir, ticket);
    }

    /// Records that the server has confirmed the absence of the ticket's entry. `existed`: it was
    /// present before.
    ///
    /// A caller that has gone leaves while its join is pending. If the server applies the join
    /// later, the entry is present after all. The replies to both may be read in any order.
    pub(super) fn left(&self, dir: &str, ticket: Ticket, existed: bool) {
        let mut state = self.state.lock();
        if let Some(has_left) = state.joining.get_mut(&ticket) {
            *has_left |= existed;
        }
        if state.forget(dir, ticket) && !existed {
            state.doubt(dir);
        }
    }

    /// Returns the queues in whose rows the session may have entries. `None`: any queue.
    pub(super) fn dirs(&self) -> Option<Vec<String>> {
        let state = self.state.lock();
        if state.anywhere {
            return None;
        }
        let doubtful = state.doubtful.iter().filter(|dir| !state.known.contains_key(*dir));
        Some(state.known.keys().chain(doubtful).cloned().collect())
    }
}

impl State {
    fn add(&mut self, dir: &str, ticket: Ticket) {
        let tickets = self.known.entry(dir.to_owned()).or_default();
        if !tickets.contains(&ticket) {
            tickets.push(ticket);
        }
    }

    /// Returns `true` if the entry was known.
    fn forget(&mut self, dir: &str, ticket: Ticket) -> bool {
        let Some(tickets) = self.known.get_mut(dir) else { return false };
        let before = tickets.len();
        tickets.retain(|other| *other != ticket);
        let was_known = tickets.len() < before;
        if tickets.is_empty() {
            self.known.remove(dir);
        }
        was_known
    }

    fn doubt(&mut self, dir: &str) {
        if self.anywhere || self.doubtful.len() == DOUBTFUL && !self.doubtful.contains(dir) {
            self.anywhere = true;
            self.doubtful = HashSet::new();
        } else {
            self.doubtful.insert(dir.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(rows: &InRows, dir: &str, ticket: Ticket) {
        rows.begin(ticket);
        rows.joined(dir, ticket, true);
    }

    #[test]
    fn entries_are_tracked_until_confirmed_deleted() {
        let (rows, one, other) = (InRows::default(), Ticket::random(), Ticket::random());
        join(&rows, "/ns/a", one);
        join(&rows, "/ns/a", one);
        join(&rows, "/ns/a", other);
        rows.left("/ns/a", one, true);
        assert_eq!(rows.dirs().unwrap(), ["/ns/a"]);
        rows.moved("/ns/a", other);
        assert!(rows.dirs().unwrap().is_empty(), "asked twice, it is still one entry");
        rows.begin(one);
        rows.doubt("/ns/b", one);
        join(&rows, "/ns/b", one);
        rows.left("/ns/b", one, true);
        assert_eq!(rows.dirs().unwrap(), ["/ns/b"], "an earlier request may be done yet");
        assert!(rows.state.lock().joining.is_empty());
    }

    #[test]
    fn late_entry_of_departed_caller_is_tracked() {
        for reply_is_read_first in ["leave", "join"] {
            let (rows, ticket) = (InRows::default(), Ticket::random());
            rows.begin(ticket);
            // The server has done it before.
            if reply_is_read_first == "leave" {
                rows.left("/ns/a", ticket, false);
                rows.joined("/ns/a", ticket, true);
            } else {
                rows.joined("/ns/a", ticket, true);
                rows.left("/ns/a", ticket, false);
            }
            assert_eq!(rows.dirs().unwrap(), ["/ns/a"], "{reply_is_read_first} is read first");
        }
    }

    #[test]
    fn entry_deleted_before_its_insert_is_read_is_not_tracked() {
        let (rows, ticket) = (InRows::default(), Ticket::random());
        rows.begin(ticket);
        rows.left("/ns/a", ticket, true);
        rows.joined("/ns/a", ticket, true);
        assert!(rows.dirs().unwrap().is_empty());
        // Its ticket is used again.
        join(&rows, "/ns/a", ticket);
        assert_eq!(rows.dirs().unwrap(), ["/ns/a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn leave_waits_for_own_join_request() {
        let (rows, ticket, other) = (InRows::default(), Ticket::random(), Ticket::random());
        rows.begin(ticket);
        rows.settled(other).await;
        let hour = std::time::Duration::from_secs(3600);
        tokio::select! {
            () = rows.settled(ticket) => panic!("it is under way"),
            () = tokio::time::sleep(hour) => {}
        }
        tokio::join!(rows.settled(ticket), async { rows.joined("/ns/a", ticket, true) });
        rows.begin(ticket);
        tokio::join!(rows.settled(ticket), async { rows.doubt("/ns/a", ticket) });
    }

    #[test]
    fn unknown_outcomes_are_bounded() {
        let (rows, ticket) = (InRows::default(), Ticket::random());
        for _ in 0..2 {
            (0..DOUBTFUL).for_each(|number| rows.doubt(&number.to_string(), ticket));
            assert_eq!(rows.dirs().map(|dirs| dirs.len()), Some(DOUBTFUL));
        }
        for dir in ["/ns/a", "/ns/b"] {
            rows.doubt(dir, ticket);
            assert_eq!(rows.dirs(), None, "it may be anywhere");
            assert!(rows.state.lock().doubtful.is_empty());
        }
    }
}
