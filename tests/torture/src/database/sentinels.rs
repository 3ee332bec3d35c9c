//! Three sentinels, in one container, or anywhere.

use std::net::SocketAddr;

use distlock_testkit::{Result, docker::CLOCK_OF_REDIS};
use redis::{FromRedisValue, from_redis_value};

use super::{
    network::Network,
    redis::run_at,
    server::{Peer, Server, done},
};

const PORTS: [u16; 3] = [26379, 26380, 26381];

/// Writes the file of each sentinel and starts it.
const RUN: &str = "for port in 26379 26380 26381; do printf '%sport %s\\n' \"$1\" $port \
                   >/data/$port.conf; redis-server /data/$port.conf --sentinel & done; wait";

#[derive(Debug)]
pub(super) struct Sentinels {
    /// The container. `None` if they already ran.
    server: Option<Server>,
    pub(super) addresses: Vec<String>,
}

impl Sentinels {
    /// Starts the sentinels, and waits until they know the primary's replicas and each other.
    pub(super) async fn start(network: &Network, primary: &str, replicas: usize) -> Result<Self> {
        let settings = format!(
            "sentinel monitor main {primary} 6379 2\nsentinel auth-user main default\n\
             sentinel auth-pass main root\nsentinel down-after-milliseconds main 700\n\
             sentinel failover-timeout main 4000\n"
        );
        let run = [&CLOCK_OF_REDIS[..], &["--entrypoint=bash"]].concat();
        let peer = Some(Peer { network, number: replicas + 1 });
        let arguments = ["-c", RUN, "-", &settings];
        let server = Server::beside(peer, "redis", PORTS[0], &run, &arguments).await?;
        let ip = server.ip()?;
        let addresses = PORTS.iter().map(|port| format!("{ip}:{port}")).collect();
        let sentinels = Self { server: Some(server), addresses };
        let number = replicas.to_string();
        for (name, value) in [("num-slaves", number.as_str()), ("num-other-sentinels", "2")] {
            done(|| sentinels.all_report(name, value)).await?;
        }
        Ok(sentinels)
    }

    /// Sentinels that already run.
    pub(super) fn given(addresses: &[SocketAddr]) -> Self {
        Self { server: None, addresses: addresses.iter().map(SocketAddr::to_string).collect() }
    }

    async fn query_one<T: FromRedisValue>(&self, address: &str, command: &[&str]) -> Result<T> {
        Ok(from_redis_value(run_at(&format!("redis://{address}"), command).await?)?)
    }

    /// Fails unless all of them report this field of the primary.
    pub(super) async fn all_report(&self, name: &str, value: &str) -> Result<()> {
        for address in &self.addresses {
            let query = ["SENTINEL", "MASTER", "main"];
            let reply: Vec<String> = self.query_one(address, &query).await?;
            if !reply.windows(2).any(|pair| pair == [name, value]) {
                return Err(format!("not all sentinels report {value} as {name}").into());
            }
        }
        Ok(())
    }

    pub(super) fn ip(&self) -> Result<&str> {
        self.server.as_ref().ok_or("the sentinels have no container")?.ip()
    }

    /// Returns the primary's address. Fails unless all of them agree.
    pub(super) async fn primary(&self) -> Result<String> {
        let mut found = Vec::new();
        for address in &self.addresses {
            let query = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
            let reply: Vec<String> = self.query_one(address, &query).await?;
            found.push(reply.join(":"));
        }
        found.dedup();
        match <[String; 1]>::try_from(found) {
            Ok([one]) => Ok(one),
            Err(found) => Err(format!("the sentinels name {found:?}").into()),
        }
    }

    /// Makes one of them promote a replica.
    pub(super) async fn promote(&self) -> Result<()> {
        let one = &self.addresses[fastrand::usize(..self.addresses.len())];
        self.query_one(one, &["SENTINEL", "FAILOVER", "main"]).await
    }
}
