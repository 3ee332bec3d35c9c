//! The servers of a cluster, each behind a proxy.

use std::net::SocketAddr;

use crate::{
    backend::Backend,
    framing::Framing,
    proxy::{Mode, Proxy},
};

/// A cluster behind proxies, one for each server.
#[derive(Debug)]
pub struct Proxies {
    /// What stands before and after the servers in a URL.
    around: [String; 2],
    /// In the servers' order.
    pub all: Vec<Proxy>,
}

impl Proxies {
    /// One for each of these servers.
    pub async fn start(backend: Backend, servers: &[SocketAddr]) -> Self {
        Self::between([&format!("{}://", backend.scheme()), ""], backend.framing(), servers).await
    }

    /// The same for a store whose URLs have more to them: what stands before and after the servers.
    pub async fn between(around: [&str; 2], framing: Framing, servers: &[SocketAddr]) -> Self {
        let mut all = Vec::new();
        for server in servers {
            all.push(Proxy::start(*server, framing).await);
        }
        Self { around: around.map(str::to_owned), all }
    }

    /// The cluster's URL by way of them.
    pub fn url(&self) -> String {
        let servers: Vec<_> = self.all.iter().map(|proxy| proxy.address.to_string()).collect();
        self.around.join(&servers.join(","))
    }

    /// The same for all of them.
    pub fn set(&self, mode: &Mode) {
        for proxy in &self.all {
            proxy.set(mode.clone());
        }
    }

    /// Returns `true` if one of them passes everything on again: see [`Proxy::passes`].
    pub fn passes(&self) -> bool {
        self.all.iter().any(Proxy::passes)
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
