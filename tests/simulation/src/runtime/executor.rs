//! The simulation's executor: one for each simulated process.

use std::future::Future;

use crate::{error::Error, scheduler};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Executor {
    process: usize,
}

/// The guard of an entered executor. The world's clock needs nothing else.
#[derive(Debug)]
pub(crate) struct Entered;

#[derive(Clone, Copy, Debug)]
pub(crate) struct AbortHandle {
    task: scheduler::TaskId,
}

impl Executor {
    pub(crate) fn in_process(process: usize) -> Self {
        Self { process }
    }

    pub(crate) fn own() -> Result<Self, Error> {
        Err(Error::Closed)
    }

    pub(crate) fn of(_: tokio::runtime::Handle) -> Option<Self> {
        None
    }

    /// The executor of the process whose task is polled.
    pub(crate) fn here() -> Self {
        Self { process: scheduler::with(|world| world.scheduler.process()) }
    }

    pub(crate) fn with_stopped_clock() -> Option<Self> {
        None
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        AbortHandle { task: scheduler::spawn(self.process, "library", task) }
    }

    pub(crate) fn enter(&self) -> Entered {
        Entered
    }
}

pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    work()
}

impl AbortHandle {
    pub(crate) fn abort(&self) {
        scheduler::abort(self.task);
    }
}
