//! A job that every host starts, but that runs only once a day.
//!
//! `cargo run --example cron`

use std::time::Duration;

use distlock::{Client, Result};
use tokio::try_join;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::main]
async fn main() -> Result<()> {
    // Each host calls this at 3:00, by its own clock.
    try_join!(start("one"), start("two"), start("three"))?;
    Ok(())
}

async fn start(host: &str) -> Result<()> {
    let client = Client::builder("memory://cron").owner(host).connect().await?;
    let report = client.mutex("nightly-report");
    match report.run_once_per(DAY, async |_guard| println!("{host} writes it")).await? {
        Some(()) => println!("{host} is done"),
        None => println!("{host} has nothing to do today"),
    }
    client.close().await
}
