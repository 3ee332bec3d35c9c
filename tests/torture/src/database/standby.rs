//! One PostgreSQL server, or a primary and a standby.

use std::{net::SocketAddr, sync::atomic::Ordering::SeqCst, time::Duration};

use async_trait::async_trait;
use distlock_testkit::{Result, docker::path, framing::Framing};
use tokio::time::sleep;

use super::{
    Connection, Database, Setup,
    network::Network,
    postgres::{ARGUMENTS, AROUND, PORT, RUN, WORDS, dial, furnish, sever},
    server::{Peer, Server, done, free_port},
};
use crate::fault::Role;

/// A standby that was down for a while finds what it has missed, and soon.
const FOLLOWING: [&str; 4] = [
    "-cwal_keep_size=64MB",
    "-cwal_retrieve_retry_interval=200ms",
    "-cwal_receiver_timeout=3s",
    "-cwal_sender_timeout=3s",
];

#[derive(Debug)]
pub(super) struct Postgres {
    setup: Setup,
    /// `true` if the primary waits for its standby. `None` without a standby.
    waits: Option<bool>,
    /// The address of its pooler, if any.
    pooler: Option<SocketAddr>,
}

/// Starts a pooler in the server's container. Both stop together.
const POOLED: &str = "printf '[databases]\\ndistlock = host=127.0.0.1 user=app password=apppw\\n\
                      [pgbouncer]\\n\
                      listen_addr = *\\nlisten_port = 6432\\nunix_socket_dir =\\nauth_type = any\\n\
                      pool_mode = transaction\\nserver_login_retry = 0.2\\n' >/tmp/pooler.ini; \
                      pgbouncer /tmp/pooler.ini & exec /entrypoint \"$@\"";

impl Postgres {
    pub(super) async fn start(waits: Option<bool>) -> Result<Self> {
        let mut setup = Setup::new(&WORDS, AROUND, Framing::Postgres);
        if waits.is_none() {
            setup.servers.push(Server::start("postgres", PORT, &RUN, &ARGUMENTS).await?);
            furnish(&setup.servers[0]).await?;
            return Ok(Self { setup, waits, pooler: None });
        }
        setup.network = Some(Network::start().await?);
        let script = format!("--volume={}:/follow:ro", path("postgres/follow"));
        let follows = format!("--env=PRIMARY={}", setup.network()?.address(0));
        let retries = "--sysctl=net.ipv4.tcp_retries2=5";
        for number in 0..2 {
            let own = [&script, "--entrypoint=/follow", retries, &follows];
            // The first server does not get the last option.
            let run = [&RUN[..], &own[..3 + number]].concat();
            let peer = Some(Peer { network: setup.network()?, number });
            let arguments = [&ARGUMENTS[..], &FOLLOWING].concat();
            let server = Server::beside(peer, "postgres", PORT, &run, &arguments).await?;
            if number == 0 {
                furnish(&server).await?;
            }
            setup.servers.push(server);
        }
        let pair = Self { setup, waits, pooler: None };
        pair.wait_for_it().await?;
        Ok(pair)
    }

    /// Starts one server behind a pooler in transaction mode.
    pub(super) async fn pooled() -> Result<Self> {
        let [before, after] = AROUND;
        let around = [before.to_owned(), format!("{after}?pooler=transaction")];
        let mut setup = Setup::new(&WORDS, around, Framing::Postgres);
        let pooler = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let publish = format!("--publish={pooler}:6432");
        let run = [&RUN[..], &["--entrypoint=sh", &publish]].concat();
        let arguments = [&["-c", POOLED, "sh"], &ARGUMENTS[..]].concat();
        setup.servers.push(Server::start("postgres", PORT, &run, &arguments).await?);
        furnish(&setup.servers[0]).await?;
        Ok(Self { setup, waits: None, pooler: Some(pooler) })
    }

    /// Makes the primary wait for its standby, once that follows.
    async fn wait_for_it(&self) -> Result<()> {
        done(|| self.is_followed("streaming", "state")).await?;
        if self.waits == Some(true) {
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
        let reply = self.dial(self.one()).await?.ask(&sql).await?.concat().concat();
        if reply == wanted { Ok(()) } else { Err(format!("the standby is {reply:?}").into()) }
    }

    /// Returns `true` if the server is a standby.
    async fn recovers(&self, server: usize) -> Result<bool> {
        let reply = self.dial(server).await?.ask("SELECT pg_is_in_recovery()").await?;
        Ok(reply.concat().concat() == "t")
    }
}

#[async_trait]
impl Database for Postgres {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn doors(&self) -> Vec<SocketAddr> {
        match self.pooler {
            Some(pooler) => vec![pooler],
            None => self.setup.servers.iter().map(|server| server.address).collect(),
        }
    }

    fn role(&self, server: usize) -> Option<Role> {
        self.waits?;
        Some(if server == self.one() { Role::Leader } else { Role::Follower })
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(dial(&self.setup.servers[server], "distlock").await?))
    }

    /// The written message is confirmed by the standby's disk, and so is everything read before it.
    /// A primary that has lost its standby may return unconfirmed data.
    fn confirmed(&self) -> Option<&'static str> {
        (self.waits == Some(true)).then_some("SELECT pg_logical_emit_message(true, 'torture', '')")
    }

    async fn serves(&self, server: usize) -> Result<()> {
        if self.recovers(server).await? == (server == self.one()) {
            return Err("the server has another role".into());
        }
        match self.waits {
            Some(true) => self.is_followed("sync", "sync_state").await,
            Some(false) => self.is_followed("streaming", "state").await,
            None => Ok(()),
        }
    }

    async fn sever(&self) -> Result<()> {
        sever(&mut *self.dial(self.one()).await?).await
    }

    /// The old primary is not notified, and its clients find out by themselves. The new primary
    /// waits for no standby until the old one follows it.
    async fn promote(&self, time: Duration) -> Result<()> {
        let (old, new) = (self.one(), 1 - self.one());
        if self.waits == Some(false) {
            // The standby does not receive what is confirmed from now on.
            let mut operator = self.dial(new).await?;
            operator.ask("ALTER SYSTEM SET primary_conninfo = ''").await?;
            operator.ask("SELECT pg_reload_conf()").await?;
            sleep(time.mul_f64(fastrand::f64() / 2.0)).await;
        }
        self.dial(new).await?.ask("SELECT pg_promote(false)").await?;
        let promoted = async || match self.recovers(new).await? {
            true => Err("the server is still a standby".into()),
            false => Ok(()),
        };
        done(promoted).await?;
        self.setup.primary.store(new, SeqCst);
        // Unconfirmed data becomes visible on the old primary when the connections that wait for it
        // end.
        let ends = fastrand::bool();
        for _ in 0..4 {
            sleep(time / 4).await;
            if ends {
                sever(&mut *self.dial(old).await?).await?;
            }
        }
        let server = &self.setup.servers[old];
        server.go(if fastrand::bool() { "kill" } else { "stop" }).await?;
        let primary = self.setup.servers[new].ip()?;
        server.on_disk(&format!("echo {primary} >/data/follow")).await?;
        server.go("start").await?;
        self.wait_for_it().await
    }
}
