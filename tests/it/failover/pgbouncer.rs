//! PostgreSQL behind a pooler, which may give the same connection to several clients by turns.

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use distlock::{Client, Error};

use crate::{
    common::{
        Harness,
        case::{SOON, within},
        postgres::Postgres,
    },
    failover::{
        TTL,
        pair::Server,
        postgres::{AROUND, LIKE, PORT},
    },
};

const POOLER_PORT: u16 = 6432;

/// A server and its pooler, which has so many connections to it.
async fn pooled(mode: &str, size: u32) -> (Server, Server) {
    // The one of the same image is up.
    drop(Postgres::start().await);
    let server = Server::start(LIKE, AROUND, PORT, &[], &[]).await;
    server.client().await.close().await.expect("closed");
    let settings = format!(
        "[databases]\n\
         postgres = host={} user=postgres password=postgres\n\
         [pgbouncer]\n\
         listen_addr = *\nlisten_port = {POOLER_PORT}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\n",
        server.own.ip().await
    );
    let run = "printf %s \"$1\" >/tmp/pooler.ini && exec pgbouncer /tmp/pooler.ini";
    let arguments = ["-c", run, "sh", &settings];
    let pooler = Server::start(LIKE, AROUND, POOLER_PORT, &["--entrypoint=sh"], &arguments).await;
    (server, pooler)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_session_mode_is_none_of_ones_business() {
    let (_server, pooler) = pooled("session", 5).await;
    let (one, other) = (pooler.client().await, pooler.client().await);
    let guard = one.mutex("a").lock().await.expect("granted");
    assert!(other.mutex("a").try_lock().await.expect("an answer").is_none());
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    guard.unlock().await.expect("released");
    let next = within(SOON, "the next one's turn", waiter).await.expect("no panic");
    next.expect("granted").unlock().await.expect("released");
    for client in [one, other] {
        client.close().await.expect("closed");
    }
}

/// Takes turns at a lock until the pooler is refused, or nobody wants it any more: then there is no
/// reason. One that is alone with the pooler notices nothing of it.
async fn takes_turns(client: Client, held: Arc<AtomicBool>, over: Arc<AtomicBool>) -> String {
    let mut reason = String::new();
    while reason.is_empty() && !over.load(SeqCst) {
        match within(TTL * 5, "an answer", client.mutex("a").lock_timeout(TTL)).await {
            Ok(Some(guard)) => {
                if guard.is_valid() {
                    assert!(!held.swap(true, SeqCst), "two hold it");
                    held.store(false, SeqCst);
                }
                drop(guard.unlock().await);
            }
            Err(error @ Error::Denied { .. }) => {
                reason = error.source().expect("a reason").to_string();
            }
            Ok(None) | Err(_) => {}
        }
    }
    over.store(true, SeqCst);
    reason
}

/// What a session has set there, or listens to, is another one's a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_gives_connections_to_others_is_refused_by_name() {
    for size in [1, 2] {
        let (_server, pooler) = pooled("transaction", size).await;
        let clients = [pooler.client().await, pooler.client().await, pooler.client().await];
        let [held, over] = [(); 2].map(|()| Arc::<AtomicBool>::default());
        let turns = clients
            .map(|client| tokio::spawn(takes_turns(client, Arc::clone(&held), Arc::clone(&over))));
        let told = futures_util::future::join_all(turns).await;
        let told: Vec<_> = told.into_iter().map(|told| told.expect("no panic")).collect();
        println!("{size}: {told:?}");
        assert!(told.iter().any(|told| told.contains("pooler")), "{told:?}");
    }
}
