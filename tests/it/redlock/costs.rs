//! The cost of contention by the nodes' own count.

use futures_util::future::join_all;
use redis::cmd;

use super::nodes::Nodes;
use crate::common::{
    close, locked,
    redis::calls,
    redlock::{ask, dial},
};

/// Returns the number of scripts that all nodes have run.
async fn scripts(nodes: &Nodes) -> u64 {
    let counting = nodes.addresses.iter().map(async |node| {
        let stats: String = ask(&dial(*node).await, cmd("INFO").arg("commandstats")).await;
        calls(&stats, "evalsha") + calls(&stats, "eval")
    });
    join_all(counting).await.into_iter().sum()
}

/// Four clients take turns with one lock: a node runs three scripts for each grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contended_grant_is_three_scripts_a_node() {
    const CLIENTS: usize = 4;
    const TURNS: usize = 50;
    let nodes = Nodes::start().await;
    let clients = join_all((0..CLIENTS).map(|_| nodes.client())).await;
    let before = scripts(&nodes).await;
    join_all(clients.iter().map(async |client| {
        for _ in 0..TURNS {
            locked(client, "a").await.unlock().await.expect("released");
        }
    }))
    .await;
    let ran = scripts(&nodes).await - before;
    let each = ran as f64 / (CLIENTS * TURNS * nodes.addresses.len()) as f64;
    println!("{each:.2} scripts a grant and node");
    assert!(each <= 3.0, "{each:.2} scripts a grant and node");
    close(clients).await;
}

/// Each token exceeds the previous one, by exactly one unless a node replies late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_though_counters_are_ahead_of_clocks() {
    let nodes = Nodes::start().await;
    let client = nodes.client().await;
    let ahead = u64::MAX >> 12;
    for node in &nodes.addresses {
        let counter = "{/distlock/a}:token";
        let mut set = cmd("SET");
        set.arg(counter).arg(ahead).arg("PX").arg(60_000);
        ask::<()>(&dial(*node).await, &set).await;
    }
    let mut last = ahead;
    for _ in 0..20 {
        let guard = locked(&client, "a").await;
        let token = guard.fencing_token().as_u64();
        assert!(token > last && token < last + 100, "{token} after {last}");
        last = token;
        guard.unlock().await.expect("released");
    }
    client.close().await.expect("closed");
}
