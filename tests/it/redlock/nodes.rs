//! Five nodes of one test, without persistence.

use std::{
    net::SocketAddr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use distlock_testkit::docker::{CLOCK_OF_REDIS, OwnServer, set_clock};
use futures_util::future::join_all;
use redis::cmd;

use crate::common::{
    SOON, eventually,
    redlock::{self, TTL, ask, dial, try_to_dial},
};

pub(crate) type Nodes = redlock::Nodes<OwnServer>;

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
}
