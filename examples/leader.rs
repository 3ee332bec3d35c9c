//! One process leads. When it is asked to stop, it finishes, and another one takes over.
//!
//! `cargo run --example leader`

#![allow(clippy::expect_used)]

use std::{collections::HashMap, time::Duration};

use distlock::{Client, LeadershipHandle};
use tokio::{sync::oneshot, time::sleep};

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let (mut stops, mut servers) = (HashMap::new(), Vec::new());
    for name in ["one", "two"] {
        let (stop, stopped) = oneshot::channel();
        stops.insert(name.as_bytes().to_vec(), stop);
        servers.push(tokio::spawn(serve(name, stopped)));
    }
    let client = Client::connect("memory://leader").await?;
    let mut leaders = client.election("scheduler").observe()?;
    while !stops.is_empty() {
        let leader = leaders.next().await.expect("the client is open");
        println!("{:?} leads, with token {}", leader.value_str(), leader.fencing_token());
        // A rolling restart: the leader is asked to stop.
        drop(stops.remove(leader.value()));
    }
    for server in servers {
        server.await.expect("no panic")?;
    }
    client.close().await
}

async fn serve(name: &'static str, stop: oneshot::Receiver<()>) -> distlock::Result<()> {
    let client = Client::builder("memory://leader").owner(name).connect().await?;
    let sigterm = async { drop(stop.await) }; // tokio::signal::unix::signal(…)
    let schedule = async |leadership: LeadershipHandle| loop {
        tick(&leadership).await;
    };
    let ended: Option<()> = client.election("scheduler").run(name, sigterm, schedule).await?;
    assert!(ended.is_none(), "the leader was asked to stop");
    client.shutdown(Duration::from_secs(10)).await
}

/// The work of a leader, which sends its token with every write.
async fn tick(leadership: &LeadershipHandle) {
    assert!(leadership.fencing_token().as_u64() > 0);
    sleep(Duration::from_millis(5)).await;
}
