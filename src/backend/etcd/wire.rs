//! Runs a connection's tasks on the thread that wakes them.

use std::{future::Future, pin::Pin};

use hyper::rt;
use tonic::transport::{Channel, Endpoint};

use crate::runtime::{executor::Executor, inline::Inline};

/// The largest reply that Go's own client accepts, so that the server's limit applies.
pub(super) const LARGEST_REPLY: usize = i32::MAX as usize;

/// Runs the tasks that tonic spawns.
impl rt::Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for Inline {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn(task);
    }
}

/// Returns a channel to one endpoint, which connects at its first request.
///
/// A channel of etcd-client would search for the least busy of several endpoints at each request,
/// which costs time.
pub(super) fn channel(endpoint: Endpoint) -> Channel {
    endpoint.executor(Inline::new(Executor::here())).connect_lazy()
}
