//! Several workers take rows from one table. No row is processed twice, and no worker waits for
//! another worker.
//!
//! `cargo run --example workers`

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::{sync::Arc, time::Duration};

use distlock::Client;
use tokio::{task::JoinSet, time::sleep};

/// The columns of each row in a database: whether it is done, and how often its work began.
type Table = Arc<[(AtomicBool, AtomicUsize)]>;

#[tokio::main]
async fn main() -> distlock::Result<()> {
    let table: Table = (0..20).map(|_| Default::default()).collect();
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        workers.spawn(work(Arc::clone(&table)));
    }
    workers.join_all().await.into_iter().collect::<distlock::Result<()>>()?;
    assert!(table.iter().all(|(done, begun)| done.load(Relaxed) && begun.load(Relaxed) == 1));
    println!("20 rows, each processed once");
    Ok(())
}

async fn work(table: Table) -> distlock::Result<()> {
    let client = Client::connect("memory://workers").await?;
    for (number, (done, begun)) in table.iter().enumerate() {
        let row = client.mutex(format!("row-{number}"));
        let Some(guard) = row.try_lock().await? else { continue }; // another worker has it
        if !done.load(Relaxed) {
            begun.fetch_add(1, Relaxed);
            guard.run(sleep(Duration::from_millis(20))).await?;
            done.store(true, Relaxed);
        }
        guard.unlock().await?;
    }
    client.close().await
}
