//! A follower sends its requests to the leader, and is notified when the leader has changed.
//!
//! `cargo run --example follow`

use distlock::{Client, Result};
use tokio::try_join;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://follow").await?;
    try_join!(follow(&client), lead("10.0.0.7:8080"), lead("10.0.0.8:8080"))?;
    client.close().await // also withdraws the client's requests
}

async fn follow(client: &Client) -> Result<()> {
    let election = client.election("primary");
    let mut leaders = election.observe()?; // the current leader, then later ones
    for _ in 0..2 {
        let Some(leader) = leaders.next().await else { break };
        println!("requests go to {}", leader.value_str().unwrap_or("an unknown address"));
        election.request_release("a rolling update").await?;
    }
    Ok(())
}

async fn lead(address: &str) -> Result<()> {
    let client = Client::connect("memory://follow").await?;
    let leadership = client.election("primary").campaign(address).await?;
    leadership.release_requested().await; // serves requests until then
    leadership.resign().await?;
    client.close().await
}
