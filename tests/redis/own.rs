//! A server of a test's own.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use distlock::{Builder, Client};
use distlock_testkit::{
    docker::{OwnServer, set_clock},
    framing::Framing,
    proxies::Proxies,
};
use redis::{Cmd, FromRedisValue, aio::MultiplexedConnection, cmd};

use crate::common::{
    Harness,
    case::{SOON, eventually, within},
    redis::{OPERATOR, Redis, ask, dial},
};

pub(crate) const TTL: Duration = Duration::from_secs(3);
/// Not by libfaketime, as the others do: see docker/redis/clock.c.
const SETTABLE_CLOCK: [&str; 2] =
    ["--env=LD_PRELOAD=/usr/local/lib/clock.so", "--env=CLOCK=/data/clock"];
const AROUND: [&str; 2] = ["redis://app:apppw@", ""];

pub(crate) struct Server {
    own: OwnServer,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// With options that the other one does not have.
    pub(crate) async fn with(options: &[&str]) -> Self {
        // The other one is up.
        drop(Redis::start().await);
        let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr();
        let address = free.expect("an address");
        let publish = format!("--publish={address}:6379");
        // Its data outlives a restart.
        let run = [&SETTABLE_CLOCK[..], &[publish.as_str()]].concat();
        let server = Self { own: OwnServer::start("redis", &run, options).await, address };
        server.answers().await;
        server
    }

    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    async fn answers(&self) {
        let ping = self.program(&["ping"]);
        eventually(SOON * 3, "it lets clients in", async || {
            self.own.run(&ping).await.contains("PONG")
        })
        .await;
    }

    fn program<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        let login =
            ["sh", "-c", "redis-cli --user default --pass root --no-auth-warning \"$@\" || :"];
        [&login[..], &["-"], arguments].concat()
    }

    /// So many seconds from the truth.
    pub(crate) async fn set_clock(&self, seconds: i64) {
        self.own.run(&["sh", "-c", &set_clock(seconds)]).await;
        let ours = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        let theirs = i64::try_from(ours).expect("not so late") + seconds;
        eventually(SOON, "the clock is set", async || {
            let (shows, _): (i64, i64) = self.ask(&cmd("TIME")).await;
            (shows - theirs).abs() < 20
        })
        .await;
    }

    /// What the server confirmed is on its disk.
    pub(crate) async fn restart(&self) {
        self.own.restart().await;
        self.answers().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("{}{}{}", AROUND[0], self.address, AROUND[1])
    }

    pub(crate) fn builder(&self) -> Builder {
        Client::builder(self.url()).session_ttl(TTL)
    }

    pub(crate) async fn client(&self) -> Client {
        within(SOON, "it connects", self.builder().connect()).await.expect("connected")
    }

    pub(crate) async fn operator(&self) -> MultiplexedConnection {
        dial(&self.url(), Some(OPERATOR)).await
    }

    /// What a command of the operator's tells.
    pub(crate) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> T {
        ask(&self.operator().await, command).await
    }

    /// One that can be cut off, and holds `a`.
    pub(crate) async fn holder(&self) -> (Client, Proxies, distlock::LockGuard) {
        let proxies = Proxies::between(AROUND, Framing::Resp, &[self.address]).await;
        let client = Client::builder(proxies.url()).session_ttl(TTL).connect().await;
        let client = client.expect("connected");
        let guard = client.mutex("a").lock().await.expect("granted");
        (client, proxies, guard)
    }
}
