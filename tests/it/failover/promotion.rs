//! The cases of every asynchronous standby that is promoted.

use std::{error::Error as _, time::Duration};

use distlock::{Client, Error, FailoverBehavior, LockGuard};
use tokio::time::{Instant, sleep};

use crate::{
    common::{
        SOON, close, eventually, loss, own::TTL, precedes_grant, promises, reason, refused,
        release, take_turn, within,
    },
    failover::pair::Replication,
};

/// The longest TTL of all clients, for which the new primary waits.
pub(crate) const LONGEST: Duration = Duration::from_secs(6);

/// Asserts that the grant came after the longest TTL, and in time.
pub(crate) fn check_time(begun: Instant, granted: Instant) {
    let time = granted - begun;
    println!("granted {time:?} after the promotion began");
    assert!(time > LONGEST && time < LONGEST * 2, "{time:?}");
}

/// Returns `true` if the server cannot know yet whether the lock is held.
fn is_not_yet(tried: &distlock::Result<Option<LockGuard>>) -> bool {
    let Err(error @ Error::NotYet { .. }) = tried else { return false };
    error.source().is_some_and(|reason| reason.to_string().contains("may lack granted locks"))
}

/// Tries to acquire a free lock until it is granted, and returns the time of the grant. Until then
/// each attempt must return `NotYet`.
pub(crate) async fn granted(client: &Client, name: &str) -> Instant {
    loop {
        let tried = client.mutex(name).try_lock().await;
        if let Ok(Some(guard)) = tried {
            let granted = Instant::now();
            guard.unlock().await.expect("released");
            return granted;
        }
        assert!(is_not_yet(&tried), "{tried:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The new primary does not know the latest grants of the old one.
pub(crate) async fn a_holder_unknown_to_the_new_primary_is_notified_first<R: Replication>() {
    let pair = R::asynchronous().await;
    let (holder, other) = (pair.client(TTL).await, pair.client(LONGEST).await);
    assert_eq!(promises(&holder).await, (false, FailoverBehavior::MayLoseGrants));
    R::part(&pair).await;
    for _ in 0..20 {
        take_turn(&other, "a").await;
    }
    let guard = holder.mutex("a").lock().await.expect("granted");
    let token = guard.fencing_token();
    pair.primary.own.kill().await;
    let begun = Instant::now();
    R::promote(&pair).await;
    let loss = loss(guard);
    let next = within(LONGEST * 3, "the lock is granted", other.mutex("a").lock()).await;
    let granted = Instant::now();
    let next = next.expect("granted");
    check_time(begun, granted);
    assert!(next.fencing_token() > token, "{:?} after {token:?}", next.fencing_token());
    precedes_grant(loss).await;
    next.unlock().await.expect("released");
    close([holder, other]).await;
}

/// The old primary and its clients continue, so the new one waits until the clients must have
/// noticed.
pub(crate) async fn a_promoted_standby_waits_for_the_longest_ttl<R: Replication>() {
    let pair = R::asynchronous().await;
    let (holder, long) = (pair.primary.client().await, pair.client(LONGEST).await);
    R::part(&pair).await;
    let guard = holder.mutex("a").lock().await.expect("granted");
    let begun = Instant::now();
    R::promote(&pair).await;
    let newcomer = pair.standby.client().await;
    let (mutex, reader) = (newcomer.mutex("a"), newcomer.rw_lock("a"));
    let permits = newcomer.semaphore("a", 3);
    let mutex = tokio::spawn(async move { Ok((mutex.lock().await?, Instant::now())) });
    let reader = tokio::spawn(async move { reader.read().await.map(|_| Instant::now()) });
    let permit = tokio::spawn(async move { permits.acquire().await.map(|_| Instant::now()) });
    let election = newcomer.election("a");
    let leads = tokio::spawn(async move { election.campaign("x").await.map(|_| Instant::now()) });
    eventually(SOON, "the client is a candidate", async || {
        newcomer.election("a").queue().await.is_ok_and(|queue| queue.len() == 2)
    })
    .await;
    assert_eq!(newcomer.election("a").leader().await.expect("a reply"), None);
    let free = granted(&newcomer, "b").await;
    let next: distlock::Result<_> = mutex.await.expect("no panic");
    let (next, at) = next.expect("granted");
    for at in [free, at] {
        check_time(begun, at);
    }
    for task in [reader, permit, leads] {
        check_time(begun, task.await.expect("no panic").expect("granted"));
    }
    // The holder on the old primary was not notified, which is not guaranteed.
    assert!(guard.is_valid() && next.is_valid());
    assert!(next.fencing_token() > guard.fencing_token());
    release([next, guard]).await;
    close([holder, long, newcomer]).await;
}

/// A lock whose release the standby lacks becomes free.
pub(crate) async fn locks_released_before_a_promotion_become_free<R: Replication>() {
    let pair = R::asynchronous().await;
    let (holder, other) = (pair.client(TTL).await, pair.client(TTL).await);
    let guard = holder.mutex("a").lock().await.expect("granted");
    R::part(&pair).await;
    guard.unlock().await.expect("released");
    pair.primary.own.kill().await;
    R::promote(&pair).await;
    let next =
        within(TTL * 5, "the lock is granted", other.mutex("a").lock()).await.expect("granted");
    next.unlock().await.expect("released");
    close([holder, other]).await;
}

pub(crate) async fn a_standby_is_refused<R: Replication>() {
    let pair = R::asynchronous().await;
    let error = refused(pair.standby.builder().connect_timeout(TTL)).await;
    assert!(reason(&error).contains(R::STANDBY), "{error:?}");
}

pub(crate) async fn a_server_that_is_back_grants_at_once<R: Replication>() {
    let mut server = R::primary_alone().await;
    let client = server.client().await;
    take_turn(&client, "a").await;
    close([client]).await;
    server.restart().await;
    let client = server.client().await;
    let guard = client.mutex("a").try_lock().await.expect("a reply").expect("granted");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// Emits the cases for a store.
macro_rules! promotion {
    ($pair:ty) => {
        mod promotion {
            use super::*;

            $crate::failover::promotion::promotion! { $pair,
                a_holder_unknown_to_the_new_primary_is_notified_first,
                a_promoted_standby_waits_for_the_longest_ttl,
                locks_released_before_a_promotion_become_free,
                a_standby_is_refused,
                a_server_that_is_back_grants_at_once,
            }
        }
    };
    ($pair:ty, $($case:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::failover::promotion::$case::<$pair>().await;
        }
    )* };
}
pub(crate) use promotion;
