//! Which of a session's keys are an attempt's, so that all others can be removed.
//!
//! A request to join that its client gave up may be served at any later time: once a network is
//! mended, or once a server that stood still goes on. The key that it puts belongs to a session
//! that lives on, and would block its queue for as long as the session lives. No fixed time bounds
//! this. So the session lists its keys in the store from time to time. It removes every key that
//! belongs to no attempt and that no pending request may have put.
//!
//! A name alone decides nothing: a ticket is used again once all of its requests were answered, and
//! its name comes again. What decides is the revision at which the key was created. It is read
//! first and compared with the claims afterwards, so that an attempt that began before the read is
//! known; and the removal is conditional on it, so that what was put since stays.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::own_key::OwnKey;
use crate::{
    backend::{Entry, Facts, name::Ticket},
    runtime::mutex::Mutex,
};

/// The attempts of one session, by their tickets.
#[derive(Debug)]
pub(crate) struct Claims {
    /// See [`Facts`](crate::backend::Facts).
    joins_late: bool,
    ticket_in: Option<fn(&str) -> Option<Ticket>>,
    attempts: Mutex<HashMap<Ticket, Claim>>,
    doubted: AtomicBool,
    doubt: Notify,
}

/// What an attempt may have in the store.
#[derive(Debug)]
enum Claim {
    /// Any key of its ticket: a request is under way that may put one.
    Open,
    /// This key.
    Key(Arc<OwnKey>),
}

impl Claims {
    pub(crate) fn new(facts: &Facts) -> Self {
        let (attempts, doubted, doubt) = Default::default();
        let Facts { joins_late, ticket_in, .. } = *facts;
        Self { joins_late, ticket_in, attempts, doubted, doubt }
    }

    /// A request of this ticket is about to be sent that may put a key.
    pub(crate) fn open(&self, ticket: Ticket) {
        self.claim(ticket, Claim::Open);
    }

    /// All that this ticket has is this key.
    pub(crate) fn settle(&self, ticket: Ticket, own: &Arc<OwnKey>) {
        self.claim(ticket, Claim::Key(Arc::clone(own)));
    }

    fn claim(&self, ticket: Ticket, claim: Claim) {
        if self.ticket_in.is_some() {
            self.attempts.lock().insert(ticket, claim);
        }
    }

    /// The store has confirmed that the ticket no longer has a key.
    pub(crate) fn end(&self, ticket: Ticket) {
        self.attempts.lock().remove(&ticket);
    }

    /// A request to join may be served at any later time.
    pub(crate) fn doubt(&self) {
        if self.joins_late {
            self.doubted.store(true, Ordering::Relaxed);
            self.doubt.notify_one();
        }
    }

    /// Returns `true` if a key may appear that no attempt has, for as long as the session lives.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// Waits for the next doubt.
    pub(crate) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Returns `true` if a key of this name may be none of an attempt's, so that its revision has
    /// to be read.
    pub(crate) fn suspects(&self, key: &str) -> bool {
        // Of its own key there can be another one only if a request of its may be served yet.
        self.is_unclaimed(key, |own| *own.entry.key != *key || own.repeats)
    }

    /// Returns `true` if a key that was read a moment ago is none of an attempt's.
    pub(crate) fn is_stray(&self, entry: &Entry) -> bool {
        self.is_unclaimed(&entry.key, |own| !own.is(entry))
    }

    fn is_unclaimed(&self, key: &str, is_another: impl FnOnce(&OwnKey) -> bool) -> bool {
        let Some(ticket) = self.ticket_in.and_then(|ticket_in| ticket_in(key)) else {
            return false;
        };
        match self.attempts.lock().get(&ticket) {
            Some(Claim::Open) => false,
            Some(Claim::Key(own)) => is_another(own),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{backend::SequencePoint, session::own_keys::OwnKeys};

    fn own(key: &str, revision: u64, repeats: bool) -> Arc<OwnKey> {
        OwnKeys::default().add(Entry::new(key, revision), SequencePoint(1), Duration::ZERO, repeats)
    }

    #[test]
    fn keys_that_no_attempt_has_are_strays() {
        let facts = Facts::new(Duration::ZERO);
        let claims =
            Claims::new(&Facts { joins_late: true, ticket_in: Some(Ticket::parse), ..facts });
        let ticket = Ticket::random();
        let name = ticket.to_string();
        let stray = |revision| claims.is_stray(&Entry::new(name.as_str(), revision));
        assert!(claims.suspects(&name) && stray(7));
        claims.open(ticket);
        assert!(!claims.suspects(&name) && !stray(7), "a request is under way");
        claims.settle(ticket, &own(&name, 7, false));
        assert!(!claims.suspects(&name) && !stray(7));
        assert!(stray(9), "the name alone proves nothing");
        claims.settle(ticket, &own(&name, 7, true));
        assert!(claims.suspects(&name) && !stray(7) && stray(9), "it may have been put again");
        claims.settle(ticket, &own("its key has another label", 7, false));
        assert!(claims.suspects(&name) && stray(7));
        claims.end(ticket);
        assert!(claims.suspects(&name) && stray(7));
        // What no attempt of ours can have put is left alone.
        assert!(!claims.suspects("tail") && !claims.is_stray(&Entry::new("tail", 7)));
        let ordered = Claims::new(&facts);
        ordered.doubt();
        assert!(!ordered.suspects(&name) && !ordered.is_in_doubt());
        let removed = Claims::new(&Facts { joins_late: true, ..facts });
        removed.doubt();
        assert!(!removed.suspects(&name) && removed.is_in_doubt(), "the store removes it");
    }
}
