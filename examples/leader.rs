//! One process leads. On SIGTERM, which the example simulates, the leader resigns, and the next
//! candidate leads.
//!
//! `cargo run --example leader`

use std::time::Duration;

use distlock::{Client, LeadershipHandle, Result};
use tokio::{sync::Notify, time::sleep, try_join};

#[tokio::main]
async fn main() -> Result<()> {
    try_join!(serve("one"), serve("two"))?;
    Ok(())
}

async fn serve(name: &str) -> Result<()> {
    let client = Client::builder("memory://leader").owner(name).connect().await?;
    let sigterm = Notify::new(); // instead of tokio::signal::unix::signal
    let schedule = async |leadership: LeadershipHandle| {
        println!("{name} leads, with token {}", leadership.fencing_token());
        while leadership.is_valid() {
            sleep(Duration::from_millis(10)).await; // the work of a leader
            sigterm.notify_one();
        }
    };
    client.election("scheduler").run(name, sigterm.notified(), schedule).await?;
    println!("{name} has resigned");
    client.shutdown(Duration::from_secs(10)).await
}
