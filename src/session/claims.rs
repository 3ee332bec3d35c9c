//! The keys of a session that belong to attempts. All other keys can be removed.
//!
//! The store may apply a join request long after its client has given up: once the network is
//! repaired, or once a paused server resumes. The key then belongs to a live session, and would
//! block its queue as long as that session lives. No fixed time limit prevents this. The session
//! therefore lists its keys in the store periodically. It removes every key that belongs to no
//! attempt and that no pending request may have created.
//!
//! A name alone proves nothing: a ticket may be reused once all of its requests have been answered,
//! and the same name then appears again. The revision at which a key was created decides. The
//! session reads the revision first and compares it with the claims afterwards, so it knows every
//! attempt that began before the read. The removal is conditional on the revision, so it spares
//! newer keys.

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

/// The attempts of one session, by ticket.
#[derive(Debug)]
pub(crate) struct Claims {
    /// See [`Facts`](crate::backend::Facts).
    joins_late: bool,
    ticket_in: Option<fn(&str) -> Option<Ticket>>,
    attempts: Mutex<HashMap<Ticket, Claim>>,
    doubted: AtomicBool,
    doubt: Notify,
}

/// The keys that an attempt may have in the store.
#[derive(Debug)]
enum Claim {
    /// Any key of the ticket: a request that may create one is in flight.
    Open,
    /// Exactly this key.
    Key(Arc<OwnKey>),
}

impl Claims {
    pub(crate) fn new(facts: &Facts) -> Self {
        let (attempts, doubted, doubt) = Default::default();
        let Facts { joins_late, ticket_in, .. } = *facts;
        Self { joins_late, ticket_in, attempts, doubted, doubt }
    }

    /// Records that a request is about to be sent that may create a key of this ticket.
    pub(crate) fn open(&self, ticket: Ticket) {
        self.claim(ticket, Claim::Open);
    }

    /// Records that this is the only key of this ticket.
    pub(crate) fn settle(&self, ticket: Ticket, own: &Arc<OwnKey>) {
        self.claim(ticket, Claim::Key(Arc::clone(own)));
    }

    fn claim(&self, ticket: Ticket, claim: Claim) {
        if self.ticket_in.is_some() {
            self.attempts.lock().insert(ticket, claim);
        }
    }

    /// Records that the store no longer has a key of this ticket.
    pub(crate) fn end(&self, ticket: Ticket) {
        self.attempts.lock().remove(&ticket);
    }

    /// Records that the store may still apply a join request at any time.
    pub(crate) fn doubt(&self) {
        if self.joins_late {
            self.doubted.store(true, Ordering::Relaxed);
            self.doubt.notify_one();
        }
    }

    /// Returns `true` if a key without an attempt may appear until the session ends.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    pub(crate) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Returns `true` if a key of this name may belong to no attempt.
    ///
    /// Its revision then has to be read.
    pub(crate) fn suspects(&self, key: &str) -> bool {
        // Another key can have the name of an attempt's key only if a request may still be applied.
        self.is_unclaimed(key, |own| *own.entry.key != *key || own.repeats)
    }

    /// Returns `true` if a key that was just read belongs to no attempt.
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
    fn keys_without_attempt_are_strays() {
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
        // Keys that no attempt can have created are left alone.
        assert!(!claims.suspects("tail") && !claims.is_stray(&Entry::new("tail", 7)));
        let ordered = Claims::new(&facts);
        ordered.doubt();
        assert!(!ordered.suspects(&name) && !ordered.is_in_doubt());
        let removed = Claims::new(&Facts { joins_late: true, ..facts });
        removed.doubt();
        assert!(!removed.suspects(&name) && removed.is_in_doubt(), "the store removes it");
    }
}
