//! zookeeper-client 0.11.2; lines below `src/` are those of
//! <https://github.com/kezhuw/zookeeper-client-rust/tree/v0.11.2>.

use std::{
    future::ready,
    net::SocketAddr,
    time::{Duration, Instant},
};

use distlock_testkit::{
    backend::Backend,
    framing::Framing,
    median::median,
    proxy::{Mode, Proxy},
    servers::endpoints,
};
use tokio::{runtime::Runtime, task::yield_now, time::timeout};
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, Error, EventType, LockPrefix, PersistentWatcher,
    SessionState,
};

use crate::assert_defect;

/// The time limit of an expected event.
const SOON: Duration = Duration::from_secs(10);
/// How long an event is shown not to happen, which otherwise takes milliseconds.
const QUIET: Duration = Duration::from_millis(500);
/// The shortest session that the servers grant.
const TTL: Duration = Duration::from_secs(2);

async fn server() -> SocketAddr {
    endpoints(&Backend::ZooKeeper.url()).await[0]
}

async fn proxy() -> Proxy {
    Proxy::start(server().await, Framing::Jute).await
}

async fn session(server: SocketAddr, ttl: Duration) -> Client {
    let connector = Client::connector().with_session_timeout(ttl);
    connector
        .connect(&server.to_string())
        .await
        .expect("ZooKeeper answers: is it up? See docker/up")
}

fn unique() -> String {
    format!("/t-{:016x}", fastrand::u64(..))
}

/// Creates an ephemeral node.
async fn create(client: &Client, path: &str) {
    client
        .create(path, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all()))
        .await
        .expect("a new node");
}

/// Breaks the session's connection. Later requests use the next one.
async fn hang_up(client: &Client, proxy: &Proxy) {
    let mut state = client.state_watcher();
    assert_eq!(state.state(), SessionState::SyncConnected);
    proxy.hang_up();
    // The client may have reconnected before the event is read.
    timeout(SOON, state.changed()).await.expect("the client notices");
}

/// Starts to lock, and is cancelled while the node is created.
async fn cancelled_lock(client: &Client, prefix: LockPrefix<'_>) {
    tokio::select! {
        biased;
        _ = client.lock(prefix, b"", Acls::anyone_all()) => panic!("no reply can be there yet"),
        () = ready(()) => {}
    }
}

/// `Client::lock` claims to be safe to cancel. With Curator's names it deletes its node by the bare
/// name, without the directory, which fails: src/client/mod.rs:525. The node blocks the lock until
/// the session ends.
#[tokio::test]
async fn a_cancelled_lock_leaves_its_node() {
    let (client, dir) = (session(server().await, TTL).await, unique());
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    client.create(&dir, b"", &container).await.expect("a new directory");
    cancelled_lock(&client, LockPrefix::new_curator(&dir, "lock-").unwrap()).await;
    // A name of another kind is also deleted, but correctly.
    cancelled_lock(&client, LockPrefix::new_custom(format!("{dir}/other-"), "").unwrap()).await;
    let start = Instant::now();
    let left = loop {
        let left = client.list_children(&dir).await.unwrap();
        if !left.iter().any(|child| child.starts_with("other-")) {
            break left;
        }
        assert!(start.elapsed() < SOON, "no node is deleted: {left:?}");
    };
    let curators = left.iter().any(|child| child.starts_with("_c_"));
    assert_defect(curators, "src/backend/zookeeper/mod.rs: a reason not to use `Client::lock`");
}

async fn until_changed(watcher: &mut PersistentWatcher) {
    while watcher.changed().await.event_type == EventType::Session {}
}

/// Persistent watches are not restored after a reconnect, without an error: `index.max(index)`
/// stays 0, so they are left out of the request, src/session/watch.rs:446.
#[tokio::test]
async fn a_persistent_watch_does_not_survive_a_reconnect() {
    let (proxy, path, other) = (proxy().await, unique(), unique());
    let client = session(proxy.address, SOON).await;
    create(&client, &path).await;
    create(&client, &other).await;
    let mut persistent = client.watch(&path, AddWatchMode::Persistent).await.unwrap();
    client.set_data(&path, b"1", None).await.unwrap();
    timeout(SOON, until_changed(&mut persistent)).await.expect("the watch works before");
    // On a separate node: its event would also trigger a persistent watch on the same node.
    let (_, _, oneshot) = client.get_and_watch_data(&other).await.unwrap();
    hang_up(&client, &proxy).await;
    client.set_data(&path, b"2", None).await.unwrap();
    client.set_data(&other, b"2", None).await.unwrap();
    timeout(SOON, oneshot.changed()).await.expect("a watch of the other kind survives");
    let notified = timeout(QUIET, until_changed(&mut persistent)).await.is_ok();
    assert_defect(
        !notified,
        "src/backend/zookeeper/mod.rs: a reason for one-shot watches in `store.rs`",
    );
}

/// Returns `true` if a session with this many bytes of watched paths survives its connection.
async fn survives_with_watches(bytes: usize) -> bool {
    let proxy = proxy().await;
    let client = session(proxy.address, TTL).await;
    let prefix = format!("{}-{}", unique(), "x".repeat(1000));
    let paths: Vec<_> =
        (0..bytes / (prefix.len() + 5)).map(|number| format!("{prefix}-{number:04}")).collect();
    let node = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let mut watchers = Vec::new();
    // Several requests in one flight: a request is sent when its method is called.
    for paths in paths.chunks(50) {
        let sent: Vec<_> = paths
            .iter()
            .map(|path| (client.create(path, b"", &node), client.get_and_watch_data(path)))
            .collect();
        for (created, watched) in sent {
            created.await.expect("a new node");
            let (_, _, watcher) = watched.await.expect("the node exists");
            watchers.push(watcher);
        }
    }
    hang_up(&client, &proxy).await;
    let settled = async {
        loop {
            match client.get_data(&paths[0]).await {
                Ok(_) => return true,
                Err(Error::SessionExpired) => return false,
                Err(_) => {}
            }
        }
    };
    timeout(SOON, settled).await.expect("the session reconnects or ends")
}

/// After a reconnect, watches are restored in batches of 128 KiB of paths, which all have the xid
/// -8, so the reply to the second batch finds no request: src/session/watch.rs:449,
/// src/proto/request_header.rs:16, src/session/depot.rs:102. The client reconnects repeatedly until
/// the session has expired.
#[tokio::test]
async fn many_watches_end_the_session() {
    assert!(survives_with_watches(120 << 10).await, "one batch is no trouble");
    let survived = survives_with_watches(512 << 10).await;
    assert_defect(!survived, "src/backend/zookeeper/store.rs: `WATCH_BUDGET`");
}

/// `TCP_NODELAY` is off, so of two requests in one flight the second is not sent until the first is
/// answered: src/session/connection.rs:201.
#[tokio::test]
async fn a_second_request_waits_for_the_reply_to_the_first() {
    const WAY: Duration = Duration::from_millis(10);
    const SESSIONS: usize = 5;
    let proxy = proxy().await;
    proxy.set(Mode::Delay(WAY));
    let mut slow = 0;
    for _ in 0..SESSIONS {
        let client = session(proxy.address, SOON).await;
        let (mut one, mut two) = ([Duration::ZERO; 11], [Duration::ZERO; 11]);
        for (one, two) in one.iter_mut().zip(&mut two) {
            let start = Instant::now();
            client.get_data("/").await.unwrap();
            *one = start.elapsed();
            let start = Instant::now();
            let first = client.get_data("/");
            // On this single-threaded runtime, the yield lets the first request be written. Two
            // requests that are written at once may share a packet.
            yield_now().await;
            let second = client.get_data("/");
            first.await.unwrap();
            second.await.unwrap();
            *two = start.elapsed();
        }
        let [one, two] = [one, two].map(|times| {
            let middle = median(times.iter().map(Duration::as_secs_f64));
            Duration::from_secs_f64(middle.expect("the samples are not empty"))
        });
        println!("{one:?} for one, {two:?} for two");
        slow += usize::from(two > one + WAY);
    }
    // A few connections are not affected: the kernel at the other end acknowledges the first
    // request at once, which releases the second.
    assert_defect(
        slow > SESSIONS / 2,
        "src/backend/zookeeper/store/join.rs: the comment on `TCP_NODELAY`",
    );
}

/// Waiting for an event panics after the runtime on which the session was opened has ended:
/// src/session/watch.rs:120.
#[test]
fn a_watch_panics_without_its_runtime() {
    let (opened_on, waited_on) = (Runtime::new().unwrap(), Runtime::new().unwrap());
    let (client, watcher) = opened_on.block_on(async {
        let client = session(server().await, TTL).await;
        let (_, watcher) = client.check_and_watch_stat(&unique()).await.unwrap();
        (client, watcher)
    });
    drop(opened_on);
    let waiting = async { timeout(SOON, tokio::spawn(watcher.changed())).await };
    let panicked =
        waited_on.block_on(waiting).is_ok_and(|ended| ended.is_err_and(|error| error.is_panic()));
    assert_defect(panicked, "src/backend/zookeeper/store.rs: `event`");
    drop(client);
}

/// `Expired` follows the client's own clock, up to 7/5 of the session timeout:
/// src/session/mod.rs:433. By then the servers have granted the session's locks to other clients.
#[tokio::test]
async fn a_session_expires_late() {
    let proxy = proxy().await;
    let client = session(proxy.address, TTL).await;
    let mut state = client.state_watcher();
    // So that the count starts here.
    client.get_data("/").await.unwrap();
    let start = Instant::now();
    proxy.set(Mode::Refuse);
    while timeout(SOON, state.changed()).await.expect("the session expires")
        != SessionState::Expired
    {}
    let late = start.elapsed() > TTL * 6 / 5;
    assert_defect(late, "src/backend/zookeeper/mod.rs: a reason for deadlines of our own");
}

/// Credentials are sent together with the request for a session: src/session/mod.rs:658. Servers on
/// Netty sometimes answer the credentials first, and the client reads that as the reply to the
/// session request, :474.
#[tokio::test]
async fn credentials_fail_connections() {
    let server = endpoints(&Backend::ZooKeeper.url_with_users()).await[0].to_string();
    let connector = Client::connector().with_session_timeout(TTL).with_fail_eagerly();
    let mut failed = false;
    // About every fifth connection fails. The chance that none does is 1 in 10^9.
    for _ in 0..100 {
        match connector.clone().with_auth("digest", b"app:apppw").connect(&server).await {
            Ok(_) => {}
            Err(Error::NoHosts) => {
                failed = true;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_defect(failed, "src/backend/zookeeper/mod.rs: `attempts_left` in `connect`");
}
