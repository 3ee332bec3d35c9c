//! The servers' URLs and addresses, and plain-text requests to them.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, ToSocketAddrs, lookup_host},
    time::timeout,
};

use crate::{Result, docker::ROOT};

/// Returns a URL from the environment, else that of `docker/up`.
pub(crate) fn url(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

/// Returns the URL of the PostgreSQL server. Its user may create tables in its database.
pub fn postgres_url() -> String {
    url("DISTLOCK_PG_URL", "postgres://app:apppw@127.0.0.1:54321/distlock")
}

/// Returns the URL of pgbouncer in transaction mode.
pub fn pgbouncer_url() -> String {
    let default = "postgres://app:apppw@127.0.0.1:64321/distlock?pooler=transaction";
    url("DISTLOCK_PGBOUNCER_URL", default)
}

/// Returns the URL of the MariaDB server. Its user may create tables in its database.
pub fn mysql_url() -> String {
    url("DISTLOCK_MYSQL_URL", "mysql://app:apppw@127.0.0.1:33061/distlock")
}

/// Returns the URL of the Redis server. Its user has the permissions that locking needs.
pub fn redis_url() -> String {
    url("DISTLOCK_REDIS_URL", "redis://app:apppw@127.0.0.1:63791")
}

/// Returns the URL of the Redis server with TLS.
pub fn redis_tls_url() -> String {
    url("DISTLOCK_REDIS_TLS_URL", "rediss://app:apppw@127.0.0.1:63792")
}

/// Returns the URL of the Valkey server.
pub fn valkey_url() -> String {
    url("DISTLOCK_VALKEY_URL", "redis://app:apppw@127.0.0.1:63793")
}

/// Returns the URL of a Redis primary with sentinels and two replicas that must confirm writes.
pub fn redis_sentinel_url() -> String {
    let default = "redis+sentinel://app:apppw@127.0.0.1:63824,127.0.0.1:63825,127.0.0.1:63826/main\
                   ?replicas=2&allow_plaintext_credentials=true";
    url("DISTLOCK_REDIS_SENTINEL_URL", default)
}

/// Returns the URL of the Redis cluster.
pub fn redis_cluster_url() -> String {
    let default = "redis://app:apppw@127.0.0.1:63831,127.0.0.1:63832,127.0.0.1:63833\
                   ?allow_plaintext_credentials=true";
    url("DISTLOCK_REDIS_CLUSTER_URL", default)
}

/// Returns the URL of the five servers of Redlock.
pub fn redlock_url() -> String {
    let servers: Vec<_> = (63811..=63815).map(|port| format!("127.0.0.1:{port}")).collect();
    url("DISTLOCK_REDLOCK_URL", &format!("redlock://app:apppw@{}", servers.join(",")))
}

/// Returns the addresses of a URL or of a list of servers.
pub async fn resolve(url: &str) -> Result<Vec<SocketAddr>> {
    let hosts = url.split_once("://").map_or(url, |(_, hosts)| hosts);
    let mut addresses = Vec::new();
    for host in hosts.split(',') {
        let mut found = lookup_host(host).await.map_err(|error| format!("{host}: {error}"))?;
        addresses.push(found.next().ok_or_else(|| format!("{host} has no address"))?);
    }
    Ok(addresses)
}

/// Returns the addresses of a URL or of a list of servers. Panics if a server is not running: a
/// test that needs it fails and is never skipped.
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

/// Sends a request, such as a four-letter command, and reads until the server closes the
/// connection. Fails if that takes longer than `time_limit`.
pub async fn ask(
    server: impl ToSocketAddrs,
    request: impl AsRef<[u8]>,
    time_limit: Duration,
) -> io::Result<String> {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        stream.write_all(request.as_ref()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        Ok(reply)
    };
    timeout(time_limit, exchange).await?
}

/// The request for the counters of an etcd member.
pub const METRICS: &str = "GET /metrics HTTP/1.0\r\n\r\n";

/// Returns the folder of the certificates that docker/up creates.
pub fn certificates_folder() -> String {
    let default = format!("{ROOT}/target/docker/certs");
    std::env::var("DISTLOCK_CERTS").unwrap_or(default)
}

/// Returns the CA's certificate, and a client's certificate and key, which `docker/up` has created.
pub fn certificates() -> [String; 3] {
    let folder = certificates_folder();
    ["ca.pem", "client.pem", "client-key.pem"].map(|name| {
        let path = format!("{folder}/{name}");
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}; docker/up and tests/up create it"))
    })
}
