//! An executor whose tasks are threads of the scheduler.

use std::sync::Arc;

use super::Mutex;
use crate::error::Error;

pub(crate) use shuttle::future::AbortHandle;

#[derive(Clone, Debug, Default)]
pub(crate) struct Executor(Arc<Mutex<Tasks>>);

#[derive(Debug, Default)]
struct Tasks {
    ended: bool,
    begun: Vec<AbortHandle>,
}

/// The guard of an entered executor. The clock needs nothing else.
#[derive(Debug)]
pub(crate) struct Entered;

impl Executor {
    pub(crate) fn own() -> Result<Self, Error> {
        Ok(Self::default())
    }

    pub(crate) fn of(_: super::Handle) -> Option<Self> {
        None
    }

    pub(crate) fn with_stopped_clock() -> Option<Self> {
        None
    }

    pub(crate) fn here() -> Self {
        Self::default()
    }

    pub(crate) fn enter(&self) -> Entered {
        Entered
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.0.lock();
        let handle = shuttle::future::spawn(task).abort_handle();
        if tasks.ended {
            handle.abort();
        } else {
            tasks.begun.push(handle.clone());
        }
        handle
    }

    /// Ends all tasks as soon as they are not polled.
    pub(crate) fn end(&self) {
        self.take().iter().for_each(AbortHandle::abort);
    }

    /// Ends all tasks, and waits until they are dropped.
    pub(crate) fn finish(&self) {
        let begun = self.take();
        begun.iter().for_each(AbortHandle::abort);
        while !begun.iter().all(AbortHandle::is_finished) {
            shuttle::thread::yield_now();
        }
    }

    fn take(&self) -> Vec<AbortHandle> {
        let mut tasks = self.0.lock();
        tasks.ended = true;
        std::mem::take(&mut tasks.begun)
    }
}

pub(crate) fn spawn_beside(task: impl Future<Output = ()> + Send + 'static) {
    drop(spawn_abortable(task));
}

pub(crate) fn spawn_abortable(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    shuttle::future::spawn(task).abort_handle()
}

pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    work()
}
