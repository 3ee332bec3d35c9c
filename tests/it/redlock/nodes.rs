//! Five nodes of one test, without persistence.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use distlock::Client;
use distlock_testkit::{
    docker::{CLOCK_OF_REDIS, OwnServer, set_clock},
    framing::Framing,
    proxies::Proxies,
};
use futures_util::future::join_all;
use redis::cmd;

use crate::common::{
    SOON, eventually,
    redlock::{LOGIN, TTL, ask, dial, try_to_dial},
};

pub(crate) struct Nodes {
    own: Vec<OwnServer>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// No client has a longer TTL.
    longest: Duration,
}

/// Returns a free port.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

impl Nodes {
    /// Starts the nodes and waits until all of them count.
    pub(crate) async fn start() -> Self {
        Self::start_for(TTL).await
    }

    /// Starts nodes for clients with TTLs up to `longest`.
    pub(crate) async fn start_for(longest: Duration) -> Self {
        let ports = [(); 5].map(|()| free_port());
        let starting = ports.iter().map(|port| async move {
            let publish = format!("--publish=127.0.0.1:{port}:6379");
            // When it restarts itself, the server expects its program in the working directory.
            let mut run = vec![publish.as_str(), "--env=SERVER=valkey", "--workdir=/usr/bin"];
            run.extend(CLOCK_OF_REDIS);
            let arguments = ["--appendonly", "no", "--enable-debug-command", "yes"];
            OwnServer::start("redlock1", &run, &arguments).await
        });
        let own = join_all(starting).await;
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let addresses = ports.into_iter().map(address).collect();
        let nodes = Self { own, addresses, longest };
        eventually(SOON * 3 + longest, "all nodes count", async || {
            let connecting = nodes.builder().connect().await;
            let Ok(client) = connecting else { return false };
            let durability = client.durability().await;
            let all_count = |reasons: Vec<String>| !reasons.concat().contains("127.");
            client.close().await.is_ok() && durability.is_ok_and(|known| all_count(known.reasons))
        })
        .await;
        nodes
    }

    pub(crate) fn builder(&self) -> distlock::Builder {
        Client::builder(format!("{LOGIN}{}{}", self.hosts(), self.query())).session_ttl(TTL)
    }

    pub(crate) fn hosts(&self) -> String {
        let hosts: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        hosts.join(",")
    }

    fn query(&self) -> String {
        format!("?longest_ttl={}ms", self.longest.as_millis())
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.expect("connected")
    }

    /// Returns a client, and the proxies that can cut it off.
    pub(crate) async fn client_by(&self) -> (Client, Proxies) {
        self.client_as(|_| (), |builder| builder).await
    }

    /// Returns a client like `client_by`, after changing its proxies and builder.
    pub(crate) async fn client_as(
        &self,
        cut: impl FnOnce(&Proxies),
        adjust: impl FnOnce(distlock::Builder) -> distlock::Builder,
    ) -> (Client, Proxies) {
        let query = self.query();
        let proxies = Proxies::between([LOGIN, &query], Framing::Resp, &self.addresses).await;
        cut(&proxies);
        let builder = Client::builder(proxies.url()).session_ttl(TTL);
        (adjust(builder).connect().await.expect("connected"), proxies)
    }

    /// Kills nodes and restarts them at once, without data.
    pub(crate) async fn wipe(&self, nodes: &[usize]) {
        let crashing = nodes.iter().map(|node| async {
            let mut operator = dial(self.addresses[*node]).await;
            let mut crash = cmd("DEBUG");
            crash.arg("CRASH-AND-RECOVER").arg(0);
            let crashed: redis::RedisResult<()> = crash.query_async(&mut operator).await;
            let error = crashed.expect_err("the node crashes");
            assert!(error.code().is_none(), "{error}");
            eventually(SOON, "the node is back", async || {
                try_to_dial(self.addresses[*node]).await.is_ok()
            })
            .await;
        });
        join_all(crashing).await;
    }

    pub(crate) async fn set_clock(&self, nodes: &[usize], seconds: i64) {
        let setting = nodes.iter().map(|node| async move {
            self.own[*node].run(&["sh", "-c", &set_clock(seconds)]).await;
            let operator = dial(self.addresses[*node]).await;
            let (shows, _): (i64, i64) = ask(&operator, &cmd("TIME")).await;
            let truth = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let ahead = shows - truth.as_secs().cast_signed();
            assert!((ahead - seconds).abs() <= 2, "the clock is {ahead} s ahead");
        });
        join_all(setting).await;
    }

    /// Returns the number of nodes with a lock of this name, whatever its holder.
    pub(crate) async fn having(&self, name: &str) -> usize {
        let mut having = 0;
        for address in &self.addresses {
            let node = dial(*address).await;
            let lock = format!("{{/distlock/{name}}}");
            having += ask::<usize>(&node, cmd("EXISTS").arg(lock)).await;
        }
        having
    }
}
