//! Money moves from one account to another. Both are locked, and either both are written or none.
//!
//! `cargo run --example transfer`

#![allow(clippy::expect_used)]

use distlock::{Client, LockGuard, Result, Write};
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::connect("memory://transfer").await?;
    let mut transfers = JoinSet::new();
    for number in 0..20 {
        let (from, to) = if number % 2 == 0 { ("alice", "bob") } else { ("bob", "carol") };
        transfers.spawn(transfer(client.clone(), from, to, 10 + number));
    }
    transfers.join_all().await.into_iter().collect::<Result<()>>()?;

    let guard = client.mutex("audit").lock().await?;
    let [alice, bob] = [balance(&guard, "alice").await?, balance(&guard, "bob").await?];
    let carol = balance(&guard, "carol").await?;
    println!("alice has {alice}, bob {bob}, carol {carol}");
    assert_eq!(alice + bob + carol, 3000, "the total has not changed");
    client.close().await
}

async fn transfer(client: Client, from: &str, to: &str, amount: i64) -> Result<()> {
    let locks = client.lock_all([from, to]).await?; // always in the same order: no deadlock
    let guard = &locks.guards()[0]; // for the reads
    let (less, more) = (balance(guard, from).await? - amount, balance(guard, to).await? + amount);
    let put = |account, balance: i64| Write::put(format!("/bank/{account}"), balance.to_string());
    locks.write(&[put(from, less), put(to, more)]).await?; // refused if a lock is lost
    locks.unlock().await
}

async fn balance(guard: &LockGuard, account: &str) -> Result<i64> {
    let value = guard.get(format!("/bank/{account}")).await?;
    Ok(value.map_or(1000, |text| String::from_utf8_lossy(&text).parse().expect("a number")))
}
