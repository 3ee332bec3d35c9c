//! Two workers take turns with one lock. After that, a lock is lost while it is held.
//!
//! `cargo run -p distlock --example quickstart` needs only Rust. With a server:
//! `cargo run -p distlock --features etcd --example quickstart -- etcd://127.0.0.1:2379`

use std::time::Duration;

use distlock::{Client, LockGuard, memory::Space};

const MEMORY: &str = "memory://quickstart";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| MEMORY.to_owned());
    println!("store: {url}");

    // Two clients, as if on two machines.
    let mut workers = Vec::new();
    for worker in ["alice", "bob"] {
        let client = Client::builder(&url).owner(worker).connect().await?;
        workers.push(tokio::spawn(take_turns(worker, client)));
    }
    for worker in workers {
        worker.await??;
    }

    // A lock can be lost while it is held. The guard then stops the work.
    let client = Client::connect(&url).await?;
    let guard = client.mutex("report").lock().await?;
    println!("carol: granted, token {}", guard.fencing_token());
    let work = async {
        lose(&url, &client, &guard).await;
        std::future::pending::<()>().await;
    };
    match guard.run(work).await {
        Ok(()) => println!("carol: done"),
        Err(lost) => {
            println!("carol: {lost}; the work was stopped, is_valid() is {}", guard.is_valid())
        }
    }

    // The next holder's token is higher, so a resource can refuse late writes from carol.
    let client = Client::connect(&url).await?;
    let guard = client.mutex("report").lock().await?;
    println!("dave: granted, token {}", guard.fencing_token());
    guard.unlock().await?;
    client.close().await?;
    Ok(())
}

async fn take_turns(worker: &str, client: Client) -> distlock::Result<()> {
    for _ in 0..3 {
        let guard = client.mutex("report").lock().await?;
        println!("{worker}: granted, token {}", guard.fencing_token());
        tokio::time::sleep(Duration::from_millis(20)).await; // the work
        guard.unlock().await?;
    }
    client.close().await
}

/// Ends the session of a held lock.
///
/// In memory, the session expires, as after an outage. On a server, the client is closed instead.
async fn lose(url: &str, client: &Client, guard: &LockGuard) {
    match url.strip_prefix("memory://") {
        Some(space) => drop(Space::named(space).expire_session(guard.key())),
        None => drop(client.close().await),
    }
}
