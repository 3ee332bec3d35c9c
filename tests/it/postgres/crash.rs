//! Crashes of the server, which lose what was not flushed.

use std::time::Duration;

use distlock::Client;
use distlock_testkit::proxy::{Mode, Proxy};

use crate::common::{
    SOON, connected, contended, eventually,
    own::Server,
    postgres::{IMAGE, OPERATOR, Postgres, ask, dial},
    queue_of, within,
};

/// A TTL so long that no session is removed or renewed during a test.
pub(super) const LONG: Duration = Duration::from_secs(40);

/// Shorter than the session's TTL. A client that connects while the server starts may hang for six
/// tenths of its TTL.
pub(super) const REPEATED: Duration = Duration::from_secs(30);

/// A server that restarts whenever it stops, and flushes its log only on request or after 10 s.
pub(super) async fn lazy() -> Server {
    let run = "while true; do /entrypoint -cwal_writer_delay=10s; done";
    Server::beside::<Postgres>(IMAGE, &["--entrypoint=sh", "--init"], &["-c", run]).await
}

async fn client(server: &Server) -> Client {
    connected(Client::builder(server.url()).session_ttl(LONG)).await
}

/// Crashes the server as a power loss does: only flushed data survives.
pub(super) async fn crash(server: &Server) {
    let begun = "SELECT pg_postmaster_start_time()";
    let before = ask(&dial(&server.url(), Some(OPERATOR)).await, begun).await;
    let kill = "kill -QUIT \"$(head -n 1 /data/pg/postmaster.pid)\"";
    server.own.run(&["sh", "-c", kill]).await;
    eventually(SOON * 2, "the server has restarted", async || {
        let url = server.url();
        // The port accepts connections before the server does.
        let dialled =
            tokio::spawn(async move { ask(&dial(&url, Some(OPERATOR)).await, begun).await });
        dialled.await.is_ok_and(|started| started != before)
    })
    .await;
}

/// Kills one of the server's processes: the server ends the others, and recovers from its log.
pub(super) async fn crash_process(server: &Server) {
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let process = ask(&operator, "SELECT pg_backend_pid()").await;
    let [process] = process.try_into().expect("one row");
    server.own.run(&["kill", "-KILL", &process]).await;
    eventually(SOON, "the server has crashed", async || {
        operator.simple_query("SELECT 1").await.is_err()
    })
    .await;
    drop(operator_of(server).await);
}

/// Returns an operator's connection as soon as the server accepts it.
pub(super) async fn operator_of(server: &Server) -> tokio_postgres::Client {
    let mut operator = None;
    eventually(SOON * 2, "the server accepts the operator", async || {
        let url = server.url();
        operator = tokio::spawn(async move { dial(&url, Some(OPERATOR)).await }).await.ok();
        operator.is_some()
    })
    .await;
    operator.expect("just connected")
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
