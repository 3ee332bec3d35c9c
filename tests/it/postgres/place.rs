//! The servers and databases of these tests, in containers.

use distlock_testkit::servers::postgres_url;

use super::tables::DIALECT;
use crate::common::{
    Harness, SOON,
    database::{Database, Dialect, Tables},
    eventually,
    own::Image,
    postgres::{IMAGE, OPERATOR, SqlxPool, ask, dial},
};
pub(crate) use crate::common::{own::Server, postgres::Postgres as Store};

/// A number of locks that no server removes within one request timeout.
pub(crate) const CROWD: usize = 200_000;

const POOLER: &Image = &Image { port: 6432, ..*IMAGE };

/// Returns the URL of the server that the tests share.
pub(crate) fn url() -> String {
    postgres_url()
}

/// Returns the harness of that server with a pool.
pub(crate) async fn by_pool() -> SqlxPool {
    SqlxPool::start().await
}

/// Starts a server.
pub(crate) async fn server() -> Server {
    Server::beside::<Store>(IMAGE, &[], &[]).await
}

/// A server that restarts whenever it stops, and flushes its log only on request or after 10 s.
pub(crate) async fn lazy() -> Server {
    let run = "while true; do /entrypoint -cwal_writer_delay=10s; done";
    Server::beside::<Store>(IMAGE, &["--entrypoint=sh", "--init"], &["-c", run]).await
}

/// Starts a pooler with this pool mode, pool size and further settings.
pub(crate) async fn pooler(server: &Server, mode: &str, size: u32, settings: &str) -> Server {
    let settings = format!(
        "[databases]\n\
         postgres = host={} user=postgres password=postgres\n\
         [pgbouncer]\n\
         listen_addr = *\nlisten_port = {}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\n\
         server_login_retry = 0.2\n{settings}",
        server.own.ip().await,
        POOLER.port
    );
    let run = "printf %s \"$1\" >/tmp/pooler.ini && exec pgbouncer /tmp/pooler.ini";
    let arguments = ["-c", run, "sh", &settings];
    Server::start(POOLER, &["--entrypoint=sh"], &arguments).await
}

/// Crashes the server as a power loss does: only flushed data survives.
pub(crate) async fn crash(server: &Server) {
    let begun = "SELECT pg_postmaster_start_time()";
    let before = ask(&dial(&server.url(), Some(OPERATOR)).await, begun).await;
    let kill = "kill -QUIT \"$(head -n 1 /data/pg/postmaster.pid)\"";
    server.own.run(&["sh", "-c", kill]).await;
    eventually(SOON * 2, "the server has restarted", async || {
        let url = server.url();
        // The port accepts connections before the server does.
        let dialled =
            tokio::spawn(async move { ask(&dial(&url, Some(OPERATOR)).await, begun).await });
        dialled.await.is_ok_and(|started| started != before)
    })
    .await;
}

/// Kills one of the server's processes: the server ends the others, and recovers from its log.
pub(crate) async fn crash_process(server: &Server) {
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let process = ask(&operator, "SELECT pg_backend_pid()").await;
    let [process] = process.try_into().expect("one row");
    server.own.run(&["kill", "-KILL", &process]).await;
    eventually(SOON, "the server has crashed", async || {
        operator.simple_query("SELECT 1").await.is_err()
    })
    .await;
    drop(operator_of(server).await);
}

/// Returns an operator's connection as soon as the server accepts it.
pub(crate) async fn operator_of(server: &Server) -> tokio_postgres::Client {
    let mut operator = None;
    eventually(SOON * 2, "the server accepts the operator", async || {
        let url = server.url();
        operator = tokio::spawn(async move { dial(&url, Some(OPERATOR)).await }).await.ok();
        operator.is_some()
    })
    .await;
    operator.expect("just connected")
}

/// A database of a test's own.
pub(crate) struct Own {
    operator: tokio_postgres::Client,
    name: String,
    url: String,
}

impl Own {
    /// Returns how often each statement that begins like this was executed, from now on counted.
    pub(crate) async fn executed(&self, start: &str) -> Vec<u64> {
        self.ask("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await;
        let calls = format!(
            "SELECT sum(calls) FROM pg_stat_statements WHERE query LIKE '{start}%' \
             AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
             GROUP BY query"
        );
        let calls = self.ask(&calls).await;
        calls.iter().map(|calls| calls.parse().expect("a number")).collect()
    }

    /// Returns the clients' connections.
    pub(crate) async fn connections(&self) -> Vec<String> {
        let pids = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                    AND application_name = 'distlock'";
        self.ask(pids).await
    }

    /// Returns the clients' connections whose last request was this.
    pub(crate) async fn connections_after(&self, request: &str) -> usize {
        let pids = format!(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
             AND query LIKE '%{request}' AND application_name = 'distlock'"
        );
        self.ask(&pids).await.len()
    }
}

impl Database for Own {
    async fn new() -> Self {
        let shared = postgres_url();
        // The server is up.
        drop(Store::start().await);
        let operator = dial(&shared, Some(OPERATOR)).await;
        let name = format!("t_{:016x}", fastrand::u64(..));
        ask(&operator, &format!("CREATE DATABASE {name} OWNER app")).await;
        let (server, _) = shared.rsplit_once('/').expect("a database");
        Self { operator, url: format!("{server}/{name}"), name }
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn end(self) {
        ask(&self.operator, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

impl Tables for Own {
    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn ask(&self, sql: &str) -> Vec<String> {
        ask(&dial(&self.url, Some(OPERATOR)).await, sql).await
    }
}
