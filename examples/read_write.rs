//! Many readers share a lock, and a writer holds the lock alone.
//!
//! `cargo run --example read_write`

use distlock::{Client, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://read-write").await?;
    let config = client.rw_lock("config");

    let (one, two) = (config.read().await?, config.read().await?);
    let writer = config.try_write().await?;
    println!("two readers; a writer is granted: {}", writer.is_some());
    one.unlock().await?;
    two.unlock().await?;

    let writer = config.write().await?; // waits for all readers
    let reader = config.try_read().await?;
    println!("a writer; a reader is granted: {}", reader.is_some());
    let own = writer.downgrade().await?; // no other writer comes between
    let reader = config.try_read().await?;
    println!("a downgraded writer; a reader is granted: {}", reader.is_some());
    own.unlock().await?;
    client.close().await
}
