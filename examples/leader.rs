//! One process leads; when it is told to stop, it finishes, and another one goes on.
//!
//! `cargo run --example leader`

#![allow(clippy::expect_used)]

use std::time::Duration;

use distlock::Client;
use tokio::{sync::oneshot, time::sleep};

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let (stop_one, stopped_one) = oneshot::channel();
    let (stop_two, stopped_two) = oneshot::channel();
    let one = tokio::spawn(serve("one", stopped_one));
    let two = tokio::spawn(serve("two", stopped_two));

    let client = Client::connect("memory://leader").await?;
    let mut leaders = client.election("scheduler").observe()?;
    for stop in [stop_one, stop_two] {
        let leader = leaders.next().await.expect("the client is open");
        println!("{:?} leads, with token {}", leader.value_str(), leader.token());
        let _ = stop.send(()); // a rolling restart
    }
    one.await.expect("no panic")?;
    two.await.expect("no panic")?;
    client.close().await
}

async fn serve(name: &'static str, stop: oneshot::Receiver<()>) -> distlock::Result<()> {
    let client = Client::builder("memory://leader").owner(name).connect().await?;
    let sigterm = async { drop(stop.await) }; // tokio::signal::unix::signal(…)
    let schedule = async |_: &_| loop {
        sleep(Duration::from_millis(5)).await; // the work of a leader
    };
    let ended: Option<()> = client.election("scheduler").run(sigterm, schedule).await?;
    assert!(ended.is_none(), "it was told to stop");
    client.shutdown(Duration::from_secs(10)).await
}
