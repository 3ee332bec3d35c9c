//! How a call reaches the task that owns the connection, and how it is answered.
//!
//! Callers may drop what they wait for at any moment; the task never does.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::outcome::Outcome;
use crate::backend::{Result, StoreError, stage::Stage};

/// What is to be done about an error.
#[derive(Debug)]
pub(crate) enum Verdict {
    #[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
    /// The server has undone the transaction for others' sake: ask again.
    Again(String),
    Failed(StoreError),
}

/// What a caller wants of the server, in one transaction.
#[derive(Debug)]
pub(crate) struct Request<M> {
    pub(crate) operation: &'static str,
    pub(crate) message: M,
    pub(super) stage: Arc<Stage>,
    pub(super) reply: oneshot::Sender<Result<Vec<Outcome>, Verdict>>,
    /// It is one of those under way, until it is dropped.
    pub(super) _counted: Option<Arc<()>>,
}

impl<M> Request<M> {
    /// It is about to be sent. `false`: nobody waits for it any more.
    pub(crate) fn begin(&self) -> bool {
        !self.reply.is_closed() && self.stage.begin()
    }

    /// Its caller waits for it still.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Its caller may have gone.
    pub(crate) fn answer(self, answer: Result<Vec<Outcome>, Verdict>) {
        let _ = self.reply.send(answer);
    }

    /// It was not sent.
    pub(crate) fn refuse(self, error: &Arc<StoreError>) {
        if self.stage.give_up() {
            self.answer(Err(Verdict::Failed(StoreError::again(error))));
        }
    }
}
