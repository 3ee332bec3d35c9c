//! A primary and a standby that follows it, which may lag behind.

use std::{net::SocketAddr, time::Duration};

use distlock::{Builder, Client};
use distlock_testkit::docker::OwnServer;

use crate::{
    common::case::{SOON, eventually, within},
    failover::TTL,
};

/// A server in a container, and where clients reach it.
pub(crate) struct Server {
    pub(crate) own: OwnServer,
    pub(crate) address: SocketAddr,
    port: u16,
    /// What stands before and after the server in a URL.
    around: [&'static str; 2],
}

impl Server {
    /// Of the image of this server of `docker/up`.
    pub(crate) async fn start(
        like: &str,
        around: [&'static str; 2],
        port: u16,
        run: &[&str],
        arguments: &[&str],
    ) -> Self {
        let publish = format!("--publish=127.0.0.1::{port}");
        let own = OwnServer::start(like, &[&[publish.as_str()], run].concat(), arguments).await;
        let address = own.address(port).await;
        Self { own, address, port, around }
    }

    pub(crate) fn url(&self) -> String {
        self.url_with(&[])
    }

    /// Of it and others.
    pub(crate) fn url_with(&self, others: &[&Self]) -> String {
        let others = others.iter().map(|other| format!(",{}", other.address));
        format!(
            "{}{}{}{}",
            self.around[0],
            self.address,
            others.collect::<String>(),
            self.around[1]
        )
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(self.url()).session_ttl(TTL)
    }

    /// As soon as it lets one in.
    pub(crate) async fn client(&self) -> Client {
        let mut client = None;
        eventually(SOON * 5, "it lets clients in", async || {
            client = self.builder().connect().await.ok();
            client.is_some()
        })
        .await;
        client.expect("just connected")
    }

    /// Ends it in good order and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.own.restart().await;
        self.address = self.own.address(self.port).await;
    }
}

/// A primary and a standby.
pub(crate) trait Pair: Sized {
    /// The primary alone, with tables.
    async fn primary_alone() -> Server;

    /// What the primary confirms comes to the standby soon.
    async fn asynchronous() -> Self;

    fn primary(&self) -> &Server;

    fn standby(&self) -> &Server;

    /// Waits until the standby has all that the primary has, from which on it does not hear of what
    /// that confirms.
    async fn part(&self);

    async fn promote(&self);

    /// A client that has to find out which one is the primary.
    async fn client(&self, ttl: Duration) -> Client {
        let url = self.primary().url_with(&[self.standby()]);
        let connecting = Client::builder(url).session_ttl(ttl).connect();
        within(SOON, "it connects", connecting).await.expect("connected")
    }
}
