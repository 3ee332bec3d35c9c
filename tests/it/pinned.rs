//! The program that the design pins: each call as it stands there, with the types that it returns.
//! Programs outside of this repository compile against these, so this file does not change.

use std::time::Duration;

use distlock::{Client, FencingToken, LockGuard, Lost, LostReason, Mutex};

/// What a guard has to be, without a type parameter on anything that a user names.
fn owned<T: Send + Sync + 'static>(_: &T) {}

fn cheap<T: Clone + Send + Sync>(_: &T) {}

fn token<T: Copy + Ord + std::fmt::Display + Into<u64>>(_: T) {}

#[tokio::test]
async fn the_pinned_program_compiles_and_runs() -> distlock::Result<()> {
    let client = Client::connect("memory://pinned").await?;
    client.close().await?;
    let client = Client::builder("memory://pinned")
        .namespace("/app/locks")
        .session_ttl(Duration::from_secs(10))
        .owner("worker-7")
        .connect()
        .await?;
    cheap(&client);
    let _: Duration = client.session_ttl();

    let mutex: Mutex = client.mutex("nightly-report");
    let guard: LockGuard = mutex.lock().await?;
    owned(&guard);
    let busy: Option<LockGuard> = mutex.try_lock().await?;
    assert!(busy.is_none());
    let late: Option<LockGuard> = mutex.lock_timeout(Duration::from_millis(5)).await?;
    assert!(late.is_none());

    let fencing_token: FencingToken = guard.fencing_token();
    token(fencing_token);
    let (name, key): (&str, &str) = (guard.name(), guard.key());
    assert!(name == "nightly-report" && key.starts_with("/app/locks/nightly-report/"));
    let (valid, remaining): (bool, Duration) = (guard.is_valid(), guard.remaining());
    assert!(valid && !remaining.is_zero());
    let outcome: Result<u32, Lost> = guard.run(async { 42 }).await;
    assert_eq!(outcome?, 42);
    guard.unlock().await?;

    let guard = mutex.try_lock().await?.expect("it is free");
    drop(guard);
    let guard = mutex.lock_timeout(Duration::from_secs(5)).await?.expect("it becomes free");
    client.close().await?;
    let reason: LostReason = guard.lost().await;
    assert_eq!(reason, LostReason::ClientClosed);
    let outcome: Result<u32, Lost> = guard.run(async { 42 }).await;
    assert_eq!(outcome.expect_err("it is lost").reason, LostReason::ClientClosed);
    Ok(())
}
