//! A test's own server, in a container.

use std::{net::SocketAddr, time::Duration};

use distlock::{Builder, Client};
use distlock_testkit::docker::OwnServer;

use super::{Harness, SOON, eventually};

/// The TTL of sessions that do not need a longer one.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// An image that `docker/up` has built.
pub(crate) struct Image {
    /// The service of docker/compose.yml with this image.
    pub(crate) like: &'static str,
    pub(crate) port: u16,
    /// The parts of a URL before and after the server.
    pub(crate) around: [&'static str; 2],
}

/// A server and the address at which clients reach it.
pub(crate) struct Server {
    pub(crate) own: OwnServer,
    pub(crate) address: SocketAddr,
    image: &'static Image,
}

impl Server {
    pub(crate) async fn start(image: &'static Image, run: &[&str], arguments: &[&str]) -> Self {
        let publish = format!("--publish=127.0.0.1::{}", image.port);
        let run = [&[publish.as_str()], run].concat();
        let own = OwnServer::start(image.like, &run, arguments).await;
        let address = own.address(image.port).await;
        Self { own, address, image }
    }

    /// Starts a server in addition to the store's own one, and waits until clients can connect.
    pub(crate) async fn beside<H: Harness>(
        image: &'static Image,
        run: &[&str],
        arguments: &[&str],
    ) -> Self {
        // Fails with a hint at `docker/up` if the image has not been built.
        drop(H::start().await);
        let server = Self::start(image, run, arguments).await;
        server.serves().await;
        server
    }

    pub(crate) fn url(&self) -> String {
        self.url_with(&[])
    }

    /// Returns a URL of this server and others.
    pub(crate) fn url_with(&self, others: &[&Self]) -> String {
        let others: String = others.iter().map(|other| format!(",{}", other.address)).collect();
        self.image.around.join(&format!("{}{others}", self.address))
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(self.url()).session_ttl(TTL)
    }

    /// Connects a client as soon as the server accepts it.
    pub(crate) async fn client(&self) -> Client {
        let mut client = None;
        eventually(SOON * 5, "the server accepts clients", async || {
            client = self.builder().connect().await.ok();
            client.is_some()
        })
        .await;
        client.expect("just connected")
    }

    /// Waits until the server accepts clients.
    pub(crate) async fn serves(&self) {
        self.client().await.close().await.expect("closed");
    }

    /// Stops the server cleanly, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.own.restart().await;
        self.address = self.own.address(self.image.port).await;
    }
}
