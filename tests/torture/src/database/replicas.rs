//! Three Redis servers: the one is written to, and the others follow it.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use async_trait::async_trait;
use distlock_testkit::{
    Result,
    docker::{CLOCK_OF_REDIS, path},
    framing::Framing,
};
use redis::{Value, aio::MultiplexedConnection, cmd};
use tokio::time::sleep;

use super::{
    Connection, Database, Rows,
    network::Network,
    redis::{PORT, WORDS, open, sever, strike, tell},
    server::{Peer, Server, done},
    words::Words,
};
use crate::fault::{Role, Trouble};

const COUNT: usize = 3;

/// One that was away for a while finds what it has missed, and soon.
pub(super) const FOLLOWING: [&str; 8] = [
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
    servers: Vec<Server>,
    /// Which one is written to.
    primary: AtomicUsize,
    /// Those who lock wait for all the others.
    waits: bool,
    _network: Network,
}

impl Replicas {
    pub(super) async fn start(waits: bool) -> Result<Self> {
        let network = Network::start().await?;
        let script = format!("--volume={}:/follow:ro", path("redis/follow"));
        let own = ["--stop-timeout=3", "--sysctl=net.ipv4.tcp_retries2=5", &script];
        let run = [&CLOCK_OF_REDIS[..], &own, &["--entrypoint=/follow"]].concat();
        let mut servers = Vec::new();
        for number in 0..COUNT {
            let peer = Some(Peer { network: &network, number });
            servers.push(Server::beside(peer, "redis", PORT, &run, &FOLLOWING).await?);
        }
        let replicas = Self { servers, primary: AtomicUsize::new(0), waits, _network: network };
        for server in 1..COUNT {
            replicas.follow(server, 0).await?;
        }
        Ok(replicas)
    }

    /// Makes it follow that one, also if it is started again.
    async fn follow(&self, server: usize, primary: usize) -> Result<()> {
        let (server, primary) = (&self.servers[server], self.servers[primary].ip()?);
        server.on_disk(&format!("echo {primary} >/data/follow")).await?;
        let command = ["REPLICAOF", primary, "6379"];
        done(|| tell(server, &command)).await.map(drop)
    }

    async fn lead(&self, server: usize) -> Result<()> {
        let server = &self.servers[server];
        server.on_disk("rm -f /data/follow").await?;
        done(|| tell(server, &["REPLICAOF", "NO", "ONE"])).await.map(drop)
    }
}

/// A field of what it tells of its part.
pub(super) async fn field(server: &Server, name: &str) -> Result<String> {
    let Value::BulkString(info) = tell(server, &["INFO", "replication"]).await? else {
        return Err("a strange word of itself".into());
    };
    let info = String::from_utf8_lossy(&info).into_owned();
    let told = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Ok(told.unwrap_or_default().trim().to_owned())
}

#[async_trait]
impl Database for Replicas {
    fn words(&self) -> &'static dyn Words {
        &WORDS
    }

    fn around(&self) -> [String; 2] {
        let after = if self.waits { format!("?replicas={}", COUNT - 1) } else { String::new() };
        ["redis://app:apppw@".to_owned(), after]
    }

    fn servers(&self) -> &[Server] {
        &self.servers
    }

    fn framing(&self) -> Framing {
        Framing::Resp
    }

    fn one(&self) -> usize {
        self.primary.load(SeqCst)
    }

    fn role(&self, server: usize) -> Option<Role> {
        Some(if server == self.one() { Role::Leader } else { Role::Follower })
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        let acks = if self.waits && server == self.one() { COUNT - 1 } else { 0 };
        Ok(Box::new(Confirmed::open(&self.servers[server], acks).await?))
    }

    async fn serves(&self, server: usize) -> Result<()> {
        let (name, wanted) = match server == self.one() {
            true => ("connected_slaves", (COUNT - 1).to_string()),
            false => ("master_link_status", "up".to_owned()),
        };
        let told = field(&self.servers[server], name).await?;
        if told == wanted { Ok(()) } else { Err(format!("{name} is {told:?}").into()) }
    }

    async fn sever(&self) -> Result<()> {
        sever(&self.servers[self.one()]).await
    }

    async fn strike(&self, trouble: Trouble, time: Duration) -> Result<()> {
        strike(&self.servers[self.one()], trouble, time).await
    }

    /// Nobody tells the old primary. The third one may follow it for a while yet.
    async fn promote(&self, time: Duration) -> Result<()> {
        let time = if self.waits { time } else { time * 3 };
        let old = self.one();
        let new = (old + fastrand::usize(1..COUNT)) % COUNT;
        let third = COUNT - old - new;
        if !self.waits {
            // What is confirmed from now on, it does not know of.
            done(|| tell(&self.servers[new], &["REPLICAOF", "192.0.2.1", "6379"])).await?;
            sleep(time.mul_f64(fastrand::f64() / 2.0)).await;
        }
        self.lead(new).await?;
        self.primary.store(new, SeqCst);
        if !self.waits {
            // Some come to the new one, which grants nothing for a TTL, and some stay.
            done(|| sever(&self.servers[old])).await?;
        }
        let late = fastrand::f64();
        sleep(time.mul_f64(late)).await;
        self.follow(third, new).await?;
        sleep(time.mul_f64(1.0 - late)).await;
        if fastrand::bool() {
            return self.follow(old, new).await;
        }
        let server = &self.servers[old];
        server.go(if fastrand::bool() { "kill" } else { "stop" }).await?;
        server.on_disk(&format!("echo {} >/data/follow", self.servers[new].ip()?)).await?;
        server.go("start").await
    }
}

/// What it tells is with so many others.
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
        // What is waited for is the last write of this connection.
        let write =
            if self.acks > 0 { "redis.call('INCR', '{distlock}:torture-asked')\n" } else { "" };
        let told = self.operator.ask(&format!("{write}{lines}")).await?;
        if self.acks > 0 {
            let mut wait = cmd("WAIT");
            wait.arg(self.acks).arg(500);
            let acks: usize = wait.query_async(&mut self.operator).await?;
            if acks < self.acks {
                return Err(format!("{acks} of {} have it", self.acks).into());
            }
        }
        Ok(told)
    }
}
