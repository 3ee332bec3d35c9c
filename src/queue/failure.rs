//! Why a lock was not acquired.

use crate::{backend::error::StoreError, error::Error, lost::LostReason, session::Session};

/// The maximum number of further sessions after the server has forgotten one.
const STALE_SESSIONS: u32 = 3;

/// Counts the expired sessions that a call has encountered.
#[derive(Debug, Default)]
pub(crate) struct StaleSessions(u32);

impl StaleSessions {
    /// Counts one more expired session. Returns `true` if another one may be tried.
    pub(crate) fn another(&mut self) -> bool {
        self.0 += 1;
        self.0 <= STALE_SESSIONS
    }
}

/// Why a lock was not acquired.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server no longer knows the session, and the call has not joined the queue. It may retry
    /// at once in a new session.
    StaleSession(Error),
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Failure {
    /// Classifies the failure of a call that has not joined the queue.
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
    fn call_is_retried_in_three_more_sessions() {
        let mut stale = StaleSessions::default();
        assert_eq!([(); 5].map(|()| stale.another()), [true, true, true, false, false]);
    }
}
