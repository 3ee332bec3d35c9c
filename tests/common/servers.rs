//! Where the servers are, and docker/'s scripts.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    net::{TcpStream, lookup_host},
    process::Command,
    time::{Instant, sleep, timeout},
};

/// A URL from the environment, else the one of `docker/up`.
pub(crate) fn url(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

/// The addresses of a URL. Panics if a server is not there: a test that needs it fails, it is never
/// skipped.
pub(crate) async fn endpoints(url: &str) -> Vec<SocketAddr> {
    let (_, hosts) = url.split_once("://").expect("a URL");
    let mut endpoints = Vec::new();
    for host in hosts.split(',') {
        let resolved = lookup_host(host).await.unwrap_or_else(|error| panic!("{host}: {error}"));
        let endpoint =
            resolved.into_iter().next().unwrap_or_else(|| panic!("{host} has no address"));
        let connected = timeout(Duration::from_secs(5), TcpStream::connect(endpoint)).await;
        assert!(
            matches!(connected, Ok(Ok(_))),
            "no server at {endpoint}: start the servers with docker/up"
        );
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
async fn script(name: &str, argument: &str) {
    let path = format!("{}/docker/{name}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(path).arg(argument).output().await.expect("docker/ is there");
    assert!(
        output.status.success(),
        "docker/{name} {argument}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A server that is cut off from its peers. Healed at the end of the test, however it ends.
pub(crate) struct Cut {
    server: &'static str,
    healed: bool,
}

impl Cut {
    pub(crate) async fn off(server: &'static str) -> Self {
        let cut = Self { server, healed: false };
        script("cut", server).await;
        cut
    }

    pub(crate) async fn heal(mut self) {
        script("heal", self.server).await;
        self.healed = true;
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if !self.healed {
            let path = format!("{}/docker/heal", env!("CARGO_MANIFEST_DIR"));
            let _ = std::process::Command::new(path).arg(self.server).output();
        }
    }
}

/// Runs docker on a server's container.
async fn docker(command: &str, server: &str) {
    try_docker(command, server).await.unwrap_or_else(|error| panic!("{error}"));
}

async fn try_docker(command: &str, server: &str) -> Result<(), String> {
    let output = Command::new("docker")
        .args([command, &container(server)])
        .output()
        .await
        .expect("docker is there");
    let error =
        || format!("docker {command} {server}: {}", String::from_utf8_lossy(&output.stderr));
    output.status.success().then_some(()).ok_or_else(error)
}

/// Ends a server in good order and starts it again. It may take seconds until it serves.
pub(crate) async fn restart(server: &str) {
    docker("restart", server).await;
}

/// A server that is down. It runs again at the end of the test, however it ends.
pub(crate) struct Outage {
    server: &'static str,
    undo: &'static str,
    over: bool,
}

impl Outage {
    /// SIGKILL; its data stays.
    pub(crate) async fn kill(server: &'static str) -> Self {
        Self::begin(server, "kill", "start").await
    }

    /// It stands still, and its connections stay.
    pub(crate) async fn pause(server: &'static str) -> Self {
        Self::begin(server, "pause", "unpause").await
    }

    async fn begin(server: &'static str, command: &str, undo: &'static str) -> Self {
        let outage = Self { server, undo, over: false };
        docker(command, server).await;
        outage
    }

    pub(crate) async fn end(mut self) {
        // Docker may still be putting the killed process away.
        let start = Instant::now();
        while let Err(error) = try_docker(self.undo, self.server).await {
            assert!(start.elapsed() < Duration::from_secs(10), "{error}");
            sleep(Duration::from_millis(100)).await;
        }
        self.over = true;
    }
}

impl Drop for Outage {
    fn drop(&mut self) {
        if !self.over {
            let _ = std::process::Command::new("docker")
                .args([self.undo, &container(self.server)])
                .output();
        }
    }
}

/// A single etcd of one test's own, with options that the others do not have; gone at the end of
/// the test.
pub(crate) struct OwnEtcd {
    container: String,
    pub(crate) address: SocketAddr,
}

impl OwnEtcd {
    /// The image is that of the servers which are up.
    pub(crate) async fn start(options: &[&str]) -> Self {
        async fn docker(arguments: &[&str]) -> String {
            let output =
                Command::new("docker").args(arguments).output().await.expect("docker is there");
            assert!(
                output.status.success(),
                "{arguments:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        let image = docker(&["inspect", "--format={{.Config.Image}}", &container("etcd1")]).await;
        let listen = [
            "--listen-client-urls=http://0.0.0.0:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
        ];
        let run =
            ["run", "--rm", "--detach", "--publish=127.0.0.1::2379", "--entrypoint=etcd", &image];
        let container = docker(&[&run[..], &listen, options].concat()).await;
        let address = docker(&["port", &container, "2379"]).await.parse().expect("an address");
        Self { container, address }
    }
}

impl Drop for OwnEtcd {
    fn drop(&mut self) {
        let _ =
            std::process::Command::new("docker").args(["rm", "--force", &self.container]).output();
    }
}

/// The CA's certificate, a client's and its key, which `docker/up` has made.
pub(crate) fn certificates() -> [String; 3] {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/target/docker/certs").to_owned();
    let folder = std::env::var("DISTLOCK_CERTS").unwrap_or(default);
    ["ca.pem", "client.pem", "client-key.pem"].map(|name| {
        let path = format!("{folder}/{name}");
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{path}: {error}; docker/up makes it"))
    })
}

/// The servers of the ensemble by the names that docker/'s scripts know them by.
pub(crate) fn zookeeper_servers(servers: &[SocketAddr]) -> Vec<(&'static str, SocketAddr)> {
    ["zk1", "zk2", "zk3"].into_iter().zip(servers.iter().copied()).collect()
}
