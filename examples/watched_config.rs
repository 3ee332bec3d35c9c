//! One process publishes the configuration, and all others follow its changes.
//!
//! `cargo run --example watched_config`

use distlock::{Client, Result};
use tokio::{sync::watch, task::JoinSet};

#[tokio::main]
async fn main() -> Result<()> {
    let (seen, mut all_seen) = watch::channel([0; 3]);
    let mut followers = JoinSet::new();
    for follower in 0..3 {
        followers.spawn(follow(follower, seen.clone()));
    }
    let client = Client::connect("memory://watched-config").await?;
    let keeper = client.election("config").campaign("limit=0").await?;
    for limit in [10, 20, 30] {
        keeper.proclaim(format!("limit={limit}")).await?;
        let all = all_seen.wait_for(|seen| seen.iter().all(|seen| *seen == limit)).await;
        assert!(all.is_ok(), "they live");
        println!("all three have limit={limit}");
    }
    keeper.resign().await?;
    client.close().await?;
    followers.join_all().await.into_iter().collect()
}

async fn follow(follower: usize, seen: watch::Sender<[u32; 3]>) -> Result<()> {
    let client = Client::connect("memory://watched-config").await?;
    let mut config = client.election("config").observe()?;
    while let Some(leader) = config.next().await {
        let limit = leader.value_str().and_then(|text| text.strip_prefix("limit="));
        let limit = limit.and_then(|limit| limit.parse().ok()).unwrap_or_default();
        seen.send_modify(|seen| seen[follower] = limit);
        if limit == 30 {
            break;
        }
    }
    client.close().await
}
