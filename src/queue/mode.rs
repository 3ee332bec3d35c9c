//! Which clients may hold a lock together: one alone, or as many as a rule admits.
//!
//! All clients see the same order, which the store assigns, and none can join in front. The entries
//! ahead of a key can only become less restrictive. Keys are removed and never added there, and a
//! label changes only to a label that admits more (a writer becomes a reader).
//!
//! A holder therefore keeps its lock, whatever happens behind it. A note may reduce the number of
//! permits, but it does not affect current holders. A slightly outdated list errs on the side of
//! waiting. If a client's own key is missing from the list, the key is gone.

use super::{Failure, Wait};
use crate::{
    backend::{
        self, Ask, Join, Listing, Member, Part, Predecessor, Watch, Which,
        error::{Result, SEEMS_DEAD, StoreError},
        name::Queue,
    },
    error::Error,
    session::{Session, own_key::OwnKey},
    store_kind::StoreKind,
};

/// A rule that decides which clients may hold a lock together.
pub(crate) trait Rule: Send + Sync {
    /// Decides about a client with these entries ahead of it, in queue order.
    ///
    /// `notes` apply to the whole queue.
    fn judge(&self, ahead: &[Member], notes: &[Box<str>]) -> Admission;

    /// Returns the part of the entries ahead that decides; `None` if all of them do.
    fn part(&self, _own: Option<u64>) -> Option<Part> {
        None
    }
}

/// Whether a key in the queue holds the lock.
#[derive(Debug)]
pub(crate) enum Admission {
    In,
    /// The client has to wait until this predecessor is gone.
    Behind(Predecessor),
    /// The client has to wait until enough entries ahead are gone, no matter which.
    Full,
    /// The client is never admitted.
    Refused(Error),
    /// The key no longer exists. A rule never judges such a key.
    Evicted,
}

impl Admission {
    /// Returns the admission of a client that waits for this entry.
    ///
    /// A rule names only the entry to wait for, so it is unknown whether others are in front of it.
    pub(crate) fn behind(member: &Member) -> Self {
        Self::Behind(Predecessor { entry: member.entry.clone(), first: false, seen: false })
    }
}

impl From<backend::Standing> for Admission {
    fn from(standing: backend::Standing) -> Self {
        match standing {
            backend::Standing::First => Self::In,
            backend::Standing::Behind(predecessor) => Self::Behind(predecessor),
            backend::Standing::Evicted => Self::Evicted,
        }
    }
}

/// How a lock is held.
#[derive(Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// By one client at a time.
    Exclusive,
    /// By as many clients as the rule admits.
    Shared(&'a dyn Rule),
}

impl Mode<'_> {
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive)
    }

    /// Returns `true` for a reader, which may hold the lock with readers ahead of it.
    pub(crate) fn passes_readers(self) -> bool {
        let Self::Shared(rule) = self else { return false };
        rule.part(None).is_some_and(|part| part.which == Which::NearestWriter)
    }

    /// Returns how to join. An exclusive `try` writes nothing if the queue is not empty.
    pub(crate) fn join(self, wait: Wait) -> Join {
        match (self, wait) {
            (Self::Exclusive, Wait::No) => Join::IfFree,
            _ => Join::Always,
        }
    }

    /// Returns `true` if the rule would admit a client that joined now.
    ///
    /// If there is no room, nothing is written to the store.
    pub(crate) async fn has_room(self, session: &Session, queue: &Queue) -> Result<bool, Failure> {
        let Self::Shared(rule) = self else { return Ok(true) };
        let list = |part| async move {
            let ask = Ask { fresh: true, part, ..Ask::default() };
            let listing = session.ask_briefly(|| session.store.list(queue, ask)).await;
            listing.map_err(|error| Failure::before_joining(session, error))
        };
        has_room(rule, session.shared.backend.kind(), list).await
    }

    /// Returns what the reply to a join shows. `alone`: the queue was empty before.
    pub(crate) fn as_joined(self, standing: backend::Standing, alone: bool) -> Option<Admission> {
        match self {
            Self::Exclusive => Some(standing.into()),
            Self::Shared(rule) => alone.then(|| rule.judge(&[], &[])),
        }
    }

    /// Reads the admission of an own key.
    ///
    /// If `watch` is set and the mode is shared, a watch on the queue is returned too. It starts
    /// with the read.
    pub(crate) async fn look(
        self,
        session: &Session,
        queue: &Queue,
        own: &OwnKey,
        watch: bool,
    ) -> Result<(Admission, Option<Watch>)> {
        let Self::Shared(rule) = self else {
            let standing = session.ask(|| session.store.standing(&own.entry)).await?;
            return Ok((standing.into(), None));
        };
        let part = rule.part(Some(own.entry.revision));
        let ask = Ask { watch, part, ..Ask::default() };
        let listing = session.ask(|| session.store.list(queue, ask)).await?;
        Ok((stand(rule, own, &listing), listing.watch))
    }
}

/// Returns `true` if the rule would admit a client that joined now.
///
/// `list` reads the given part of the queue, or all of it. An error means that `list` failed, that
/// the rule would never admit the client, or ([`Error::NotYet`]) that the rule would admit it only
/// without the entries whose sessions seem expired.
pub(crate) async fn has_room<E: From<Error>, L: Future<Output = Result<Listing, E>>>(
    rule: &dyn Rule,
    backend: StoreKind,
    list: impl Fn(Option<Part>) -> L,
) -> Result<bool, E> {
    let mut part = rule.part(None);
    loop {
        let listing = list(part).await?;
        let admits = would_admit(rule, &listing, backend)?;
        if admits || !listing.labels_only {
            return Ok(admits);
        }
        // The sessions of the entries in the way may have expired.
        part = None;
    }
}

/// Returns `true` if the rule would admit a client that joined behind all of these.
fn would_admit(rule: &dyn Rule, listing: &Listing, backend: StoreKind) -> Result<bool, Error> {
    match rule.judge(&listing.members, &listing.notes) {
        Admission::In => return Ok(true),
        Admission::Refused(error) => return Err(error),
        _ if listing.seem_dead.is_empty() => return Ok(false),
        _ => {}
    }
    let lives = |member: &&Member| !listing.seem_dead.contains(&member.entry.key);
    let alive: Vec<_> = listing.members.iter().filter(lives).cloned().collect();
    match rule.judge(&alive, &listing.notes) {
        Admission::In => Err(StoreError::NotYet(SEEMS_DEAD.into()).into_public(backend)),
        _ => Ok(false),
    }
}

fn stand(rule: &dyn Rule, own: &OwnKey, listing: &Listing) -> Admission {
    match listing.members.iter().position(|member| own.is(&member.entry)) {
        Some(position) => rule.judge(&listing.members[..position], &listing.notes),
        None => Admission::Evicted,
    }
}
