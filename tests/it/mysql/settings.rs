//! Settings of the server and of proxies in front of it, which the tests vary.

use std::time::Duration;

use distlock::{Client, Error};
use distlock_testkit::servers::endpoints;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::{
    common::{
        SOON, Waiter, connect,
        database::Database,
        eventually, locked,
        mysql::{DATABASE, IMAGE, Mysql, PROGRAM, ask, dial},
        own::Server,
        reason, refused, release, release_both, take_turn, within,
    },
    mysql::tables::Own,
};

/// Starts a server of the test and returns it with its URL.
pub(crate) async fn own(run: &[&str], arguments: &[&str]) -> (Server, String) {
    let server = Server::beside::<Mysql>(IMAGE, &[&[DATABASE], run].concat(), arguments).await;
    let url = server.url();
    (server, url)
}

async fn client(url: &str) -> Client {
    connect(url, Duration::from_secs(30)).await
}

async fn exclusive(client: &Client) -> bool {
    client.durability().await.expect("a reply").exclusive
}

/// With `completion_type = CHAIN` each commit opens another transaction, in which a keepalive would
/// stay uncommitted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keepalives_are_committed_whatever_the_completion_type() {
    let (_own, url) = own(&[], &["--completion-type=CHAIN"]).await;
    let client = connect(&url, Duration::from_secs(2)).await;
    let guard = client.mutex("a").lock().await.expect("granted");
    let mut other = dial(&url, None).await;
    let expires = "SELECT expires FROM distlock_sessions JOIN distlock_alone ON id = session";
    let first = ask(&mut other, expires).await;
    assert_eq!(first.len(), 1);
    eventually(SOON, "another connection sees a keepalive", async || {
        // A reader's own transaction ends with each statement.
        ask(&mut dial(&url, None).await, expires).await != first
    })
    .await;
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
}

/// The limit would truncate lists, and the query that identifies the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_stays_the_same_whatever_the_select_limit() {
    let (_own, url) = own(&[], &[]).await;
    let before = client(&url).await;
    let held = [before.mutex("a").lock().await, before.mutex("b").lock().await];
    let mut operator = dial(&url, None).await;
    let known = "SELECT CONCAT(server, ' ', floor) FROM distlock_schema";
    let first = ask(&mut operator, known).await;
    ask(&mut operator, "SET GLOBAL sql_select_limit = 1").await;
    let after = client(&url).await;
    assert_eq!(ask(&mut operator, known).await, first);
    let granted = within(SOON, "a reply", after.mutex("c").try_lock()).await;
    granted
        .expect("the server is known")
        .expect("the lock is free")
        .unlock()
        .await
        .expect("released");
    assert_eq!(after.locks().await.expect("a list").len(), 2);
    ask(&mut operator, "SET GLOBAL read_only = 1").await;
    let error = refused(Client::builder(&url).connect_timeout(Duration::from_secs(2))).await;
    assert!(reason(&error).contains("read-only (read_only)"), "{error:?}");
    ask(&mut operator, "SET GLOBAL read_only = 0").await;
    release(held.map(|guard| guard.expect("granted"))).await;
}

/// The server would refuse statements that may read more rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_succeed_whatever_the_join_size() {
    let (_own, url) = own(&[], &[]).await;
    let mut operator = dial(&url, None).await;
    ask(&mut operator, "SET GLOBAL max_join_size = 1").await;
    let (first, second) = (client(&url).await, client(&url).await);
    let guard = first.mutex("a").lock().await.expect("granted");
    let others = [first.mutex("b").lock().await, second.mutex("c").lock().await];
    let waiter = Waiter::of(&second, "a");
    eventually(SOON, "the waiter is in the queue", async || {
        first.mutex("a").queue().await.expect("a list").len() == 2
    })
    .await;
    assert_eq!(first.locks().await.expect("a list").len(), 3);
    release_both(guard, waiter).await;
    release(others.map(|guard| guard.expect("granted"))).await;
    first.close().await.expect("closed");
    second.close().await.expect("closed");
}

/// The server would convert texts to UTF-16, and store and compare the result as bytes. It would
/// also truncate lists of ids. A superuser's connection does not run `init_connect`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_exclude_each_other_whatever_their_collation() {
    let collation = "--init-connect=SET collation_connection = 'utf16_bin'";
    let (server, as_root) = own(&[], &[collation, "--group-concat-max-len=4"]).await;
    let user = "CREATE USER app@'%' IDENTIFIED BY 'apppw'; GRANT ALL ON distlock.* TO app@'%'";
    server.own.run(&[&PROGRAM[..], &[user]].concat()).await;
    let url = as_root.replace("root:root", "app:apppw");
    let [one, other] = [client(&as_root).await, client(&url).await];
    let guard = locked(&one, "a").await;
    let tried = within(SOON, "a reply", other.mutex("a").try_lock()).await;
    assert!(tried.expect("a reply").is_none());
    let waiter = Waiter::of(&other, "a");
    release_both(guard, waiter).await;
    for client in [one, other] {
        client.close().await.expect("closed");
    }
}

/// The server refuses all writes at the isolation level that distlock uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_log_of_statements_is_refused_by_name() {
    let (_own, url) = own(&[], &["--log-bin=log"]).await;
    ask(&mut dial(&url, None).await, "SET GLOBAL binlog_format = STATEMENT").await;
    let error = refused(Client::builder(&url).connect_timeout(Duration::from_secs(2))).await;
    assert!(reason(&error).contains("BINLOG_FORMAT = STATEMENT"), "{}", reason(&error));
}

/// With a binary log InnoDB does not flush its own commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn durability_follows_the_flushing_of_both_logs() {
    let (_own, url) = own(&[], &["--log-bin=log"]).await;
    let (client, mut operator) = (client(&url).await, dial(&url, None).await);
    for (setting, promised) in [
        ("sync_binlog = 0", false),
        ("sync_binlog = 1000", false),
        ("sync_binlog = 1", true),
        ("innodb_flush_log_at_trx_commit = 2", false),
        ("innodb_flush_log_at_trx_commit = 3", true),
        ("innodb_flush_log_at_trx_commit = 1", true),
    ] {
        ask(&mut operator, &format!("SET GLOBAL {setting}")).await;
        assert_eq!(exclusive(&client).await, promised, "{setting}");
    }
    client.close().await.expect("closed");
}

/// Restarts the server repeatedly, as long as `/data/down` does not exist.
const AGAIN: &str =
    "while :; do /entrypoint \"$@\"; while [ -e /data/down ]; do sleep 0.1; done; done";

/// The server is killed, and its binary log loses what a power loss may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_repeated_by_a_crash_are_not_promised() {
    // The server flushes nothing by itself during the test.
    let arguments = ["--log-bin=log", "--innodb-flush-log-at-timeout=2700"];
    let arguments = [&["-c", AGAIN, "bash"][..], &arguments].concat();
    let (server, url) = own(&["--entrypoint=bash"], &arguments).await;
    let shell = async |script: &str| server.own.run(&["bash", "-c", script]).await;
    let first = client(&url).await;
    take_turn(&first, "a").await;
    let promised = exclusive(&first).await;
    let synced = shell("stat --format='%s %n' /data/mysql/log.*[0-9]").await;
    let (size, log) = synced.split_once(' ').expect("size and name");
    let guard = first.mutex("a").lock().await.expect("granted");
    shell(
        "touch /data/down; pid=$(cat /data/mysql/*.pid); kill -9 $pid; \
         while kill -0 $pid 2>/dev/null; do sleep 0.05; done",
    )
    .await;
    shell(&format!("truncate --size={size} {log}; rm /data/down")).await;
    server.serves().await;
    let second = client(&url).await;
    let next = within(SOON, "a reply", second.mutex("a").try_lock()).await.expect("a reply");
    let tokens = (guard.fencing_token(), next.as_ref().map(|next| next.fencing_token()));
    println!("promised: {promised}; tokens: {tokens:?}");
    assert!(!promised || tokens.1.is_none(), "a second holder, with {tokens:?}");
    assert!(!promised, "a crash may undo what was confirmed");
}

/// Forwards all traffic. On a signal it resets the server's side between two requests, as a pooler
/// does before it assigns a connection to another client (`COM_RESET_CONNECTION`).
async fn pooler(server: &str) -> (String, mpsc::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (reset, mut resets) = mpsc::channel::<()>(1);
    let server = endpoints(server).await[0];
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut server = TcpStream::connect(server).await.expect("the server");
            let (mut requests, mut replies) = ([0; 4096], [0; 4096]);
            loop {
                tokio::select! {
                    read = client.read(&mut requests) => match read {
                        Ok(size) if size > 0 => {
                            server.write_all(&requests[..size]).await.expect("sent");
                        }
                        _ => break,
                    },
                    read = server.read(&mut replies) => match read {
                        Ok(size) if size > 0 => {
                            client.write_all(&replies[..size]).await.expect("sent");
                        }
                        _ => break,
                    },
                    Some(()) = resets.recv() => {
                        server.write_all(&[1, 0, 0, 0, 0x1f]).await.expect("sent");
                        let size = server.read(&mut replies).await.expect("a reply");
                        assert_eq!(replies[4..size].first(), Some(&0), "OK");
                    }
                }
            }
        }
    });
    (address, reset)
}

/// The reset drops the session's settings, so a request may run with another isolation level.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pooler_that_resets_connections_is_refused_by_name() {
    let database = Own::new().await;
    let (before, rest) = database.url().rsplit_once('@').expect("a user");
    let (server, after) = rest.split_once('/').expect("a database");
    let (address, reset) = pooler(server).await;
    let client = client(&format!("{before}@{address}/{after}")).await;
    let mutex = client.mutex("a");
    mutex.lock().await.expect("granted").unlock().await.expect("released");
    reset.send(()).await.expect("the pooler runs");
    // The next request is written after the reset was received.
    reset.reserve().await.expect("the reset is received");
    let error = within(SOON, "a reply", mutex.try_lock()).await.expect_err("the reset is noticed");
    assert!(reason(&error).contains("pooler"), "{error:?}");
    let error = within(SOON, "a reply", mutex.try_lock()).await.expect_err("the pooler is known");
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    database.end().await;
}
