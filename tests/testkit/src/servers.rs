//! Where the servers are, and what they say to bare questions.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, ToSocketAddrs, lookup_host},
    time::timeout,
};

use crate::{Result, docker::ROOT};

/// A URL from the environment, else the one of `docker/up`.
pub(crate) fn url(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

/// The URL of the PostgreSQL server: a user who may make tables in a database of its own.
pub fn postgres_url() -> String {
    url("DISTLOCK_PG_URL", "postgres://app:apppw@127.0.0.1:54321/distlock")
}

/// The same by way of pgbouncer in transaction mode.
pub fn pgbouncer_url() -> String {
    let default = "postgres://app:apppw@127.0.0.1:64321/distlock?pooler=transaction";
    url("DISTLOCK_PGBOUNCER_URL", default)
}

/// The URL of the MariaDB server: the same.
pub fn mysql_url() -> String {
    url("DISTLOCK_MYSQL_URL", "mysql://app:apppw@127.0.0.1:33061/distlock")
}

/// The URL of the Redis server: a user who may do what locking needs.
pub fn redis_url() -> String {
    url("DISTLOCK_REDIS_URL", "redis://app:apppw@127.0.0.1:63791")
}

/// The same by TLS.
pub fn redis_tls_url() -> String {
    url("DISTLOCK_REDIS_TLS_URL", "rediss://app:apppw@127.0.0.1:63792")
}

/// The URL of the Valkey server: as that of Redis.
pub fn valkey_url() -> String {
    url("DISTLOCK_VALKEY_URL", "redis://app:apppw@127.0.0.1:63793")
}

/// The URL of the primary of Redis that has sentinels, and two replicas that are waited for.
pub fn redis_sentinel_url() -> String {
    let default = "redis+sentinel://app:apppw@127.0.0.1:63824,127.0.0.1:63825,127.0.0.1:63826/main\
                   ?replicas=2&allow_plaintext_credentials=true";
    url("DISTLOCK_REDIS_SENTINEL_URL", default)
}

/// The URL of the cluster of Redis.
pub fn redis_cluster_url() -> String {
    let default = "redis://app:apppw@127.0.0.1:63831,127.0.0.1:63832,127.0.0.1:63833\
                   ?allow_plaintext_credentials=true";
    url("DISTLOCK_REDIS_CLUSTER_URL", default)
}

/// The URL of the five servers for Redlock.
pub fn redlock_url() -> String {
    let servers: Vec<_> = (63811..=63815).map(|port| format!("127.0.0.1:{port}")).collect();
    url("DISTLOCK_REDLOCK_URL", &format!("redlock://app:apppw@{}", servers.join(",")))
}

/// The addresses of a URL, or of its servers alone.
pub async fn resolve(url: &str) -> Result<Vec<SocketAddr>> {
    let hosts = url.split_once("://").map_or(url, |(_, hosts)| hosts);
    let mut addresses = Vec::new();
    for host in hosts.split(',') {
        let mut found = lookup_host(host).await.map_err(|error| format!("{host}: {error}"))?;
        addresses.push(found.next().ok_or_else(|| format!("{host} has no address"))?);
    }
    Ok(addresses)
}

/// The same. Panics if a server is not there: a test that needs it fails, it is never skipped.
pub async fn endpoints(url: &str) -> Vec<SocketAddr> {
    let endpoints = resolve(url).await.unwrap_or_else(|error| panic!("{error}"));
    for endpoint in &endpoints {
        let connected = timeout(Duration::from_secs(5), TcpStream::connect(endpoint)).await;
        assert!(
            matches!(connected, Ok(Ok(_))),
            "no server at {endpoint}: start the servers with docker/up or tests/up"
        );
    }
    endpoints
}

/// Sends a question, such as a four-letter word, and reads until the server hangs up. An answer
/// that takes longer than this is none.
pub async fn ask(
    server: impl ToSocketAddrs,
    question: impl AsRef<[u8]>,
    patience: Duration,
) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(question.as_ref()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    timeout(patience, exchange).await?
}

/// The question for what a member of etcd has counted.
pub const METRICS: &str = "GET /metrics HTTP/1.0\r\n\r\n";

/// Where the certificates are that docker/up makes.
pub fn certificates_folder() -> String {
    let default = format!("{ROOT}/target/docker/certs");
    std::env::var("DISTLOCK_CERTS").unwrap_or(default)
}

/// The CA's certificate, a client's and its key, which `docker/up` has made.
pub fn certificates() -> [String; 3] {
    let folder = certificates_folder();
    ["ca.pem", "client.pem", "client-key.pem"].map(|name| {
        let path = format!("{folder}/{name}");
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}; docker/up and tests/up make it"))
    })
}
