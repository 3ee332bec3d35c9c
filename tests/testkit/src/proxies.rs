//! The servers of a cluster, each behind a proxy.

use std::net::SocketAddr;

use crate::{
    backend::Backend,
    proxy::{Mode, Proxy},
};

/// A cluster behind proxies, one for each server.
#[derive(Debug)]
pub struct Proxies {
    backend: Backend,
    /// In the servers' order.
    pub all: Vec<Proxy>,
}

impl Proxies {
    /// One for each of these servers.
    pub async fn start(backend: Backend, servers: &[SocketAddr]) -> Self {
        let mut all = Vec::new();
        for server in servers {
            all.push(Proxy::start(*server, backend.framing()).await);
        }
        Self { backend, all }
    }

    /// The cluster's URL by way of them.
    pub fn url(&self) -> String {
        self.backend.url_of(self.all.iter().map(|proxy| proxy.address))
    }

    /// The same for all of them.
    pub fn set(&self, mode: &Mode) {
        for proxy in &self.all {
            proxy.set(mode.clone());
        }
    }

    /// How many packets have come for the clients.
    pub fn packets(&self) -> usize {
        self.all.iter().map(Proxy::packets).sum()
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.all.iter().map(Proxy::accepted).sum()
    }

    /// Ends all connections, and with them what is on its way.
    pub fn hang_up(&self) {
        for proxy in &self.all {
            proxy.hang_up();
        }
    }
}
