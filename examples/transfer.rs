//! Transfers money from one account to another. Both accounts are locked, and either both accounts
//! are written or neither is.
//!
//! `cargo run --example transfer`

use distlock::{Client, MultiLockGuard, Write};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://transfer").await?;
    let mut transfers = JoinSet::new();
    for (from, to) in [("alice", "bob"), ("bob", "carol"), ("carol", "bob")].repeat(7) {
        transfers.spawn(transfer(client.clone(), from, to));
    }
    for transferred in transfers.join_all().await {
        transferred?;
    }
    let all = client.lock_all(["alice", "bob", "carol"]).await?;
    for account in ["alice", "bob", "carol"] {
        println!("{account} has {}", balance(&all, account).await?);
    }
    Ok(())
}

async fn transfer(client: Client, from: &str, to: &str) -> Result<()> {
    let locks = client.lock_all([from, to]).await?; // always in the same order: no deadlock
    let (less, more) = (balance(&locks, from).await? - 10, balance(&locks, to).await? + 10);
    let put = |account, balance: i64| Write::put(format!("/bank/{account}"), balance.to_string());
    locks.write(&[put(from, less), put(to, more)]).await?; // refused if a lock is lost
    Ok(locks.unlock().await?)
}

async fn balance(locks: &MultiLockGuard, account: &str) -> Result<i64> {
    let value = locks.guards()[0].get(format!("/bank/{account}")).await?;
    Ok(value.map_or(Ok("1000".to_owned()), String::from_utf8)?.parse()?)
}
