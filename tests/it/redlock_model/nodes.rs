//! Five nodes of one test, in the test's process.

use std::{net::SocketAddr, time::Duration};

use distlock::Client;
use distlock_redis_model::{Front, Model};
use distlock_testkit::{framing::Framing, proxies::Proxies};
use redis::cmd;

use crate::common::redlock::{LOGIN, TTL, ask, dial, model};

pub(crate) struct Nodes {
    own: Vec<Front>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// No client has a longer TTL.
    longest: Duration,
}

impl Nodes {
    pub(crate) async fn start() -> Self {
        Self::start_for(TTL).await
    }

    /// Starts nodes for clients with TTLs up to `longest`. All of them count.
    pub(crate) async fn start_for(longest: Duration) -> Self {
        let own: Vec<_> = (0..5).map(|_| model()).collect();
        let addresses = own.iter().map(|node| node.address).collect();
        Self { own, addresses, longest }
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

    /// Ends nodes and restarts them at once, without data.
    pub(crate) async fn wipe(&self, nodes: &[usize]) {
        self.order(nodes, |node| node.end(Model::wipe)).await;
    }

    pub(crate) async fn set_clock(&self, nodes: &[usize], seconds: i64) {
        let set = move |model: &mut Model| model.set_clock(seconds * 1_000_000);
        self.order(nodes, move |node| node.change(set)).await;
    }

    async fn order(&self, nodes: &[usize], order: impl Fn(Front) + Send + 'static) {
        let nodes: Vec<_> = nodes.iter().map(|node| self.own[*node].clone()).collect();
        let ordering = tokio::task::spawn_blocking(move || nodes.into_iter().for_each(order));
        ordering.await.expect("no panic");
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
