//! A request on its way from a caller, who may go at any moment, to the file's thread.

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

/// One request, as the thread has it.
pub(super) trait Job: Send {
    fn kind(&self) -> Kind;

    /// Nobody wants it done any more, or its time is up.
    fn is_over(&self) -> bool;

    /// Does it, within a transaction; an error undoes it. Does nothing if its caller has given up.
    fn run(&mut self, tables: &Tables<'_, '_>) -> Result<(), rusqlite::Error>;

    /// The transaction is over. With an error nothing of it was done, or perhaps: as the error
    /// says.
    fn reply(self: Box<Self>, committed: Result<(), &Arc<StoreError>>);
}

/// What a request does.
type Work<T> = Box<dyn FnOnce(&Tables<'_, '_>) -> Result<T, Failure> + Send>;

/// A request that is answered by a `T`.
pub(super) struct Request<T> {
    operation: &'static str,
    kind: Kind,
    until: Duration,
    stage: Arc<Stage>,
    work: Option<Work<T>>,
    answer: Option<Result<T>>,
    reply: oneshot::Sender<Result<T>>,
}

/// What the caller has of it.
pub(super) struct Reply<T> {
    pub(super) stage: Arc<Stage>,
    pub(super) answer: oneshot::Receiver<Result<T>>,
}

impl<T> Request<T> {
    /// It is given up if it is not begun by then.
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
        // A write whose caller has gone is not made: what it waits for is a repetition of its own.
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
            // Not begun.
            (None, Err(error)) if stage.give_up() => Err(StoreError::again(error)),
            (None, Ok(())) if stage.give_up() => Err(StoreError::Unavailable("too late".into())),
            // Its caller says so itself.
            (None, _) => return,
        };
        // Its caller may have gone.
        let _ = reply.send(answer);
    }
}
