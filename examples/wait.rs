//! Waits for a lock for at most five seconds.
//!
//! `cargo run --example wait`

use std::time::Duration;

use distlock::{Client, Result};
use tokio::{time::sleep, try_join};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://wait").await?;
    let other = client.mutex("report").lock().await?; // another process
    let work = async {
        sleep(Duration::from_millis(100)).await;
        println!("the other process unlocks");
        other.unlock().await
    };
    try_join!(work, report(&client))?;
    client.close().await
}

async fn report(client: &Client) -> Result<()> {
    match client.mutex("report").lock_timeout(Duration::from_secs(5)).await? {
        Some(guard) => guard.run_owned(async { println!("the report is written") }).await?,
        None => println!("busy for five seconds: skipped"),
    }
    Ok(())
}
