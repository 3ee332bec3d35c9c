//! The servers and databases of these tests, in this process.

use std::net::SocketAddr;

use distlock::{Builder, Client};
use distlock_postgres_embedded::{End, Front, Server as Model};

use super::tables::DIALECT;
use crate::common::{
    Harness, connected,
    database::{Database, Dialect, Tables},
    own::TTL,
    postgres::{EmbeddedPool, IMAGE, OPERATOR, ask, dial, embedded},
};

/// A number of locks that it does not remove within one request timeout.
pub(crate) const CROWD: usize = 40_000;

/// Returns the URL of the server that the tests share.
pub(crate) fn url() -> String {
    embedded::url()
}

/// Returns the harness of that server with a pool.
pub(crate) async fn by_pool() -> EmbeddedPool {
    EmbeddedPool::start().await
}

/// A server of a test's own.
pub(crate) struct Server {
    front: Front,
    pub(crate) address: SocketAddr,
}

impl Server {
    async fn start() -> Self {
        let starting = tokio::task::spawn_blocking(|| Front::start().expect("PostgreSQL starts"));
        let front = starting.await.expect("no panic");
        Self { address: front.address, front }
    }

    pub(crate) fn url(&self) -> String {
        IMAGE.around.join(&self.address.to_string())
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(self.url()).session_ttl(TTL)
    }

    pub(crate) async fn client(&self) -> Client {
        connected(self.builder()).await
    }

    pub(crate) async fn serves(&self) {
        self.client().await.close().await.expect("closed");
    }

    /// Does something to it.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Model) -> std::io::Result<T> + Send + 'static,
    ) -> T {
        let front = self.front.clone();
        let changing = tokio::task::spawn_blocking(move || front.change(change));
        changing.await.expect("no panic").expect("it runs")
    }

    /// Stops the server cleanly, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.change(|server| server.restart(End::Stop)).await;
    }
}

/// Starts a server.
pub(crate) async fn server() -> Server {
    Server::start().await
}

/// A server that flushes its log only on request.
pub(crate) async fn lazy() -> Server {
    let server = Server::start().await;
    let lazy = |server: &mut Model| {
        server.flush_on_request();
        Ok(())
    };
    server.change(lazy).await;
    server
}

/// Puts the server behind a pooler with one connection.
pub(crate) async fn pooler(server: &Server, mode: &str, _size: u32, _settings: &str) -> Server {
    if mode == "transaction" {
        let pool = |server: &mut Model| {
            server.pool();
            Ok(())
        };
        server.change(pool).await;
    }
    Server { front: server.front.clone(), address: server.address }
}

/// Crashes the server as a power loss does: only flushed data survives.
pub(crate) async fn crash(server: &Server) {
    server.change(|server| server.restart(End::PowerLoss)).await;
}

/// Crashes the server as the death of one of its processes does.
pub(crate) async fn crash_process(server: &Server) {
    server.change(|server| server.restart(End::Crash)).await;
}

/// Returns an operator's connection.
pub(crate) async fn operator_of(server: &Server) -> tokio_postgres::Client {
    dial(&server.url(), Some(OPERATOR)).await
}

/// A database of a test's own.
pub(crate) struct Own {
    server: Server,
    url: String,
}

impl Own {
    /// Returns how often each statement that begins like this was executed.
    pub(crate) async fn executed(&self, start: &str) -> Vec<u64> {
        let counts = self.server.change(|server| Ok(server.counts())).await;
        let of_these = counts.into_iter().filter(|(text, _)| text.starts_with(start));
        of_these.map(|(_, count)| count).collect()
    }

    /// Returns the clients' connections.
    pub(crate) async fn connections(&self) -> Vec<String> {
        let last = self.server.change(|server| Ok(server.last_requests("distlock"))).await;
        last.into_iter().map(|(number, _)| number.to_string()).collect()
    }

    /// Returns the clients' connections whose last request was this.
    pub(crate) async fn connections_after(&self, request: &str) -> usize {
        let last = self.server.change(|server| Ok(server.last_requests("distlock"))).await;
        last.iter().filter(|(_, last)| last.ends_with(request)).count()
    }
}

impl Database for Own {
    async fn new() -> Self {
        let server = Server::start().await;
        let url = format!("postgres://app:apppw@{}/distlock", server.address);
        Self { server, url }
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn end(self) {}
}

impl Tables for Own {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&dial(&self.url, Some(OPERATOR)).await, sql).await
    }
}
