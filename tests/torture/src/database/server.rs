//! A database's server in a container of the run's own. Its disk is small and can be filled, its
//! clock can be set, and it can be killed and restarted.

use std::{
    future::Future,
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use distlock_testkit::{
    Result,
    docker::{SETTABLE_CLOCK, bash, container, docker, label, path, set_clock},
    retry::retried,
};
use tokio::time::timeout;

use super::{network::Network, own::random};

/// A disk in memory. It exists while a running container uses it, so a second container keeps it
/// while the server is down.
const DISK: &str = "type=volume,dst=/data,volume-driver=local,volume-opt=type=tmpfs,\
                    volume-opt=device=tmpfs,\"volume-opt=o=size=192m,mode=1777\"";

/// The time within which a server must start.
const RECOVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Server {
    /// Empty for a server that the run did not start.
    pub(crate) container: String,
    pub(crate) address: SocketAddr,
    /// The network between the servers, and its address there.
    peers: Option<[String; 2]>,
}

/// The network of a server that has peers.
pub(super) struct Peer<'a> {
    pub(super) network: &'a Network,
    pub(super) number: usize,
}

impl Server {
    /// Starts a server of the same image as `like`, which must be running. `run` are options of
    /// `docker run`, `arguments` those of the server. It listens on `port`.
    pub(super) async fn start(
        like: &str,
        port: u16,
        run: &[&str],
        arguments: &[&str],
    ) -> Result<Self> {
        Self::beside(None, like, port, run, arguments).await
    }

    /// Starts a server that may have peers.
    pub(super) async fn beside(
        peer: Option<Peer<'_>>,
        like: &str,
        port: u16,
        run: &[&str],
        arguments: &[&str],
    ) -> Result<Self> {
        let image = docker(&["inspect", "--format={{.Config.Image}}", &container(like)]).await;
        let image = image
            .map_err(|error| format!("{error}; start it with docker/up {like}, for its image"))?;
        let name = container(&format!("torture-{like}-{:08x}", random().u32(..)));
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let peers =
            peer.map(|Peer { network, number }| [network.name.clone(), network.address(number)]);
        let server = Self { container: name, address, peers };
        let label = label();
        let (disk, named) = (server.disk(), format!("--name={}", server.container));
        let keep =
            ["--entrypoint=sleep", "--mount", DISK, &format!("--name={disk}"), &image, "infinity"];
        docker(&[&["run", "--detach", &label], &keep[..]].concat()).await?;
        let publish = format!("--publish={address}:{port}");
        let with = [&label, &named, &publish, "--volumes-from", &disk];
        let create = [&["create"], &with[..], &SETTABLE_CLOCK, run, &[&image], arguments];
        docker(&create.concat()).await?;
        if server.peers.is_some() {
            server.heal().await?;
        }
        server.go("start").await?;
        Ok(server)
    }

    /// A server that already runs.
    pub(super) fn given(address: SocketAddr) -> Self {
        Self { container: String::new(), address, peers: None }
    }

    /// Runs a docker command on the server's container, such as `kill`.
    pub(super) async fn go(&self, command: &str) -> Result<()> {
        docker(&[command, &self.container]).await.map(drop)
    }

    fn peers(&self) -> Result<&[String; 2]> {
        Ok(self.peers.as_ref().ok_or("the server has no peers")?)
    }

    /// Returns its address for the other servers.
    pub(super) fn ip(&self) -> Result<&str> {
        Ok(&self.peers()?[1])
    }

    /// Cuts it off from the other servers, and not from its clients.
    pub(crate) async fn cut(&self) -> Result<()> {
        let [network, _] = self.peers()?;
        docker(&["network", "disconnect", network, &self.container]).await.map(drop)
    }

    /// Connects it to the other servers.
    pub(crate) async fn heal(&self) -> Result<()> {
        let [network, ip] = self.peers()?;
        let connect = ["network", "connect", "--ip", ip, network, &self.container];
        docker(&connect).await.map(drop)
    }

    /// Drops all packets between it and these addresses.
    pub(super) async fn part(&self, from: &[&str]) -> Result<()> {
        let drop =
            |ip| format!("iptables -A INPUT -s {ip} -j DROP; iptables -A OUTPUT -d {ip} -j DROP");
        self.in_its_network(&from.iter().map(drop).collect::<Vec<_>>().join("; ")).await
    }

    /// Removes the packet filter.
    pub(super) async fn unite(&self) -> Result<()> {
        self.in_its_network("iptables -F INPUT; iptables -F OUTPUT").await
    }

    async fn in_its_network(&self, script: &str) -> Result<()> {
        let name = self.container.trim_start_matches(&container(""));
        let run = ". \"$0\"; in_netns \"$@\"";
        bash(&["-c", run, &path("lib.sh"), name, script]).await.map(drop)
    }

    /// The container that keeps the disk.
    fn disk(&self) -> String {
        format!("{}-disk", self.container)
    }

    pub(super) async fn on_disk(&self, script: &str) -> Result<()> {
        docker(&["exec", &self.disk(), "sh", "-c", script]).await.map(drop)
    }

    pub(super) async fn fill(&self) -> Result<()> {
        self.on_disk("! cat /dev/zero 2>/dev/null >/data/full").await
    }

    /// Frees the disk.
    pub(super) async fn empty(&self) -> Result<()> {
        self.on_disk("rm -f /data/full").await
    }

    pub(super) async fn free(&self) -> Result<()> {
        self.empty().await?;
        // The server may have stopped.
        docker(&["start", &self.container]).await.map(drop)
    }

    pub(super) async fn set_clock(&self, seconds: i64) -> Result<()> {
        self.on_disk(&set_clock(seconds)).await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.container.is_empty() {
            return;
        }
        let _ = std::process::Command::new("docker")
            .args(["rm", "--force", "--volumes", &self.container, &self.disk()])
            .output();
    }
}

/// Returns a free port outside the range of ephemeral ports. While the server is down, the port
/// must stay free.
pub(super) fn free_port() -> Result<u16> {
    let mut random = random();
    let drawn = std::iter::repeat_with(|| random.u16(25_000..32_000)).take(100);
    let mut free = drawn.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    Ok(free.next().ok_or("no port is free")?)
}

/// Retries until success: a server takes a while to start.
pub(super) async fn done<T, D: Future<Output = Result<T>>>(attempt: impl Fn() -> D) -> Result<T> {
    retried(RECOVERY, async || timeout(Duration::from_secs(5), attempt()).await?).await
}
