//! All processes together make at most five calls to an external API at the same time.
//!
//! `cargo run --example semaphore`

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use distlock::{Client, Result};
use tokio::{task::JoinSet, time::sleep};

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[tokio::main]
async fn main() -> Result<()> {
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        calls.spawn(call());
    }
    for called in calls.join_all().await {
        called?;
    }
    println!("12 calls, at most {} at once", MOST.load(Relaxed));
    Ok(())
}

async fn call() -> Result<()> {
    let client = Client::connect("memory://semaphore").await?; // one for each process
    let permit = client.semaphore("external-api", 5).acquire().await?;
    MOST.fetch_max(RUNNING.fetch_add(1, Relaxed) + 1, Relaxed);
    sleep(Duration::from_millis(20)).await; // the call
    RUNNING.fetch_sub(1, Relaxed);
    permit.release().await
}
