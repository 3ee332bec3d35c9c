//! Crashes of the server, which lose what was not flushed.

use std::time::Duration;

use distlock::Client;
use distlock_testkit::proxy::{Mode, Proxy};

use super::place::{Server, crash, lazy};
use crate::common::{
    SOON, connected, contended,
    postgres::{IMAGE, OPERATOR, ask, dial},
    queue_of, within,
};

/// A TTL so long that no session is removed or renewed during a test.
pub(super) const LONG: Duration = Duration::from_secs(40);

/// Shorter than the session's TTL. A client that connects while the server starts may hang for six
/// tenths of its TTL.
pub(super) const REPEATED: Duration = Duration::from_secs(30);

async fn client(server: &Server) -> Client {
    connected(Client::builder(server.url()).session_ttl(LONG)).await
}

/// The release is flushed with the grant. Otherwise a crash could put the former holder back ahead
/// of the current one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handover_is_on_the_disk_when_the_next_one_is_granted() {
    let server = lazy().await;
    let way = Proxy::start(server.address, None).await;
    let url = IMAGE.around.join(&way.address.to_string());
    let one = connected(Client::builder(url).session_ttl(LONG)).await;
    let two = client(&server).await;
    let (guard, waiter) = contended(&one, &two, "a").await;
    queue_of(&two, "a", 2).await;
    let key = guard.key().to_owned();
    guard.unlock().await.expect("released");
    let next = waiter.result(SOON).await.expect("granted");
    // The former holder's client neither ends its session nor repeats a release.
    way.set(Mode::Refuse);
    let proceeds = next.fencing_token();
    crash(&server).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let first = "SELECT min(number) FROM distlock.members WHERE queue = '/distlock/a'";
    assert_eq!(ask(&operator, first).await, [proceeds.to_string()], "{key} is back");
    assert!(next.is_valid());
    within(SOON, "the lock is released", next.unlock()).await.expect("released");
    drop(two.close().await);
    drop(one);
}

/// A release without a waiter is not flushed. The client repeats it as soon as it reconnects.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_undone_by_a_crash_is_repeated() {
    let server = lazy().await;
    let (one, two) = (client(&server).await, client(&server).await);
    for _ in 0..3 {
        let guard = one.mutex("a").lock().await.expect("granted");
        let token = guard.fencing_token();
        guard.unlock().await.expect("released");
        crash(&server).await;
        let next = within(REPEATED, "the lock is free again", two.mutex("a").lock()).await;
        let next = next.expect("granted");
        assert!(next.fencing_token() > token, "{next:?} after {token}");
        within(SOON, "the lock is released", next.unlock()).await.expect("released");
    }
    for client in [one, two] {
        drop(client.close().await);
    }
}

/// Locks that are granted together are on disk before the grants. Releases together wait for no
/// flush.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_granted_together_are_on_the_disk() {
    let server = lazy().await;
    let way = Proxy::start(server.address, None).await;
    let url = IMAGE.around.join(&way.address.to_string());
    let client = connected(Client::builder(url).session_ttl(LONG)).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let all = async || {
        let lock = |number: usize| {
            let mutex = client.mutex(format!("a-{number}"));
            tokio::spawn(async move { mutex.lock().await.expect("granted") })
        };
        let tasks: Vec<_> = (0..32).map(lock).collect();
        let mut guards = Vec::new();
        for task in tasks {
            guards.push(within(SOON, "the lock is granted", task).await.expect("no panic"));
        }
        guards
    };
    let mut flushed = true;
    // The server occasionally flushes its log by itself.
    for _ in 0..3 {
        let guards = all().await;
        let before = ask(&operator, "SELECT pg_current_wal_insert_lsn()").await.remove(0);
        let tasks: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.unlock())).collect();
        for task in tasks {
            within(SOON, "the lock is released", task).await.expect("no panic").expect("released");
        }
        let is_flushed = format!("SELECT pg_current_wal_flush_lsn() > '{before}'");
        flushed &= ask(&operator, &is_flushed).await == ["t"];
    }
    assert!(!flushed, "releases are flushed");
    let guards = all().await;
    // The client is cut off, so it repeats nothing.
    way.set(Mode::Refuse);
    crash(&server).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let stored = "SELECT number FROM distlock.members ORDER BY number";
    let mut tokens: Vec<_> = guards.iter().map(|guard| guard.fencing_token()).collect();
    tokens.sort_unstable();
    let tokens: Vec<_> = tokens.iter().map(ToString::to_string).collect();
    assert_eq!(ask(&operator, stored).await, tokens, "some grants are lost");
    drop(guards);
}
