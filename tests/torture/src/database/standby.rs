//! Two PostgreSQL servers: the one is written to, and the other one follows it.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use async_trait::async_trait;
use distlock_testkit::{Result, docker::path, framing::Framing};
use tokio::time::sleep;

use super::{
    Connection, Database,
    network::Network,
    postgres::{ARGUMENTS, AROUND, PORT, RUN, WORDS, dial, furnish, sever},
    server::{Peer, Server, done},
    words::Words,
};
use crate::fault::Role;

/// One that was away for a while finds what it has missed, and soon.
const FOLLOWING: [&str; 4] = [
    "-cwal_keep_size=64MB",
    "-cwal_retrieve_retry_interval=200ms",
    "-cwal_receiver_timeout=3s",
    "-cwal_sender_timeout=3s",
];

#[derive(Debug)]
pub(super) struct Pair {
    servers: Vec<Server>,
    /// Which one is written to.
    primary: AtomicUsize,
    /// It waits for the other one.
    waits: bool,
    _network: Network,
}

impl Pair {
    pub(super) async fn start(waits: bool) -> Result<Self> {
        let network = Network::start().await?;
        let script = format!("--volume={}:/follow:ro", path("postgres/follow"));
        let follows = format!("--env=PRIMARY={}", network.address(0));
        let retries = "--sysctl=net.ipv4.tcp_retries2=5";
        let (mut servers, primary) = (Vec::new(), AtomicUsize::new(0));
        for number in 0..2 {
            let own = [&script, "--entrypoint=/follow", retries, &follows];
            // The last one is not for the first server.
            let run = [&RUN[..], &own[..3 + number]].concat();
            let peer = Some(Peer { network: &network, number });
            let arguments = [&ARGUMENTS[..], &FOLLOWING].concat();
            let server = Server::beside(peer, "postgres", PORT, &run, &arguments).await?;
            if number == 0 {
                furnish(&server).await?;
            }
            servers.push(server);
        }
        let pair = Self { servers, primary, waits, _network: network };
        pair.wait_for_it().await?;
        Ok(pair)
    }

    /// From now on the primary waits for the other one, which follows it by now.
    async fn wait_for_it(&self) -> Result<()> {
        done(|| self.is_followed("streaming", "state")).await?;
        if self.waits {
            let settings = async || {
                let mut operator = self.dial(self.one()).await?;
                operator.ask("ALTER SYSTEM SET synchronous_standby_names = '*'").await?;
                operator.ask("SELECT pg_reload_conf()").await
            };
            done(settings).await?;
        }
        done(|| self.serves(self.one())).await
    }

    async fn is_followed(&self, wanted: &str, column: &str) -> Result<()> {
        let sql = format!("SELECT {column} FROM pg_stat_replication");
        let told = self.dial(self.one()).await?.ask(&sql).await?.concat().concat();
        if told == wanted { Ok(()) } else { Err(format!("its standby is {told:?}").into()) }
    }

    /// Whether it is told by another one what to do.
    async fn recovers(&self, server: usize) -> Result<bool> {
        let told = self.dial(server).await?.ask("SELECT pg_is_in_recovery()").await?;
        Ok(told.concat().concat() == "t")
    }
}

#[async_trait]
impl Database for Pair {
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
        Framing::Postgres
    }

    fn one(&self) -> usize {
        self.primary.load(SeqCst)
    }

    fn role(&self, server: usize) -> Option<Role> {
        Some(if server == self.one() { Role::Leader } else { Role::Follower })
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(dial(&self.servers[server], "distlock").await?))
    }

    /// What is written after what was told is on the standby's disk, as that is by then. A server
    /// that has none any more shows what nobody was told.
    fn confirmed(&self) -> Option<&'static str> {
        self.waits.then_some("SELECT pg_logical_emit_message(true, 'torture', '')")
    }

    async fn serves(&self, server: usize) -> Result<()> {
        if self.recovers(server).await? == (server == self.one()) {
            return Err("it has another part".into());
        }
        match self.waits {
            true => self.is_followed("sync", "sync_state").await,
            false => self.is_followed("streaming", "state").await,
        }
    }

    async fn sever(&self) -> Result<()> {
        sever(&mut *self.dial(self.one()).await?).await
    }

    /// Nobody tells the old primary, and its clients find out for themselves. The new one waits for
    /// nobody until the old one follows it.
    async fn promote(&self, time: Duration) -> Result<()> {
        let (old, new) = (self.one(), 1 - self.one());
        if !self.waits {
            // What is confirmed from now on, it does not know of.
            let mut operator = self.dial(new).await?;
            operator.ask("ALTER SYSTEM SET primary_conninfo = ''").await?;
            operator.ask("SELECT pg_reload_conf()").await?;
            sleep(time.mul_f64(fastrand::f64() / 2.0)).await;
        }
        self.dial(new).await?.ask("SELECT pg_promote(false)").await?;
        let promoted = async || match self.recovers(new).await? {
            true => Err("it is a standby yet".into()),
            false => Ok(()),
        };
        done(promoted).await?;
        self.primary.store(new, SeqCst);
        // What nobody was told shows on the old one once they are gone who wait for it.
        let ends = fastrand::bool();
        for _ in 0..4 {
            sleep(time / 4).await;
            if ends {
                sever(&mut *self.dial(old).await?).await?;
            }
        }
        let server = &self.servers[old];
        server.go(if fastrand::bool() { "kill" } else { "stop" }).await?;
        let primary = self.servers[new].ip()?;
        server.on_disk(&format!("echo {primary} >/data/follow")).await?;
        server.go("start").await?;
        self.wait_for_it().await
    }
}
