//! Three Redis servers: a primary and two replicas.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use async_trait::async_trait;
use distlock_testkit::{
    Result,
    docker::{CLOCK_OF_REDIS, path},
};
use redis::{Value, aio::MultiplexedConnection, cmd};
use tokio::time::sleep;

use super::{
    Connection, Database, Rows, Setup,
    network::Network,
    redis::{PORT, open, run, setup, sever, strike},
    server::{Peer, Server, done},
};
use crate::fault::{Role, Trouble};

const COUNT: usize = 3;

/// A replica that was down for a while finds what it has missed, and soon.
const FOLLOWING: [&str; 8] = [
    "--repl-diskless-sync-delay",
    "0",
    "--repl-timeout",
    "3",
    "--repl-ping-replica-period",
    "1",
    "--auto-aof-rewrite-min-size",
    "16mb",
];

#[derive(Debug)]
pub(super) struct Replicas {
    setup: Setup,
    /// Clients wait for all replicas.
    waits: bool,
}

impl Replicas {
    pub(super) async fn start(waits: bool) -> Result<Self> {
        let after = if waits { format!("?replicas={}", COUNT - 1) } else { String::new() };
        let mut setup = setup(["redis://app:apppw@".to_owned(), after]);
        followers(&mut setup, COUNT, &[], |_| Vec::new()).await?;
        let replicas = Self { setup, waits };
        for server in 1..COUNT {
            replicas.follow(server, 0).await?;
        }
        Ok(replicas)
    }

    /// Makes a server replicate the primary, also after a restart.
    async fn follow(&self, server: usize, primary: usize) -> Result<()> {
        let (server, primary) = (&self.setup.servers[server], self.setup.servers[primary].ip()?);
        server.on_disk(&format!("echo {primary} >/data/follow")).await?;
        let command = ["REPLICAOF", primary, "6379"];
        done(|| run(server, &command)).await.map(drop)
    }

    async fn lead(&self, server: usize) -> Result<()> {
        let server = &self.setup.servers[server];
        server.on_disk("rm -f /data/follow").await?;
        done(|| run(server, &["REPLICAOF", "NO", "ONE"])).await.map(drop)
    }
}

/// Starts `count` servers that may replicate each other. `more` are further options of `docker
/// run`, and `part` returns further arguments for a server with this address.
pub(super) async fn followers(
    setup: &mut Setup,
    count: usize,
    more: &[&str],
    part: impl Fn(&str) -> Vec<String>,
) -> Result<()> {
    setup.network = Some(Network::start().await?);
    let script = format!("--volume={}:/follow:ro", path("redis/follow"));
    let own = ["--stop-timeout=3", "--sysctl=net.ipv4.tcp_retries2=5", &script];
    let run = [&CLOCK_OF_REDIS[..], &own, &["--entrypoint=/follow"], more].concat();
    for number in 0..count {
        let network = setup.network()?;
        let part = part(&network.address(number));
        let part: Vec<_> = part.iter().map(String::as_str).collect();
        let peer = Some(Peer { network, number });
        let arguments = [&FOLLOWING[..], &part].concat();
        let server = Server::beside(peer, "redis", PORT, &run, &arguments).await?;
        setup.servers.push(server);
    }
    Ok(())
}

/// Fails unless the server is a primary with this many replicas, or a replica with a link to its
/// primary.
pub(super) async fn plays(server: &Server, leads: bool, followers: usize) -> Result<()> {
    let (name, wanted) = match leads {
        true => ("connected_slaves", followers.to_string()),
        false => ("master_link_status", "up".to_owned()),
    };
    let reply = field(server, name).await?;
    if reply == wanted { Ok(()) } else { Err(format!("{name} is {reply:?}").into()) }
}

/// Returns a field of the server's replication info.
pub(super) async fn field(server: &Server, name: &str) -> Result<String> {
    let Value::BulkString(info) = run(server, &["INFO", "replication"]).await? else {
        return Err("unexpected reply to INFO".into());
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let reply = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(reply.unwrap_or_default().trim().to_owned())
}

#[async_trait]
impl Database for Replicas {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn role(&self, server: usize) -> Option<Role> {
        Some(if server == self.one() { Role::Leader } else { Role::Follower })
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        let acks = if self.waits && server == self.one() { COUNT - 1 } else { 0 };
        Ok(Box::new(Confirmed::open(&self.setup.servers[server], acks).await?))
    }

    async fn serves(&self, server: usize) -> Result<()> {
        plays(&self.setup.servers[server], server == self.one(), COUNT - 1).await
    }

    async fn sever(&self) -> Result<()> {
        sever(&self.setup.servers[self.one()]).await
    }

    async fn strike(&self, trouble: Trouble, time: Duration) -> Result<()> {
        strike(&self.setup.servers[self.one()], trouble, time).await
    }

    /// The old primary is not notified. The third server may replicate it for a while.
    async fn promote(&self, time: Duration) -> Result<()> {
        let time = if self.waits { time } else { time * 3 };
        let old = self.one();
        let new = (old + fastrand::usize(1..COUNT)) % COUNT;
        let third = COUNT - old - new;
        if !self.waits {
            // The new primary does not receive what is confirmed from now on.
            done(|| run(&self.setup.servers[new], &["REPLICAOF", "192.0.2.1", "6379"])).await?;
            sleep(time.mul_f64(fastrand::f64() / 2.0)).await;
        }
        self.lead(new).await?;
        self.setup.primary.store(new, SeqCst);
        if !self.waits {
            // Some clients connect to the new primary, which grants nothing for a TTL. Others stay.
            done(|| sever(&self.setup.servers[old])).await?;
        }
        let late = fastrand::f64();
        sleep(time.mul_f64(late)).await;
        self.follow(third, new).await?;
        sleep(time.mul_f64(1.0 - late)).await;
        if fastrand::bool() {
            return self.follow(old, new).await;
        }
        let server = &self.setup.servers[old];
        server.go(if fastrand::bool() { "kill" } else { "stop" }).await?;
        server.on_disk(&format!("echo {} >/data/follow", self.setup.servers[new].ip()?)).await?;
        server.go("start").await
    }
}

/// A connection whose replies are confirmed by this many replicas.
#[derive(Debug)]
pub(super) struct Confirmed {
    operator: MultiplexedConnection,
    acks: usize,
}

impl Confirmed {
    pub(super) async fn open(server: &Server, acks: usize) -> Result<Self> {
        Ok(Self { operator: open(server).await?, acks })
    }
}

#[async_trait]
impl Connection for Confirmed {
    async fn ask(&mut self, lines: &str) -> Result<Rows> {
        // WAIT covers the last write of this connection.
        let write = if self.acks > 0 { "redis.call('INCR', META .. '-asked')\n" } else { "" };
        let reply = self.operator.ask(&format!("{write}{lines}")).await?;
        if self.acks > 0 {
            let mut wait = cmd("WAIT");
            wait.arg(self.acks).arg(500);
            let acks: usize = wait.query_async(&mut self.operator).await?;
            if acks < self.acks {
                return Err(format!("{acks} of {} replicas have confirmed", self.acks).into());
            }
        }
        Ok(reply)
    }
}
