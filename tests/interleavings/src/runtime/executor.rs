//! An executor whose tasks are threads of the scheduler.

use std::sync::Arc;

use super::Mutex;

pub(crate) use shuttle::future::AbortHandle;

#[derive(Clone, Debug, Default)]
pub(crate) struct Executor(Arc<Mutex<Tasks>>);

#[derive(Debug, Default)]
struct Tasks {
    ended: bool,
    begun: Vec<AbortHandle>,
}

impl Executor {
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
        let begun = {
            let mut tasks = self.0.lock();
            tasks.ended = true;
            std::mem::take(&mut tasks.begun)
        };
        begun.iter().for_each(AbortHandle::abort);
    }
}
