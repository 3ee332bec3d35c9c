//! Situations, and the signals of each: all of them, and none twice.

use std::time::Duration;

use distlock::{Error, LostReason, memory::Space};
use tokio::time::{sleep, timeout};

use super::listener::{Listener, locked, locked_with};

const A_WHILE: Duration = Duration::from_millis(50);
/// Enough time for a waiter to know its position, even on a busy machine.
const LONG_ENOUGH: Duration = Duration::from_secs(1);

/// The signals of one mutex that was acquired at once and released.
const LOCKED_AND_RELEASED: &[(&str, i64)] = &[
    ("acquire.duration acquired mutex", 1),
    ("hold.duration released mutex", 1),
    ("held mutex most", 1),
    ("waiters mutex most", 1),
    ("span distlock.acquire mutex acquired token place=0", 1),
    ("span distlock.hold mutex released token", 1),
    ("DEBUG granted", 1),
    ("DEBUG released", 1),
];

#[tokio::test]
async fn locked_and_unlocked() {
    let listener = Listener::new("unlocked");
    let client = listener.client().await;
    client.mutex(listener.lock("a")).lock().await.unwrap().unlock().await.unwrap();
    listener.expect(LOCKED_AND_RELEASED).await;
}

#[tokio::test]
async fn locked_and_dropped() {
    let listener = Listener::new("dropped");
    let client = listener.client().await;
    drop(client.mutex(listener.lock("a")).lock().await.unwrap());
    listener.expect(LOCKED_AND_RELEASED).await;
}

#[tokio::test]
async fn an_unlock_that_is_dropped() {
    let (listener, _client, guard) = locked("forsaken").await;
    Space::named("forsaken").set_reachable(false);
    timeout(A_WHILE, guard.unlock()).await.unwrap_err();
    Space::named("forsaken").set_reachable(true);
    listener.expect(LOCKED_AND_RELEASED).await;
}

#[tokio::test]
async fn signals_of_unsuccessful_calls() {
    let listener = Listener::new("nothing");
    let (client, other) = (listener.client().await, listener.client().await);
    // This client emits nothing.
    let held = other.mutex("held").lock().await.unwrap();
    let name = listener.lock("a");
    let guard = other.mutex(&name).lock().await.unwrap();
    let mutex = client.mutex(&name);
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert!(mutex.lock_timeout(LONG_ENOUGH).await.unwrap().is_none());
    timeout(LONG_ENOUGH, mutex.lock()).await.unwrap_err();
    client.close().await.unwrap();
    assert!(matches!(mutex.lock().await, Err(Error::Closed)));
    assert!(matches!(
        client.mutex("").lock().await,
        Err(Error::InvalidArgument { argument: "name", .. })
    ));
    listener
        .expect(&[
            ("acquire.duration acquired mutex", 1),
            ("acquire.duration busy mutex", 1),
            ("acquire.duration timeout mutex", 1),
            ("acquire.duration cancelled mutex", 1),
            ("acquire.duration error mutex closed", 1),
            ("held mutex now", 1),
            ("held mutex most", 1),
            ("waiters mutex most", 1),
            ("span distlock.acquire mutex acquired token place=0", 1),
            ("span distlock.acquire mutex busy", 1),
            ("span distlock.acquire mutex timeout place=1", 1),
            ("span distlock.acquire mutex cancelled place=1", 1),
            ("span distlock.acquire mutex error", 1),
            ("open distlock.hold", 1),
            ("DEBUG granted", 1),
        ])
        .await;
    drop((guard, held));
}

/// The signals of a mutex that was lost, with those of the reason.
fn lost(lines: [&'static str; 2]) -> Vec<(&'static str, i64)> {
    let lost = [
        ("acquire.duration acquired mutex", 1),
        ("hold.duration lost mutex", 1),
        ("held mutex most", 1),
        ("waiters mutex most", 1),
        ("span distlock.acquire mutex acquired token place=0", 1),
        ("span distlock.hold mutex lost token", 1),
        ("DEBUG granted", 1),
    ];
    lost.into_iter().chain(lines.map(|line| (line, 1))).collect()
}

/// Reported as soon as the loss is known, even without a query, and only once.
#[tokio::test]
async fn lost_with_its_session() {
    let (listener, _client, guard) = locked("expired").await;
    Space::named("expired").expire_session(guard.key());
    let expected = lost(["lost mutex session_expired", "WARN lost session_expired"]);
    listener.expect(&expected).await;
    assert_eq!(guard.lost().await, LostReason::SessionExpired);
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    listener.expect(&expected).await;
}

#[tokio::test]
async fn signals_of_an_eviction() {
    let (listener, _client, guard) = locked("deleted").await;
    Space::named("deleted").delete(guard.key());
    let expected = lost(["lost mutex evicted", "WARN lost evicted"]);
    listener.expect(&expected).await;
    drop(guard);
    sleep(A_WHILE).await;
    listener.expect(&expected).await;
}

/// The unlock detects the loss.
#[tokio::test]
async fn loss_noticed_by_unlock() {
    let (listener, _client, guard) = locked("unnoticed").await;
    Space::named("unnoticed").delete(guard.key());
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    listener.expect(&lost(["lost mutex evicted", "WARN lost evicted"])).await;
}

#[tokio::test]
async fn lost_at_the_deadline() {
    let (listener, _client, guard) =
        locked_with("silent", |builder| builder.session_ttl(Duration::from_millis(300))).await;
    Space::named("silent").set_reachable(false);
    listener.expect(&lost(["lost mutex deadline_passed", "WARN lost deadline_passed"])).await;
    drop(guard);
}

/// The key keeps other clients waiting until it is deleted.
#[tokio::test]
async fn deletion_after_max_hold_is_reported() {
    let listener = Listener::new("overdue");
    let client = listener.builder().request_timeout(A_WHILE).connect().await.unwrap();
    // Also on a busy machine, the store is away before this has passed.
    let mutex = client.mutex(listener.lock("a")).max_hold(LONG_ENOUGH * 2);
    let guard = mutex.lock().await.unwrap();
    Space::named("overdue").set_reachable(false);
    assert_eq!(guard.lost().await, LostReason::HeldTooLong);
    let mut expected = lost(["lost mutex held_too_long", "WARN lost held_too_long"]);
    expected.push(("WARN the release is not confirmed yet and will be retried", 1));
    listener.expect(&expected).await;
    // The guard's own release does not report it again.
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    listener.expect(&expected).await;
    Space::named("overdue").set_reachable(true);
}

/// No warning is needed.
#[tokio::test]
async fn lost_by_closing_the_client() {
    let (listener, client, guard) = locked("closed").await;
    client.close().await.unwrap();
    drop(guard);
    listener.expect(&lost(["lost mutex client_closed", "INFO lost client_closed"])).await;
}

#[tokio::test]
async fn a_release_that_takes_long() {
    let (listener, _client, guard) =
        locked_with("slow-release", |builder| builder.request_timeout(A_WHILE)).await;
    Space::named("slow-release").set_reachable(false);
    assert!(matches!(guard.unlock().await, Err(Error::ReleaseUnconfirmed { .. })));
    let mut expected = LOCKED_AND_RELEASED.to_vec();
    expected.retain(|(what, _)| !what.contains("released"));
    expected.extend([
        ("WARN the release is not confirmed yet and will be retried", 1),
        ("open distlock.hold", 1),
    ]);
    listener.expect(&expected).await;
    Space::named("slow-release").set_reachable(true);
    expected.pop();
    expected.extend(LOCKED_AND_RELEASED.iter().filter(|(what, _)| what.contains("released")));
    listener.expect(&expected).await;
}

/// The same for a dropped guard.
#[tokio::test]
async fn a_guard_that_is_dropped_while_the_store_is_away() {
    let (listener, _client, guard) =
        locked_with("away", |builder| builder.request_timeout(A_WHILE)).await;
    Space::named("away").set_reachable(false);
    drop(guard);
    let warning = ("WARN the release is not confirmed yet and will be retried".to_owned(), 1);
    while !listener.counts().contains_key(&warning.0) {
        sleep(A_WHILE / 10).await;
    }
    Space::named("away").set_reachable(true);
    let mut expected = LOCKED_AND_RELEASED.to_vec();
    expected.push((&warning.0, 1));
    listener.expect(&expected).await;
}

#[tokio::test]
async fn signals_of_readers_and_downgraded_writer() {
    let listener = Listener::new("rw");
    let client = listener.client().await;
    let lock = client.rw_lock(listener.lock("a"));
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    assert!(lock.try_write().await.unwrap().is_none());
    one.unlock().await.unwrap();
    two.unlock().await.unwrap();
    let reader = lock.write().await.unwrap().downgrade().await.unwrap();
    Space::named("rw").delete(reader.key());
    assert_eq!(reader.lost().await, LostReason::Evicted);
    drop(reader);
    listener
        .expect(&[
            ("acquire.duration acquired reader", 2),
            ("acquire.duration busy writer", 1),
            ("acquire.duration acquired writer", 1),
            ("hold.duration released reader", 2),
            ("hold.duration lost reader", 1),
            ("lost reader evicted", 1),
            ("held reader most", 2),
            ("held writer most", 1),
            ("waiters reader most", 1),
            ("waiters writer most", 1),
            ("span distlock.acquire reader acquired token place=0", 1),
            ("span distlock.acquire reader acquired token place=1", 1),
            ("span distlock.acquire writer busy", 1),
            ("span distlock.acquire writer acquired token place=0", 1),
            ("span distlock.hold reader released token", 2),
            ("span distlock.hold writer lost token", 1),
            ("DEBUG granted", 3),
            ("DEBUG released", 2),
            ("WARN lost evicted", 1),
        ])
        .await;
}

/// The gate's hold is not reported.
#[tokio::test]
async fn permits() {
    let listener = Listener::new("permits");
    let client = listener.client().await;
    let semaphore = client.semaphore(listener.lock("a"), 3);
    let permit = semaphore.acquire_many(2).await.unwrap();
    assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
    assert!(semaphore.acquire_many_timeout(2, LONG_ENOUGH).await.unwrap().is_none());
    permit.release().await.unwrap();
    let error = client.semaphore(listener.lock("a"), 3).acquire_many(4).await.unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "permits", .. }), "{error:?}");
    listener
        .expect(&[
            ("acquire.duration acquired semaphore", 1),
            ("acquire.duration busy semaphore", 1),
            ("acquire.duration timeout semaphore", 1),
            ("acquire.duration error semaphore other", 1),
            ("hold.duration released semaphore", 1),
            ("held semaphore most", 1),
            ("waiters semaphore most", 1),
            ("span distlock.acquire semaphore acquired token place=0", 1),
            ("span distlock.acquire semaphore busy", 1),
            ("span distlock.acquire semaphore timeout place=1", 1),
            ("span distlock.acquire semaphore error", 1),
            ("span distlock.hold semaphore released token", 1),
            ("DEBUG granted", 1),
            ("DEBUG released", 1),
        ])
        .await;
}

/// The entries at the gate are not those ahead.
#[tokio::test]
async fn places_of_permits() {
    let listener = Listener::new("places");
    let client = listener.client().await;
    let semaphore = client.semaphore(listener.lock("a"), 3);
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(semaphore.acquire().await.unwrap());
    }
    for permit in permits {
        permit.release().await.unwrap();
    }
    listener
        .expect(&[
            ("acquire.duration acquired semaphore", 3),
            ("hold.duration released semaphore", 3),
            ("held semaphore most", 3),
            ("waiters semaphore most", 1),
            ("span distlock.acquire semaphore acquired token place=0", 1),
            ("span distlock.acquire semaphore acquired token place=1", 1),
            ("span distlock.acquire semaphore acquired token", 1),
            ("span distlock.hold semaphore released token", 3),
            ("DEBUG granted", 3),
            ("DEBUG released", 3),
        ])
        .await;
}

#[tokio::test]
async fn a_leader() {
    let listener = Listener::new("leader");
    let client = listener.client().await;
    let election = client.election(listener.lock("a"));
    let leadership = election.campaign("one").await.unwrap();
    leadership.proclaim("two").await.unwrap();
    assert_eq!(listener.counts().get("leader now"), Some(&1));
    leadership.resign().await.unwrap();
    listener
        .expect(&[
            ("acquire.duration acquired election", 1),
            ("hold.duration released election", 1),
            ("held election most", 1),
            ("leader most", 1),
            ("waiters election most", 1),
            ("span distlock.acquire election acquired token place=0", 1),
            ("span distlock.hold election released token", 1),
            ("DEBUG granted", 1),
            ("DEBUG released", 1),
        ])
        .await;
}

/// Each name is a grant.
#[tokio::test]
async fn several_locks_at_once() {
    let listener = Listener::new("several");
    let client = listener.client().await;
    let names = ["a", "b", "c"].map(|name| listener.lock(name));
    let all = client.lock_all(&names).await.unwrap();
    Space::named("several").delete(all.guards()[1].key());
    assert_eq!(all.lost().await.1, LostReason::Evicted);
    assert!(matches!(all.unlock().await, Err(Error::Lost { .. })));
    let expected = [
        ("acquire.duration acquired mutex", 3),
        ("hold.duration released mutex", 2),
        ("hold.duration lost mutex", 1),
        ("lost mutex evicted", 1),
        ("held mutex most", 3),
        ("waiters mutex most", 3),
        ("span distlock.acquire mutex acquired token", 2),
        ("span distlock.acquire mutex acquired token place=0", 1),
        ("span distlock.hold mutex released token", 2),
        ("span distlock.hold mutex lost token", 1),
        ("DEBUG granted", 3),
        ("DEBUG released", 2),
        ("WARN lost evicted", 1),
    ];
    listener.expect(&expected).await;
}

/// Acquired one by one if one of them is not free: the earlier ones were held.
#[tokio::test]
async fn several_locks_of_which_one_is_held() {
    let listener = Listener::new("partly");
    let (client, other) = (listener.client().await, listener.client().await);
    let names = ["a", "b", "c"].map(|name| listener.lock(name));
    let guard = other.mutex(&names[1]).lock().await.unwrap();
    assert!(client.try_lock_all(&names).await.unwrap().is_none());
    guard.unlock().await.unwrap();
    listener
        .expect(&[
            ("acquire.duration acquired mutex", 2),
            ("acquire.duration busy mutex", 1),
            ("hold.duration released mutex", 2),
            ("held mutex most", 2),
            ("waiters mutex most", 3),
            ("span distlock.acquire mutex one_by_one", 3),
            ("span distlock.acquire mutex acquired token place=0", 2),
            ("span distlock.acquire mutex busy", 1),
            ("span distlock.hold mutex released token", 2),
            ("DEBUG granted", 2),
            ("DEBUG released", 2),
        ])
        .await;
}
