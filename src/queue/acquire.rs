//! Acquires a lock in one of a client's sessions.

use std::sync::Arc;

use super::{
    Failure, Hold, attempt::Attempt, failure::StaleSessions, lock, mode::Mode, poll, wait::Wait,
};
use crate::{backend::name::Queue, error::Result, session::Sessions};

/// Acquires the lock in the store.
pub(crate) async fn take(sessions: &Sessions, queue: &Queue, wait: Wait) -> Result<Option<Hold>> {
    if !sessions.shared().backend.queues() {
        return poll::take(sessions, queue, wait).await;
    }
    Acquire::new(queue, wait).from(sessions).await
}

/// One acquisition: the queue, how long to wait, and how to hold the lock.
pub(crate) struct Acquire<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) wait: Wait,
    /// The value to write into the key instead of the owner's signature.
    pub(crate) value: Option<Arc<[u8]>>,
    pub(crate) mode: Mode<'a>,
}

impl<'a> Acquire<'a> {
    pub(crate) fn new(queue: &'a Queue, wait: Wait) -> Self {
        Self { queue, wait, value: None, mode: Mode::Exclusive }
    }

    pub(crate) async fn from(self, sessions: &Sessions) -> Result<Option<Hold>> {
        let Self { queue, wait, value, mode } = self;
        let mut stale = StaleSessions::default();
        loop {
            let attempt = wait.before(Attempt::new(sessions, queue)).await;
            let Some(mut attempt) = attempt.transpose()? else { return Ok(None) };
            attempt.value = value.clone();
            match lock::acquire(attempt, wait, mode).await {
                Ok(hold) => return Ok(hold),
                // The session expired while it was idle. This call has not lost anything, so it
                // continues in a new session.
                Err(Failure::StaleSession(_)) if stale.another() => {}
                Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
            }
        }
    }
}
