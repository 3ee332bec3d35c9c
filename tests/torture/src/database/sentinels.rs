//! Three sentinels, in one container.

use distlock_testkit::{Result, docker::CLOCK_OF_REDIS};
use redis::{FromRedisValue, from_redis_value};

use super::{
    network::Network,
    redis::tell_at,
    server::{Peer, Server, done},
};

const PORTS: [u16; 3] = [26379, 26380, 26381];

/// What is in the file of each.
const RUN: &str = "for port in 26379 26380 26381; do printf '%sport %s\\n' \"$1\" $port \
                   >/data/$port.conf; redis-server /data/$port.conf --sentinel & done; wait";

#[derive(Debug)]
pub(super) struct Sentinels(Server);

impl Sentinels {
    /// They know of so many replicas of the primary there, and of each other.
    pub(super) async fn start(network: &Network, primary: &str, replicas: usize) -> Result<Self> {
        let settings = format!(
            "sentinel monitor main {primary} 6379 2\nsentinel auth-user main default\n\
             sentinel auth-pass main root\nsentinel down-after-milliseconds main 700\n\
             sentinel failover-timeout main 4000\n"
        );
        let run = [&CLOCK_OF_REDIS[..], &["--entrypoint=bash"]].concat();
        let peer = Some(Peer { network, number: replicas + 1 });
        let arguments = ["-c", RUN, "-", &settings];
        let sentinels = Self(Server::beside(peer, "redis", PORTS[0], &run, &arguments).await?);
        let number = replicas.to_string();
        for (name, value) in [("num-slaves", number.as_str()), ("num-other-sentinels", "2")] {
            done(|| sentinels.all_tell(name, value)).await?;
        }
        Ok(sentinels)
    }

    async fn ask<T: FromRedisValue>(&self, port: u16, command: &[&str]) -> Result<T> {
        let url = format!("redis://{}:{port}", self.0.ip()?);
        Ok(from_redis_value(tell_at(&url, command).await?)?)
    }

    /// Fails unless this is what each of them knows of the primary.
    pub(super) async fn all_tell(&self, name: &str, value: &str) -> Result<()> {
        for port in PORTS {
            let told: Vec<String> = self.ask(port, &["SENTINEL", "MASTER", "main"]).await?;
            if !told.windows(2).any(|pair| pair == [name, value]) {
                return Err(format!("not all of them tell that {name} is {value}").into());
            }
        }
        Ok(())
    }

    /// Where they are.
    pub(super) fn addresses(&self) -> Result<Vec<String>> {
        let ip = self.0.ip()?;
        Ok(PORTS.iter().map(|port| format!("{ip}:{port}")).collect())
    }

    pub(super) fn ip(&self) -> Result<&str> {
        self.0.ip()
    }

    /// The primary's address, on which all of them agree.
    pub(super) async fn primary(&self) -> Result<String> {
        let mut found = Vec::new();
        for port in PORTS {
            let asking = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
            let told: Vec<String> = self.ask(port, &asking).await?;
            found.extend(told.into_iter().next());
        }
        found.dedup();
        match <[String; 1]>::try_from(found) {
            Ok([one]) => Ok(one),
            Err(found) => Err(format!("they name {found:?}").into()),
        }
    }

    /// One of them is told to promote another one.
    pub(super) async fn promote(&self) -> Result<()> {
        let port = PORTS[fastrand::usize(..PORTS.len())];
        self.ask(port, &["SENTINEL", "FAILOVER", "main"]).await
    }
}
