//! From a client's sessions to a lock that is held.

use std::sync::Arc;

use super::{
    Failure, Hold, attempt::Attempt, failure::StaleSessions, lock, mode::Mode, poll, wait::Wait,
};
use crate::{backend::name::Queue, error::Result, session::Sessions};

/// Takes the lock from the store.
pub(crate) async fn take(sessions: &Sessions, queue: &Queue, wait: Wait) -> Result<Option<Hold>> {
    if !sessions.shared().backend.queues() {
        return poll::take(sessions, queue, wait).await;
    }
    Acquire::new(queue, wait).from(sessions).await
}

/// What to take from the store, and how.
pub(crate) struct Acquire<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) wait: Wait,
    /// What to write into the key, if not who owns it.
    pub(crate) value: Option<Arc<[u8]>>,
    /// Who may be in together.
    pub(crate) mode: Mode<'a>,
    /// It is only a way to something else: see
    /// [`Attempt::passing`](Attempt::passing).
    pub(crate) passing: bool,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(queue: &'a Queue, wait: Wait) -> Self {
        Self { queue, wait, value: None, mode: Mode::Exclusive, passing: false }
    }

    pub(crate) async fn from(self, sessions: &Sessions) -> Result<Option<Hold>> {
        let Self { queue, wait, value, mode, passing } = self;
        let mut stale = StaleSessions::default();
        loop {
            let attempt = wait.before(Attempt::new(sessions, queue)).await;
            let Some(mut attempt) = attempt.transpose()? else { return Ok(None) };
            attempt.value = value.clone();
            attempt.passing = passing;
            match lock::acquire(attempt, wait, mode).await {
                Ok(hold) => return Ok(hold),
                // Its session died while it was idle. That is no loss of this call's: it goes on
                // with a new one.
                Err(Failure::StaleSession(_)) if stale.another() => {}
                Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
            }
        }
    }
}
