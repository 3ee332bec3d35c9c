//! All processes together make at most five calls per second to an external API.
//!
//! `cargo run --example rate_limit`

use std::time::Duration;

use distlock::{Client, Result};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

const WINDOW: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let (mut callers, began) = (JoinSet::new(), Instant::now());
    for _ in 0..3 {
        let client = Client::connect("memory://rate-limit").await?; // each acts for one process
        for _ in 0..4 {
            callers.spawn(call(client.clone()));
        }
    }
    let calls = callers.join_all().await.into_iter().collect::<Result<Vec<Instant>>>()?;
    let seconds = |call: &Instant| call.duration_since(began).as_secs_f64();
    println!("twelve calls, at {:.1?} s", calls.iter().map(seconds).collect::<Vec<_>>());
    for call in &calls {
        let later = calls.iter().filter(|other| *other >= call && **other - *call < WINDOW);
        assert!(later.count() <= 5, "at most five within a second");
    }
    Ok(())
}

async fn call(client: Client) -> Result<Instant> {
    let permit = client.semaphore("somebodys-api", 5).acquire().await?;
    let called = Instant::now(); // the call
    sleep(WINDOW).await; // the permit returns after a second
    permit.release().await?;
    Ok(called)
}
