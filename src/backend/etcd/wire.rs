//! How a connection's tasks are run: by the one who wakes them.

use std::{future::Future, pin::Pin};

use hyper::rt;
use tonic::transport::{Channel, Endpoint};

use crate::runtime::{executor::Executor, inline::Inline};

/// What tonic has to be run.
impl rt::Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for Inline {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn(task);
    }
}

/// A channel to this endpoint alone, connected by its first request. etcd-client would make one
/// that looks for the least busy of several, which each request pays for.
pub(super) fn channel(endpoint: Endpoint) -> Channel {
    endpoint.executor(Inline::new(Executor::here())).connect_lazy()
}
