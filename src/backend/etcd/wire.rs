//! How a connection's tasks are run: by the one who wakes them.

use std::{future::Future, pin::Pin};

use etcd_client::{BalancedChannelBuilder, Channel};
use http::Uri;
use hyper::rt;
use tokio::sync::mpsc;
use tonic::transport::{self, Endpoint, channel::Change};

use crate::runtime::{
    executor::{Executor, spawn_beside},
    inline::Inline,
};

/// What tonic has to be run.
impl rt::Executor<Pin<Box<dyn Future<Output = ()> + Send>>> for Inline {
    fn execute(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawn(task);
    }
}

/// Makes etcd-client's channel as it would by itself, but for what runs it.
pub(super) struct Wire;

impl BalancedChannelBuilder for Wire {
    type Error = transport::Error;

    fn balanced_channel(
        self,
        capacity: usize,
    ) -> Result<(Channel, mpsc::Sender<Change<Uri, Endpoint>>), Self::Error> {
        let inline = Inline::new(Executor::here());
        let (channel, changes) =
            transport::Channel::balance_channel_with_executor(capacity, inline.clone());
        // Each endpoint would bring tokio as its own executor.
        let (sender, mut endpoints) = mpsc::channel(capacity);
        spawn_beside(async move {
            while let Some(change) = endpoints.recv().await {
                let change = match change {
                    Change::Insert(uri, endpoint) => {
                        Change::Insert(uri, Endpoint::executor(endpoint, inline.clone()))
                    }
                    change => change,
                };
                if changes.send(change).await.is_err() {
                    return;
                }
            }
        });
        Ok((Channel::Tonic(channel), sender))
    }
}
