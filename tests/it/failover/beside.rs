//! PostgreSQL: the synchronous standby is promoted while the old primary continues. Its writes are
//! never confirmed, yet they become visible once the backends that wait for the standby are
//! terminated.

use std::time::Duration;

use distlock_testkit::proxy::{Mode, Proxy};
use tokio::time::Instant;

use crate::{
    common::{
        SOON, connect, contended, eventually, own::Server, poll, postgres::IMAGE, throughout,
    },
    failover::{
        pair::Replication,
        postgres::{Replicated, ask},
    },
};

/// The TTL of the holder's session.
const LONG: Duration = Duration::from_secs(12);

/// A longer TTL, so these clients send no requests of their own while it matters.
const QUIET: Duration = Duration::from_secs(180);

/// Returns the expiry of the session of this entry.
async fn renewed(server: &Server, key: &str) -> String {
    let session = key.rsplit_once("/").and_then(|(_, name)| name.split_once('-'));
    let session = session.expect("a session").0;
    let sql = format!("SELECT expires FROM distlock.sessions WHERE to_hex(id) = '{session}'");
    ask(server, &[&sql]).await
}

/// A third client removes the holder's session there, unconfirmed. The new primary renews that
/// session, so the old one must not grant the waiter anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfirmed_writes_of_an_old_primary_grant_nothing() {
    let pair = Replicated::synchronous().await;
    let way = Proxy::start(pair.primary.address, None).await;
    let both = IMAGE.around.join(&format!("{},{}", way.address, pair.standby.address));
    let holder = connect(&both, LONG).await;
    let other = connect(&pair.primary.url(), QUIET).await;
    let third = connect(&pair.primary.url(), QUIET).await;
    let (guard, waiter) = contended(&holder, &other, "a").await;
    // The third client observes the server's clock for long enough to judge by it.
    throughout(LONG * 5 / 4, "the lock is held", async || {
        third.mutex("a").queue().await.is_ok_and(|queue| queue.len() <= 2) && guard.is_valid()
    })
    .await;
    let before = renewed(&pair.primary, guard.key()).await;
    eventually(LONG, "the session is renewed", async || {
        renewed(&pair.primary, guard.key()).await != before
    })
    .await;
    let begun = Instant::now();
    way.set(Mode::Refuse);
    tokio::time::sleep_until(begun + LONG * 2 / 3).await;
    Replicated::promote(&pair).await;
    // By now the session has expired on the old primary, where it is not renewed.
    tokio::time::sleep_until(begun + LONG * 113 / 100).await;
    assert!(guard.is_valid(), "the new primary renews the session");
    drop(third.mutex("a").queue().await);
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE wait_event = 'SyncRep'";
    let left = "SELECT count(*) FROM distlock.entries";
    eventually(SOON, "the old primary removes the holder", async || {
        ask(&pair.primary, &[end]).await;
        ask(&pair.primary, &[left]).await == "1"
    })
    .await;
    let over = poll(LONG / 2, async || {
        ask(&pair.primary, &[end]).await;
        !waiter.waits()
    })
    .await;
    let both = guard.is_valid();
    let tried = if over { Some(waiter.result(SOON).await) } else { None };
    println!("the waiter after {:?}: {tried:?}", begun.elapsed());
    assert!(both, "the new primary renews the session");
    assert!(!matches!(tried, Some(Ok(_))), "two clients hold the lock: {tried:?}");
    guard.unlock().await.expect("released");
}

/// An operator cancels the primary's wait for its standby, which lacks the write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_cancelled_confirms_nothing() {
    let pair = Replicated::synchronous().await;
    let client = connect(&pair.primary.url(), LONG).await;
    pair.standby.own.kill().await;
    let mutex = client.mutex("a");
    let trying = tokio::spawn(async move { mutex.lock_timeout(LONG / 4).await });
    let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity \
                  WHERE wait_event = 'SyncRep'";
    let mut cancelled = 0;
    eventually(LONG, "the attempt ends", async || {
        cancelled += ask(&pair.primary, &[cancel]).await.parse::<u32>().expect("a number");
        trying.is_finished()
    })
    .await;
    let tried = trying.await.expect("no panic");
    println!("{cancelled} waits were cancelled: {tried:?}");
    assert!(cancelled > 0);
    assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
}
