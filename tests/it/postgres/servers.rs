//! Servers with settings, receivers and disks of their own.

use std::time::Duration;

use distlock::{Client, Error};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    place::{Own, Server, Store},
    settings::is_handed_over,
};
use crate::common::{
    SOON, chain, close, connected,
    database::{Database, Tables},
    eventually, locked_at_last,
    postgres::{IMAGE, OPERATOR, ask, dial},
    refused, take_turn, within,
};

/// Accepts each login as PostgreSQL does, with these parameters. Returns its address.
async fn speaks(parameters: &[(&str, &str)]) -> String {
    let frame = |kind: u8, body: &[u8]| {
        let length = u32::try_from(body.len() + 4).expect("short");
        [&[kind][..], &length.to_be_bytes(), body].concat()
    };
    // The client is authenticated, and the server is ready.
    let mut login = frame(b'R', &[0; 4]);
    for (name, value) in parameters {
        login.extend(frame(b'S', format!("{name}\0{value}\0").as_bytes()));
    }
    login.extend(frame(b'Z', b"I"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            client.write_all(&login).await.expect("sent");
            // Until the client leaves.
            let _ = client.read_to_end(&mut Vec::new()).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_only_speak_the_protocol_are_refused_by_name() {
    for (name, parameter) in [
        ("CockroachDB", ("crdb_version", "CockroachDB CCL v25.2.1")),
        ("YugabyteDB", ("server_version", "15.12-YB-2025.1.0.0-b0")),
    ] {
        let address = speaks(&[parameter]).await;
        let error = refused(Client::builder(format!("postgres://app@{address}/app"))).await;
        assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
        let text = chain(&error);
        assert!(text.contains(&format!("{address}: {name} speaks")), "{text}");
        assert!(text.contains("use PostgreSQL, or another store"), "{text}");
    }
}

/// PostgreSQL refuses updates of a published table that has no primary key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publication_of_all_tables_shuts_no_client_out() {
    let database = Own::new().await;
    let client = database.client().await;
    let guard = client.mutex("a").lock().await.expect("granted");
    database.ask("CREATE PUBLICATION everything FOR ALL TABLES").await;
    let other = database.client().await;
    database
        .ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND application_name = 'distlock'",
        )
        .await;
    is_handed_over(&client, &other, SOON).await;
    assert!(guard.is_valid(), "the client reconnects");
    guard.unlock().await.expect("released");
    close([client, other]).await;
    database.end().await;
}

/// A listener that stays in a transaction keeps all notifications in the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_notification_queue_does_not_stop_unlocking() {
    let server = Server::beside::<Store>(IMAGE, &[], &["-cmax_notify_queue_pages=64"]).await;
    let builder = || server.builder().recheck_interval(Duration::from_secs(1));
    let clients = [connected(builder()).await, connected(builder()).await];
    let listener = dial(&server.url(), Some(OPERATOR)).await;
    ask(&listener, "LISTEN others").await;
    ask(&listener, "BEGIN").await;
    ask(&listener, "SELECT 1").await;
    let notifier = dial(&server.url(), Some(OPERATOR)).await;
    let fill = "SELECT pg_notify('others', n || repeat('x', 7000)) FROM generate_series(1, 5) AS n";
    while notifier.simple_query(fill).await.is_ok() {}
    is_handed_over(&clients[0], &clients[1], SOON).await;
    close(clients).await;
}

/// A receiver that only stores the log, and a logical one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn receivers_that_cannot_be_promoted_are_no_standbys() {
    let server = Server::beside::<Store>(IMAGE, &[], &["-cwal_level=logical"]).await;
    let receive = "mkdir /tmp/wal && cd /tmp/wal && \
                   (pg_receivewal --host=/tmp --username=postgres --directory=/tmp/wal \
                   >/dev/null 2>&1 &) && \
                   (pg_recvlogical --host=/tmp --username=postgres --dbname=postgres \
                   --slot=changes --create-slot --start --file=/dev/null >/dev/null 2>&1 &)";
    server.own.run(&["sh", "-c", receive]).await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    eventually(SOON, "both receive", async || {
        let receivers = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        ask(&operator, receivers).await == ["2"]
    })
    .await;
    let client = server.client().await;
    assert!(client.durability().await.expect("a reply").exclusive);
    client.close().await.expect("closed");
}

/// The disk is restored from a snapshot, so the server has the same identifier and timeline as
/// before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_restored_from_a_snapshot_counts_as_another_one() {
    let run = "while true; do \
               if [ -e /tmp/take ]; then rm /tmp/take; cp -a /data/pg /data/taken; fi; \
               if [ -e /tmp/play ]; then \
               rm -rf /tmp/play /data/pg; cp -a /data/taken /data/pg; fi; \
               /entrypoint; done";
    let server = Server::beside::<Store>(IMAGE, &["--entrypoint=sh", "--init"], &["-c", run]).await;
    let stop = async |file: &str| {
        // The folder may be deleted before `pg_ctl` has seen that the server has stopped.
        let stop = format!(
            "touch /tmp/{file}; \
             pg_ctl stop --pgdata=/data/pg --mode=fast || [ ! -e /tmp/{file} ]"
        );
        server.own.run(&["sh", "-c", &stop]).await;
        server.serves().await;
    };
    stop("take").await;
    let (one, two) = (server.client().await, server.client().await);
    for _ in 0..30 {
        take_turn(&two, "b").await;
    }
    let guard = one.mutex("b").lock().await.expect("granted");
    let token = guard.fencing_token();
    stop("play").await;
    // The client's session is no longer in the store.
    let next = within(SOON * 3, "the lock is granted", locked_at_last(&two.mutex("b"))).await;
    assert!(next.fencing_token() > token, "{} after {token}", next.fencing_token());
    assert!(!guard.is_valid(), "both clients hold the lock");
    next.unlock().await.expect("released");
    drop(guard);
    for client in [one, two] {
        drop(client.close().await);
    }
}
