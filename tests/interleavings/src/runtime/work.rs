//! The runtime that completes futures whose callers stop polling.

use std::sync::{Arc, Weak};

use super::{
    executor::{AbortHandle, Executor},
    yield_now,
};
use crate::error::Result;

/// Work that the runtime can take over.
pub(crate) trait Heavy: Send + Sync {
    fn take_over(self: Arc<Self>, runtime: &Runtime) -> bool;
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Runtime(Executor);

impl Runtime {
    pub(crate) fn is_inherited(&self) -> bool {
        false
    }

    pub(crate) fn check(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) async fn within<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        work.await
    }

    /// Takes the work over at some time, unless it is being polled.
    pub(crate) fn watch(&self, load: Weak<dyn Heavy>) {
        let runtime = self.clone();
        self.spawn(async move {
            yield_now().await;
            if let Some(load) = load.upgrade() {
                load.take_over(&runtime);
            }
        });
    }

    pub(crate) fn spawn(
        &self,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> Option<AbortHandle> {
        Some(self.0.spawn(task))
    }
}
