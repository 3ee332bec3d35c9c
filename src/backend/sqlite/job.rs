//! Requests from callers to the file's thread. Callers may drop them at any time.

use std::{sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    error::{self, Failure},
    requests::Kind,
    tables::Tables,
};
use crate::{
    backend::{Result, StoreError, stage::Stage},
    runtime::clock,
};

/// A request for the file's thread.
pub(super) trait Job: Send {
    fn kind(&self) -> Kind;

    /// Returns `true` if the caller has dropped the request, or its time is up.
    fn is_over(&self) -> bool;

    /// Runs the request within a transaction, which an error undoes. Does nothing if the caller has
    /// given up.
    fn run(&mut self, tables: &Tables<'_, '_>) -> Result<(), rusqlite::Error>;

    /// Replies after the end of the transaction. With an error, the request has no effect, or
    /// possibly one, as the error says.
    fn reply(self: Box<Self>, committed: Result<(), &Arc<StoreError>>);
}

/// The work of a request.
type Work<T> = Box<dyn FnOnce(&Tables<'_, '_>) -> Result<T, Failure> + Send>;

/// A request whose reply is a `T`.
pub(super) struct Request<T> {
    operation: &'static str,
    kind: Kind,
    until: Duration,
    stage: Arc<Stage>,
    work: Option<Work<T>>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

/// The caller's part of a request.
pub(super) struct Reply<T> {
    pub(super) stage: Arc<Stage>,
    pub(super) answer: oneshot::Receiver<Result<T>>,
}

impl<T> Request<T> {
    /// Creates a request. It is given up if it does not begin within the given time.
    pub(super) fn new(
        operation: &'static str,
        kind: Kind,
        patience: Duration,
        work: impl FnOnce(&Tables<'_, '_>) -> Result<T, Failure> + Send + 'static,
    ) -> (Self, Reply<T>) {
        let (reply, answer) = oneshot::channel();
        let stage = Arc::<Stage>::default();
        let request = Self {
            operation,
            kind,
            until: clock::now() + patience,
            stage: Arc::clone(&stage),
            work: Some(Box::new(work)),
            answer: None,
            reply,
        };
        (request, Reply { stage, answer })
    }
}

impl<T: Send> Job for Request<T> {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn is_over(&self) -> bool {
        self.reply.is_closed() || clock::now() >= self.until
    }

    fn run(&mut self, tables: &Tables<'_, '_>) -> Result<(), rusqlite::Error> {
        let Some(work) = self.work.take() else { return Ok(()) };
        // A write whose caller has gone is not made: a caller that still needs it sends it again.
        if self.reply.is_closed() || !self.stage.begin() {
            return Ok(());
        }
        match work(tables) {
            Ok(answer) => self.answer = Some(Ok(answer)),
            Err(Failure::Store(error)) => self.answer = Some(Err(error)),
            Err(Failure::Sql(failed)) => {
                self.answer = Some(Err(error::undone(self.operation, &failed)));
                return Err(failed);
            }
        }
        Ok(())
    }

    fn reply(self: Box<Self>, committed: Result<(), &Arc<StoreError>>) {
        let Self { stage, answer, reply, .. } = *self;
        let answer = match (answer, committed) {
            (Some(Err(error)), _) => Err(error),
            (Some(answer), Ok(())) => answer,
            (Some(_), Err(error)) => Err(StoreError::again(error)),
            // The request did not begin.
            (None, Err(error)) if stage.give_up() => Err(StoreError::again(error)),
            (None, Ok(())) if stage.give_up() => Err(StoreError::Unavailable("timed out".into())),
            // The caller reports this itself.
            (None, _) => return,
        };
        // The caller may have gone.
        let _ = reply.send(answer);
    }
}
