//! Users' tests with tokio's clock paused, which jumps from timer to timer.

use std::time::{Duration, Instant};

use distlock::{Client, LostReason, Result, memory::Space};
use tokio::time::{sleep, timeout};

const HOUR: Duration = Duration::from_secs(3600);

/// A release in the background arrives before any timeout.
#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_released_a_hundred_times() -> Result<()> {
    let client = Client::connect("memory://paused-dropped").await?;
    let other = Client::connect("memory://paused-dropped").await?;
    for _ in 0..100 {
        drop(client.mutex("m").lock().await?);
        let guard = timeout(Duration::from_millis(100), other.mutex("m").lock()).await;
        drop(guard.expect("released in time")?);
        let guard = client.mutex("m").lock_timeout(Duration::from_millis(1)).await?;
        guard.expect("released in time").unlock().await?;
    }
    client.close().await
}

#[tokio::test(start_paused = true)]
async fn paused_clock_skips_hours() -> Result<()> {
    let (client, began) = (Client::connect("memory://paused-hours").await?, Instant::now());
    let guard = client.mutex("m").lock().await?;
    assert!(client.mutex("m").lock_timeout(HOUR).await?.is_none());
    sleep(HOUR).await;
    assert!(guard.is_valid());
    let mutex = client.mutex("m");
    let waiting = tokio::spawn(async move { mutex.lock().await });
    sleep(HOUR).await;
    assert!(!waiting.is_finished());
    guard.unlock().await?;
    waiting.await.expect("no panic")?.unlock().await?;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    client.close().await
}

#[tokio::test(start_paused = true)]
async fn a_loss_notifies_its_holder() -> Result<()> {
    let client = Client::connect("memory://paused-loss").await?;
    let space = Space::named("paused-loss");
    let guard = client.mutex("m").lock().await?;
    space.delete(guard.key());
    assert_eq!(timeout(HOUR, guard.lost()).await.expect("notified"), LostReason::Evicted);
    let guard = client.mutex("m").lock().await?;
    space.advance(HOUR);
    assert_eq!(timeout(HOUR, guard.lost()).await.expect("notified"), LostReason::SessionExpired);
    client.close().await
}
