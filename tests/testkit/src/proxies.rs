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
    /// The parts of a URL before and after the servers.
    around: [String; 2],
    /// The proxies, in the order of the servers.
    pub all: Vec<Proxy>,
}

impl Proxies {
    /// Starts a proxy for each of these servers.
    pub async fn start(backend: Backend, servers: &[SocketAddr]) -> Self {
        Self::between([&format!("{}://", backend.scheme()), ""], backend.framing(), servers).await
    }

    /// Starts proxies for a store with longer URLs. `around` are the parts before and after the
    /// servers.
    pub async fn between(around: [&str; 2], framing: Framing, servers: &[SocketAddr]) -> Self {
        let mut all = Vec::new();
        for server in servers {
            all.push(Proxy::start(*server, framing).await);
        }
        Self { around: around.map(str::to_owned), all }
    }

    /// Returns the cluster's URL through the proxies.
    pub fn url(&self) -> String {
        let servers: Vec<_> = self.all.iter().map(|proxy| proxy.address.to_string()).collect();
        self.around.join(&servers.join(","))
    }

    /// Sets the mode of all proxies.
    pub fn set(&self, mode: &Mode) {
        for proxy in &self.all {
            proxy.set(mode.clone());
        }
    }

    /// Returns `true` if a proxy passes everything on again: see [`Proxy::passes`].
    pub fn passes(&self) -> bool {
        self.all.iter().any(Proxy::passes)
    }

    /// Returns how many packets were sent to clients.
    pub fn packets(&self) -> usize {
        self.all.iter().map(Proxy::packets).sum()
    }

    /// Returns how many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.all.iter().map(Proxy::accepted).sum()
    }

    /// Closes all connections, and drops the data in flight.
    pub fn hang_up(&self) {
        for proxy in &self.all {
            proxy.hang_up();
        }
    }
}
