//! Tasks of a connection: here each waits for its turn; none is polled inline.

use std::{
    future::Future,
    sync::{Arc, Weak},
};

use super::executor::Executor;

#[derive(Clone, Debug)]
pub(crate) struct Inline {
    executor: Executor,
    requests: Arc<()>,
}

impl Inline {
    pub(crate) fn new(executor: Executor) -> Self {
        Self { executor, requests: Arc::default() }
    }

    pub(crate) fn requests(&self) -> Weak<()> {
        Arc::downgrade(&self.requests)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.executor.spawn(task);
    }
}

pub(crate) fn poll<T>(poll: impl FnOnce() -> T) -> T {
    poll()
}
