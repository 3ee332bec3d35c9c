//! PostgreSQL behind a pooler, which may give the same connection to several clients by turns.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use distlock::{Client, Error};

use crate::common::{
    Waiter, close,
    own::{Image, Server, TTL},
    postgres::{IMAGE, Postgres},
    reason, release_both, within,
};

const POOLER: &Image = &Image { port: 6432, ..*IMAGE };

/// A server and its pooler, which has so many connections to it.
async fn pooled(mode: &str, size: u32) -> (Server, Server) {
    let server = Server::beside::<Postgres>(IMAGE, &[], &[]).await;
    let settings = format!(
        "[databases]\n\
         postgres = host={} user=postgres password=postgres\n\
         [pgbouncer]\n\
         listen_addr = *\nlisten_port = {}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\n",
        server.own.ip().await,
        POOLER.port
    );
    let run = "printf %s \"$1\" >/tmp/pooler.ini && exec pgbouncer /tmp/pooler.ini";
    let arguments = ["-c", run, "sh", &settings];
    let pooler = Server::start(POOLER, &["--entrypoint=sh"], &arguments).await;
    (server, pooler)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_session_mode_works() {
    let (_server, pooler) = pooled("session", 5).await;
    let (one, other) = (pooler.client().await, pooler.client().await);
    let guard = one.mutex("a").lock().await.expect("granted");
    assert!(other.mutex("a").try_lock().await.expect("an answer").is_none());
    let waiter = Waiter::of(&other, "a");
    release_both(guard, waiter).await;
    close([one, other]).await;
}

/// Takes turns at a lock until the pooler is refused, or nobody wants it any more: then there is no
/// reason. One that is alone with the pooler notices nothing of it.
async fn takes_turns(client: Client, held: Arc<AtomicBool>, over: Arc<AtomicBool>) -> String {
    let mut refusal = String::new();
    while refusal.is_empty() && !over.load(SeqCst) {
        match within(TTL * 5, "an answer", client.mutex("a").lock_timeout(TTL)).await {
            Ok(Some(guard)) => {
                if guard.is_valid() {
                    assert!(!held.swap(true, SeqCst), "two hold it");
                    held.store(false, SeqCst);
                }
                drop(guard.unlock().await);
            }
            Err(error @ Error::Denied { .. }) => {
                refusal = reason(&error);
            }
            Ok(None) | Err(_) => {}
        }
    }
    over.store(true, SeqCst);
    refusal
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
        let refusals = futures_util::future::join_all(turns).await;
        let refusals: Vec<_> =
            refusals.into_iter().map(|refusals| refusals.expect("no panic")).collect();
        println!("{size}: {refusals:?}");
        assert!(refusals.iter().any(|refusals| refusals.contains("pooler")), "{refusals:?}");
    }
}
