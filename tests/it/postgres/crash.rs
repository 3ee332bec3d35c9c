//! The server crashes: what was not flushed is gone.

use std::time::Duration;

use distlock::Client;
use distlock_testkit::proxy::{Mode, Proxy};

use crate::common::{
    SOON, connected, contended, eventually,
    own::Server,
    postgres::{IMAGE, OPERATOR, Postgres, ask, dial},
    queue_of, within,
};

/// Long enough: no session is removed, and none is renewed in a moment.
pub(super) const LONG: Duration = Duration::from_secs(40);

/// A session has not expired by then. An attempt to connect while the server starts may hang, for
/// which a client has six tenths of its TTL.
pub(super) const REPEATED: Duration = Duration::from_secs(30);

/// A server that starts again whenever it stops, and writes its log to the disk when somebody waits
/// for that, or after 10 s.
pub(super) async fn lazy() -> Server {
    let run = "while true; do /entrypoint -cwal_writer_delay=10s; done";
    Server::beside::<Postgres>(IMAGE, &["--entrypoint=sh", "--init"], &["-c", run]).await
}

async fn client(server: &Server) -> Client {
    connected(Client::builder(server.url()).session_ttl(LONG)).await
}

/// As without power: what is in the server's memory alone is lost.
pub(super) async fn crash(server: &Server) {
    let begun = "SELECT pg_postmaster_start_time()";
    let before = ask(&dial(&server.url(), Some(OPERATOR)).await, begun).await;
    let kill = "kill -QUIT \"$(head -n 1 /data/pg/postmaster.pid)\"";
    server.own.run(&["sh", "-c", kill]).await;
    eventually(SOON * 2, "it is started again", async || {
        let url = server.url();
        // Its port takes connections before it lets anybody in.
        let dialled =
            tokio::spawn(async move { ask(&dial(&url, Some(OPERATOR)).await, begun).await });
        dialled.await.is_ok_and(|told| told != before)
    })
    .await;
}

/// One of its processes crashes: the server ends the others, and recovers from its log.
pub(super) async fn crash_process(server: &Server) {
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let process = ask(&operator, "SELECT pg_backend_pid()").await;
    let [process] = process.try_into().expect("one row");
    server.own.run(&["kill", "-KILL", &process]).await;
    eventually(SOON, "it has crashed", async || operator.simple_query("SELECT 1").await.is_err())
        .await;
    drop(operator_of(server).await);
}

/// A connection of the operator's, as soon as the server lets it in.
pub(super) async fn operator_of(server: &Server) -> tokio_postgres::Client {
    let mut operator = None;
    eventually(SOON * 2, "it lets the operator in", async || {
        let url = server.url();
        operator = tokio::spawn(async move { dial(&url, Some(OPERATOR)).await }).await.ok();
        operator.is_some()
    })
    .await;
    operator.expect("just connected")
}

/// The release is a part of the grant: without it the former holder would come back in front of the
/// one that holds the lock.
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
    // Its client does not end its session, nor release anything again.
    way.set(Mode::Refuse);
    let proceeds = next.fencing_token();
    crash(&server).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let first = "SELECT min(number) FROM distlock.members WHERE queue = '/distlock/a'";
    assert_eq!(ask(&operator, first).await, [proceeds.to_string()], "{key} is back");
    assert!(next.is_valid());
    within(SOON, "it is released", next.unlock()).await.expect("released");
    drop(two.close().await);
    drop(one);
}

/// A release that nobody waits for is not flushed. The client that made it makes it again as soon
/// as it is connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_that_a_crash_takes_back_is_repeated() {
    let server = lazy().await;
    let (one, two) = (client(&server).await, client(&server).await);
    for _ in 0..3 {
        let guard = one.mutex("a").lock().await.expect("granted");
        let token = guard.fencing_token();
        guard.unlock().await.expect("released");
        crash(&server).await;
        let next = within(REPEATED, "it is free again", two.mutex("a").lock()).await;
        let next = next.expect("granted");
        assert!(next.fencing_token() > token, "{next:?} after {token}");
        within(SOON, "it is released", next.unlock()).await.expect("released");
    }
    for client in [one, two] {
        drop(client.close().await);
    }
}

/// Locks that are granted together are on the disk when they are granted; what is released together
/// waits for nothing.
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
            guards.push(within(SOON, "it is granted", task).await.expect("no panic"));
        }
        guards
    };
    let mut flushed = true;
    // The server writes its log now and then whatever happens.
    for _ in 0..3 {
        let guards = all().await;
        let before = ask(&operator, "SELECT pg_current_wal_insert_lsn()").await.remove(0);
        let tasks: Vec<_> = guards.into_iter().map(|guard| tokio::spawn(guard.unlock())).collect();
        for task in tasks {
            within(SOON, "it is released", task).await.expect("no panic").expect("released");
        }
        let is_flushed = format!("SELECT pg_current_wal_flush_lsn() > '{before}'");
        flushed &= ask(&operator, &is_flushed).await == ["t"];
    }
    assert!(!flushed, "releases are flushed");
    let guards = all().await;
    // Its client does nothing again.
    way.set(Mode::Refuse);
    crash(&server).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    let stored = "SELECT number FROM distlock.members ORDER BY number";
    let mut tokens: Vec<_> = guards.iter().map(|guard| guard.fencing_token()).collect();
    tokens.sort_unstable();
    let tokens: Vec<_> = tokens.iter().map(ToString::to_string).collect();
    assert_eq!(ask(&operator, stored).await, tokens, "some are gone");
    drop(guards);
}
