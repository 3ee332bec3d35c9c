//! A unit test of code that waits for a lock. With tokio's clock paused, hours pass instantly.
//!
//! `cargo test --example paused_clock`

use std::time::Duration;

use distlock::{Client, Result};

/// The function under test, which stops waiting after an hour.
async fn report(client: &Client) -> Result<&'static str> {
    match client.mutex("report").lock_timeout(Duration::from_secs(3600)).await? {
        Some(guard) => guard.run_owned(async { "written" }).await,
        None => Ok("another process holds the lock"),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://paused-clock").await?;
    println!("{}", report(&client).await?);
    client.close().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_report_is_given_up_after_an_hour() -> Result<()> {
        let client = Client::connect("memory://paused-clock-test").await?;
        let guard = client.mutex("report").lock().await?;
        assert_eq!(report(&client).await?, "another process holds the lock");
        drop(guard); // released in the background
        assert_eq!(report(&client).await?, "written");
        Ok(())
    }
}
