//! Does some work only if no other process is already doing it.
//!
//! `cargo run --example skip_if_busy`

use distlock::{Client, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://skip-if-busy").await?;
    let other = client.mutex("report").lock().await?; // another process
    report(&client).await?;
    other.unlock().await?;
    report(&client).await?;
    client.close().await
}

async fn report(client: &Client) -> Result<()> {
    match client.mutex("report").try_lock().await? {
        None => println!("busy: skipped"),
        Some(guard) => {
            guard.run(async { println!("free: written") }).await?;
            guard.unlock().await?;
        }
    }
    Ok(())
}
