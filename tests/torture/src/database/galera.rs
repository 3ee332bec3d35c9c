//! One MariaDB server, or three servers that agree on each commit (Galera), all of which accept
//! writes.

use std::time::Duration;

use async_trait::async_trait;
use distlock_testkit::{Result, docker::path, framing::Framing};
use tokio::time::timeout;

use super::{
    Connection, Database, Setup,
    mysql::{ARGUMENTS, AROUND, PORT, RUN, WORDS, dial, furnish, sever},
    network::Network,
    server::{Peer, Server, done},
};
use crate::fault::Role;

/// The time limit after which the next server is tried.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// The first statement of a connection. Then it reads what any server has confirmed before.
const CAUSAL: [&str; 1] = ["SET SESSION wsrep_sync_wait = 15"];

/// Timeouts short enough for the sessions of a run. By default, a silent server is evicted after 5
/// s, and nothing is confirmed before.
const PROVIDER: &str = "--env=PROVIDER=evs.keepalive_period=PT0.3S;\
                        evs.inactive_check_period=PT0.3S;evs.suspect_timeout=PT1S;\
                        evs.inactive_timeout=PT3S;evs.install_timeout=PT3S";

#[derive(Debug)]
pub(super) struct Mysql(Setup);

impl Mysql {
    pub(super) async fn start(count: usize) -> Result<Self> {
        let mut mysql = Self(Setup::new(&WORDS, AROUND, Framing::Mysql));
        if count == 1 {
            mysql.0.servers.push(Server::start("mysql", PORT, &RUN, &ARGUMENTS).await?);
            furnish(&mysql.0.servers[0]).await?;
            return Ok(mysql);
        }
        let network = mysql.0.network.insert(Network::start().await?);
        let nodes: Vec<_> = (0..count).map(|number| network.address(number)).collect();
        let all = format!("--env=NODES={}", nodes.join(","));
        let script = format!("--volume={}:/join:ro", path("mysql/join"));
        for (number, node) in nodes.iter().enumerate() {
            let node = format!("--env=NODE={node}");
            let own = [&all, &node, PROVIDER, &script, "--entrypoint=/join"];
            let run = [&RUN[..], &["--sysctl=net.ipv4.tcp_retries2=5"], &own].concat();
            let peer = Some(Peer { network: mysql.0.network()?, number });
            let server = Server::beside(peer, "mysql", PORT, &run, &ARGUMENTS).await?;
            if number == 0 {
                furnish(&server).await?;
            }
            mysql.0.servers.push(server);
            done(|| mysql.is_member(number, number + 1)).await?;
        }
        Ok(mysql)
    }

    fn is_alone(&self) -> bool {
        self.0.network.is_none()
    }

    /// Fails unless the server is up to date and a member of a cluster of this size.
    async fn is_member(&self, server: usize, members: usize) -> Result<()> {
        let mut operator = self.dial(server).await?;
        for (name, wanted) in [
            ("wsrep_ready", "ON"),
            ("wsrep_local_state_comment", "Synced"),
            ("wsrep_cluster_status", "Primary"),
            ("wsrep_cluster_size", &members.to_string()),
        ] {
            let value = operator.ask(&format!("SHOW STATUS LIKE '{name}'")).await?;
            let value = value.first().and_then(|row| row.get(1)).map(String::as_str);
            if value != Some(wanted) {
                return Err(format!("{name} is {value:?}").into());
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Database for Mysql {
    fn setup(&self) -> &Setup {
        &self.0
    }

    fn one(&self) -> usize {
        fastrand::usize(..self.0.servers.len())
    }

    /// No server leads.
    fn role(&self, _: usize) -> Option<Role> {
        (!self.is_alone()).then_some(Role::Follower)
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        let more = if self.is_alone() { &[][..] } else { &CAUSAL };
        Ok(Box::new(dial(&self.0.servers[server], more).await?))
    }

    async fn reach(&self) -> Result<Box<dyn Connection>> {
        let (first, count) = (self.one(), self.0.servers.len());
        if self.is_alone() {
            return self.dial(first).await;
        }
        for server in (0..count).map(|number| (first + number) % count) {
            let reaching = async {
                let mut operator = self.dial(server).await?;
                operator.ask("SELECT 1").await?;
                Result::Ok(operator)
            };
            if let Ok(Ok(operator)) = timeout(TIME_LIMIT, reaching).await {
                return Ok(operator);
            }
        }
        Err("no server replies".into())
    }

    async fn serves(&self, server: usize) -> Result<()> {
        match self.is_alone() {
            true => self.dial(server).await?.ask("SELECT 1").await.map(drop),
            false => self.is_member(server, self.0.servers.len()).await,
        }
    }

    /// A server that could not apply a commit has left the cluster, and restarts.
    async fn free(&self, server: usize) -> Result<()> {
        let one = &self.0.servers[server];
        if self.is_alone() {
            return one.free().await;
        }
        one.empty().await?;
        if self.serves(server).await.is_err() {
            one.go("restart").await?;
        }
        done(|| self.serves(server)).await
    }

    async fn sever(&self) -> Result<()> {
        for server in 0..self.0.servers.len() {
            sever(&mut *self.dial(server).await?).await?;
        }
        Ok(())
    }
}
