//! The content of a queue at one read.

use super::{
    Wait,
    failure::StaleSessions,
    mode::{self, Rule},
};
use crate::{
    backend::{Ask, Listing, Member, error::StoreError, name::Queue},
    error::{Error, Result},
    lost::LostReason,
    runtime::clock::Instant,
    session::Sessions,
};

/// The content of a queue at one read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The entries of the queue, in order.
    pub(crate) members: Vec<Member>,
    /// The names of keys that do not belong to any session.
    pub(crate) notes: Vec<Box<str>>,
}

impl From<Listing> for Snapshot {
    fn from(Listing { members, notes, .. }: Listing) -> Self {
        Self { members, notes }
    }
}

/// Returns the current entries of a queue, in order.
///
/// Gives up after about twice the request timeout.
pub(crate) async fn look(sessions: &Sessions, queue: &Queue, values: bool) -> Result<Listing> {
    list(sessions, queue, Ask { values, ..Ask::default() }).await
}

/// Returns `true` if a client should join now. Fails if the rule never admits the client.
///
/// A `try` joins only if the rule would admit it: see [`mode::has_room`]. A call that waits joins
/// until its time is over, also if the store does not reply.
pub(crate) async fn may_join(
    sessions: &Sessions,
    queue: &Queue,
    rule: &dyn Rule,
    wait: Wait,
) -> Result<bool> {
    let read = |part| list(sessions, queue, Ask { part, ..Ask::default() });
    let room = mode::has_room(rule, sessions.shared().backend.kind(), read);
    if wait.is_a_try() {
        return room.await;
    }
    let looked = wait.before(async {
        drop(sessions.any().await?);
        match room.await {
            Ok(_) | Err(Error::NotYet { .. } | Error::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    });
    looked.await.transpose().map(|looked| looked.is_some())
}

async fn list(sessions: &Sessions, queue: &Queue, ask: Ask) -> Result<Listing> {
    let ask = Ask { fresh: true, ..ask };
    let (mut stale, mut give_up) = (StaleSessions::default(), None);
    loop {
        let session = sessions.any().await?;
        let patience = session.shared.patience();
        let give_up = *give_up.get_or_insert_with(|| Instant::now() + patience);
        let again = |error: &StoreError, _| error.is_transient() && Instant::now() < give_up;
        let (listing, _) = session.ask_while(again, || session.store.list(queue, ask)).await;
        match listing {
            Ok(listing) => return Ok(listing),
            Err(StoreError::SessionGone(reason))
                if reason != LostReason::ClientClosed && stale.another() => {}
            Err(error) => return Err(session.public(error)),
        }
    }
}

/// Reads a queue once, from any executor.
pub(crate) async fn look_now(sessions: &Sessions, queue: &Queue) -> Result<Snapshot> {
    Ok(sessions.shared().runtime.within(look(sessions, queue, true)).await?.into())
}
