//! Acquires a lock, does work while the lock is held, and unlocks.
//!
//! `cargo run --example lock`

use distlock::{Client, FencingToken, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://lock").await?;
    let report = client.mutex("report");

    let guard = report.lock().await?; // waits for its turn
    guard.run(write(guard.fencing_token())).await?; // stops the work if the lock is lost
    guard.unlock().await?;

    // One call does the same.
    report.run(async |guard| write(guard.fencing_token()).await).await?;
    client.close().await
}

/// The work, which sends the token with every write.
async fn write(token: FencingToken) {
    println!("the report is written, with token {token}");
}
