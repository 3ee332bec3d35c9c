//! Who may be in together: one alone, or as many as a rule lets in.
//!
//! The order is the same for all, by the store's own count; nobody can join in front. What a rule
//! sees of those ahead can only get less: keys go, none comes, and a label changes only to one that
//! lets more in (a writer that becomes a reader). So one that is in stays in, whatever happens
//! behind it (a note may make room for fewer, but is not for those that are in), and a list that is
//! a little old errs on the side of waiting. A list in which one's own key is missing is the word
//! that it is gone.

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

/// Who may be in with whom.
pub(crate) trait Rule: Send + Sync {
    /// Decides about one that has these ahead, the first one first; `notes` are what was left for
    /// all that stand in the queue.
    fn judge(&self, ahead: &[Member], notes: &[Box<str>]) -> Admission;

    /// What of those ahead decides, if that is not all: nothing else makes a difference.
    fn part(&self, _own: Option<u64>) -> Option<Part> {
        None
    }
}

/// Whether a key that joined is in.
#[derive(Debug)]
pub(crate) enum Admission {
    In,
    /// Not before this one is gone.
    Behind(Predecessor),
    /// Not before some of those ahead are gone, no matter which.
    Full,
    /// Never.
    Refused(Error),
    /// The key is not there any more. A rule is never asked about such a key.
    Evicted,
}

impl Admission {
    /// A rule names the member to wait for, and not who is in front of that one.
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
    /// One at a time.
    Exclusive,
    /// As the rule has it.
    Shared(&'a dyn Rule),
}

impl Mode<'_> {
    pub(crate) fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive)
    }

    /// Returns `true` for a reader, which may hold the lock together with readers ahead of it.
    pub(crate) fn passes_readers(self) -> bool {
        let Self::Shared(rule) = self else { return false };
        rule.part(None).is_some_and(|part| part.which == Which::NearestWriter)
    }

    /// How to join. One that only tries, alone, is not written if somebody is there.
    pub(crate) fn join(self, wait: Wait) -> Join {
        match (self, wait) {
            (Self::Exclusive, Wait::No) => Join::IfFree,
            _ => Join::Always,
        }
    }

    /// Whether the rule would let one in that joined now. Busy as it is, nothing is written.
    pub(crate) async fn has_room(self, session: &Session, queue: &Queue) -> Result<bool, Failure> {
        let Self::Shared(rule) = self else { return Ok(true) };
        let mut part = rule.part(None);
        loop {
            let ask = Ask { fresh: true, part, ..Ask::default() };
            let look = session.ask_briefly(|| session.store.list(queue, ask)).await;
            let listing = look.map_err(|error| Failure::before_joining(session, error))?;
            let let_in = would_let_in(rule, &listing, session.shared.backend.kind())?;
            if let_in || !listing.labels_only {
                return Ok(let_in);
            }
            // Those that keep it out may be dead.
            part = None;
        }
    }

    /// What the answer to joining shows. `alone`: nothing else was in the queue.
    pub(crate) fn as_joined(self, standing: backend::Standing, alone: bool) -> Option<Admission> {
        match self {
            Self::Exclusive => Some(standing.into()),
            Self::Shared(rule) => alone.then(|| rule.judge(&[], &[])),
        }
    }

    /// Where an own key stands; with a watch on the queue that begins with the look, if it is
    /// wanted and the rule is about the whole queue.
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

/// Whether the rule would let one in that joined behind all of these. An error: it never would, or
/// ([`Error::NotYet`]) it would if those were gone that seem dead.
pub(crate) fn would_let_in(
    rule: &dyn Rule,
    listing: &Listing,
    backend: StoreKind,
) -> Result<bool, Error> {
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
