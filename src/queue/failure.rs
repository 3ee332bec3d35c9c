//! Why a lock was not taken.

use crate::{backend::error::StoreError, error::Error, lost::LostReason, session::Session};

/// How often to try with another session when the server does not know the last one any more.
const STALE_SESSIONS: u32 = 3;

/// Counts the sessions that a call has met which were over.
#[derive(Debug, Default)]
pub(crate) struct StaleSessions(u32);

impl StaleSessions {
    /// One more was; tells whether to try with another one.
    pub(crate) fn another(&mut self) -> bool {
        self.0 += 1;
        self.0 <= STALE_SESSIONS
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_goes_on_in_three_more_sessions() {
        let mut stale = StaleSessions::default();
        assert_eq!([(); 5].map(|()| stale.another()), [true, true, true, false, false]);
    }
}
