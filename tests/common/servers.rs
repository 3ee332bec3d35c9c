//! Where the servers are, and docker/'s scripts.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpStream, lookup_host},
    process::Command,
    time::timeout,
};

/// A URL from the environment, else the one of `docker/up`.
pub(crate) fn url(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

/// The addresses of a URL. Panics if a server is not there: a test that needs it fails, it is never skipped.
pub(crate) async fn endpoints(url: &str) -> Vec<SocketAddr> {
    let (_, hosts) = url.split_once("://").expect("a URL");
    let mut endpoints = Vec::new();
    for host in hosts.split(',') {
        let resolved = lookup_host(host).await.unwrap_or_else(|error| panic!("{host}: {error}"));
        let endpoint = resolved.into_iter().next().unwrap_or_else(|| panic!("{host} has no address"));
        let connected = timeout(Duration::from_secs(5), TcpStream::connect(endpoint)).await;
        assert!(matches!(connected, Ok(Ok(_))), "no server at {endpoint}: start the servers with docker/up");
        endpoints.push(endpoint);
    }
    endpoints
}

/// The name of a server's container.
pub(crate) fn container(server: &str) -> String {
    let project = std::env::var("COMPOSE_PROJECT_NAME").unwrap_or_else(|_| "distlock".to_owned());
    format!("{project}-{server}")
}

/// Runs one of docker/'s scripts.
pub(crate) async fn script(name: &str, argument: &str) {
    let path = format!("{}/docker/{name}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(path).arg(argument).output().await.expect("docker/ is there");
    assert!(output.status.success(), "docker/{name} {argument}: {}", String::from_utf8_lossy(&output.stderr));
}
