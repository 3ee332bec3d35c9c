//! Three MariaDB servers that agree on each commit (Galera), and all of which are written to.

use std::time::Duration;

use async_trait::async_trait;
use distlock_testkit::{Result, docker::path, framing::Framing};
use tokio::time::timeout;

use super::{
    Connection, Database,
    mysql::{ARGUMENTS, AROUND, PORT, RUN, WORDS, dial, furnish, sever},
    network::Network,
    server::{Peer, Server, done},
    words::Words,
};
use crate::fault::Role;

const COUNT: usize = 3;

/// What takes longer is tried with the next server.
const PATIENCE: Duration = Duration::from_millis(300);

/// What a connection is to begin with: it reads what any server has confirmed before.
const CAUSAL: [&str; 1] = ["SET SESSION wsrep_sync_wait = 15"];

/// Soon enough for sessions as short as a run has: by default, a server that is silent is given up
/// after 5 s, and nothing is confirmed before.
const PROVIDER: &str = "--env=PROVIDER=evs.keepalive_period=PT0.3S;\
                        evs.inactive_check_period=PT0.3S;evs.suspect_timeout=PT1S;\
                        evs.inactive_timeout=PT3S;evs.install_timeout=PT3S";

#[derive(Debug)]
pub(super) struct Galera {
    servers: Vec<Server>,
    _network: Network,
}

impl Galera {
    pub(super) async fn start() -> Result<Self> {
        let network = Network::start().await?;
        let nodes: Vec<_> = (0..COUNT).map(|number| network.address(number)).collect();
        let nodes = format!("--env=NODES={}", nodes.join(","));
        let script = format!("--volume={}:/join:ro", path("mysql/join"));
        let mut galera = Self { servers: Vec::new(), _network: network };
        for number in 0..COUNT {
            let network = &galera._network;
            let node = format!("--env=NODE={}", network.address(number));
            let own = [&nodes, &node, PROVIDER, &script, "--entrypoint=/join"];
            let run = [&RUN[..], &["--sysctl=net.ipv4.tcp_retries2=5"], &own].concat();
            let peer = Some(Peer { network, number });
            let server = Server::beside(peer, "mysql", PORT, &run, &ARGUMENTS).await?;
            if number == 0 {
                furnish(&server).await?;
            }
            galera.servers.push(server);
            done(|| galera.is_member(number, number + 1)).await?;
        }
        Ok(galera)
    }

    /// Fails unless the server has all that was confirmed, and is one of so many.
    async fn is_member(&self, server: usize, members: usize) -> Result<()> {
        let mut operator = self.dial(server).await?;
        for (name, wanted) in [
            ("wsrep_ready", "ON"),
            ("wsrep_local_state_comment", "Synced"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_size", &members.to_string()),
        ] {
            let told = operator.ask(&format!("SHOW STATUS LIKE '{name}'")).await?;
            let told = told.first().and_then(|row| row.get(1)).map(String::as_str);
            if told != Some(wanted) {
                return Err(format!("{name} is {told:?}").into());
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Database for Galera {
    fn words(&self) -> &'static dyn Words {
        &WORDS
    }

    fn around(&self) -> [String; 2] {
        AROUND.map(str::to_owned)
    }

    fn servers(&self) -> &[Server] {
        &self.servers
    }

    fn framing(&self) -> Framing {
        Framing::Mysql
    }

    fn one(&self) -> usize {
        fastrand::usize(..COUNT)
    }

    /// None leads.
    fn role(&self, _: usize) -> Option<Role> {
        Some(Role::Follower)
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(dial(&self.servers[server], &CAUSAL).await?))
    }

    async fn reach(&self) -> Result<Box<dyn Connection>> {
        let first = self.one();
        for server in (0..COUNT).map(|number| (first + number) % COUNT) {
            let reaching = async {
                let mut operator = self.dial(server).await?;
                operator.ask("SELECT 1").await?;
                Result::Ok(operator)
            };
            if let Ok(Ok(operator)) = timeout(PATIENCE, reaching).await {
                return Ok(operator);
            }
        }
        Err("none of the servers answers".into())
    }

    async fn serves(&self, server: usize) -> Result<()> {
        self.is_member(server, COUNT).await
    }

    /// One that could not do what the others did has left them, and begins anew.
    async fn free(&self, server: usize) -> Result<()> {
        self.servers[server].empty().await?;
        if self.serves(server).await.is_err() {
            self.servers[server].go("restart").await?;
        }
        done(|| self.serves(server)).await
    }

    async fn sever(&self) -> Result<()> {
        for server in 0..COUNT {
            sever(&mut *self.dial(server).await?).await?;
        }
        Ok(())
    }
}
