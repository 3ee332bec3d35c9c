//! From a client's sessions to a lock that is held.

use std::sync::Arc;

use tokio::time::timeout_at;

use super::{
    Failure, Hold,
    attempt::Claim,
    line::{self, Rule},
    wait::Wait,
};
use crate::{backend::name::Queue, error::Result, session::Sessions};

/// Takes the lock from the store.
pub(crate) async fn take(sessions: &Sessions, queue: &Queue, wait: Wait) -> Result<Option<Hold>> {
    Taking::new(queue, wait).from(sessions).await
}

/// What to take from the store, and how.
pub(crate) struct Taking<'a> {
    pub(crate) queue: &'a Queue,
    pub(crate) wait: Wait,
    /// What to write into the key, if not who owns it.
    pub(crate) value: Option<Arc<[u8]>>,
    /// Who may be in together, if not one at a time.
    pub(crate) rule: Option<&'a dyn Rule>,
    /// It is only a way to something else: see
    /// [`Claim::set_passing`](Claim::set_passing).
    pub(crate) passing: bool,
}

impl<'a> Taking<'a> {
    pub(crate) fn new(queue: &'a Queue, wait: Wait) -> Self {
        Self { queue, wait, value: None, rule: None, passing: false }
    }

    pub(crate) async fn from(self, sessions: &Sessions) -> Result<Option<Hold>> {
        let Self { queue, wait, value, rule, passing } = self;
        let mut stale_sessions = 0;
        loop {
            let claim = match wait {
                Wait::Until(at) => timeout_at(at, Claim::new(sessions, queue)).await,
                Wait::Forever | Wait::No => Ok(Claim::new(sessions, queue).await),
            };
            let Ok(claim) = claim else { return Ok(None) };
            let mut claim = claim?;
            claim.set_value(value.clone());
            claim.set_passing(passing);
            let taken = match rule {
                None => super::acquire(claim, wait).await,
                // On the heap: it is larger than what a mutex needs, of which there may be many.
                Some(rule) => Box::pin(line::enter(claim, wait, rule)).await,
            };
            match taken {
                Ok(hold) => return Ok(hold),
                // Its session died while it was idle. That is no loss of this call's: it goes on
                // with a new one.
                Err(Failure::StaleSession(_)) if stale_sessions < 3 => stale_sessions += 1,
                Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
            }
        }
    }
}
