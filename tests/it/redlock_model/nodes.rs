//! Five nodes of one test, in the test's process.

use std::time::Duration;

use distlock_redis_model::{Front, Model};

use crate::common::redlock::{self, TTL, model};

pub(crate) type Nodes = redlock::Nodes<Front>;

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
}
