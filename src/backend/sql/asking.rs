//! The path of a call to the task that owns the connection, and of its reply back.
//!
//! Callers may drop their futures at any moment. The task never does.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::outcome::Outcome;
use crate::backend::{Result, StoreError, stage::Stage};

/// What to do about an error.
#[derive(Debug)]
pub(crate) enum Verdict {
    #[cfg_attr(not(any(feature = "mysql", feature = "postgres")), allow(dead_code))]
    /// The server has rolled back the transaction because of a conflict. Send the request again.
    Again(String),
    Failed(StoreError),
}

/// A caller's request, which is one transaction.
#[derive(Debug)]
pub(crate) struct Request<M> {
    pub(crate) operation: &'static str,
    pub(crate) message: M,
    pub(super) stage: Arc<Stage>,
    pub(super) reply: oneshot::Sender<Result<Vec<Outcome>, Verdict>>,
    /// Counts the request as pending until it is dropped.
    pub(super) _counted: Option<Arc<()>>,
}

impl<M> Request<M> {
    /// Marks the request as about to be sent. `false`: its caller has gone.
    pub(crate) fn begin(&self) -> bool {
        !self.reply.is_closed() && self.stage.begin()
    }

    /// Returns `true` if the caller still waits.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Delivers the reply. The caller may have gone.
    pub(crate) fn answer(self, answer: Result<Vec<Outcome>, Verdict>) {
        let _ = self.reply.send(answer);
    }

    /// Fails the request, which was not sent.
    pub(crate) fn refuse(self, error: &Arc<StoreError>) {
        if self.stage.give_up() {
            self.answer(Err(Verdict::Failed(StoreError::again(error))));
        }
    }
}
