//! Why a lock was not taken.

use crate::{backend::error::StoreError, error::Error, lost::LostReason, session::Session};

/// How often to try with another session when the server does not know the last one any more.
pub(crate) const STALE_SESSIONS: u32 = 3;

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server does not know the session any more, and nothing had joined the queue: a new
    /// session may be tried at once.
    StaleSession(Error),
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Failure {
    /// What the failure of a call means while nothing has joined the queue.
    pub(crate) fn before_joining(session: &Session, error: StoreError) -> Self {
        let stale = matches!(error, StoreError::SessionGone(LostReason::SessionExpired));
        let error = session.public(error);
        if stale { Self::StaleSession(error) } else { Self::Final(error) }
    }
}
