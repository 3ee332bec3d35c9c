//! PostgreSQL behind a pooler, which may give the same connection to several clients by turns.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use distlock::{Builder, Client, Error};
use distlock_testkit::{
    framing::Framing,
    proxy::{Mode, Proxy},
};

use crate::{
    common::{
        SOON, Waiter, close, connected, contended, eventually,
        own::{Image, Server, TTL},
        postgres::{IMAGE, OPERATOR, Postgres, ask, dial},
        queue_of, reason, release_both, throughout, within,
    },
    postgres::crash::{LONG, REPEATED, crash, crash_process, lazy, operator_of},
};

const POOLER: &Image = &Image { port: 6432, ..*IMAGE };

/// How it gives connections to others, how many it has, and what else its settings are.
async fn pooler(server: &Server, mode: &str, size: u32, settings: &str) -> Server {
    let settings = format!(
        "[databases]\n\
         postgres = host={} user=postgres password=postgres\n\
         [pgbouncer]\n\
         listen_addr = *\nlisten_port = {}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = {mode}\ndefault_pool_size = {size}\n\
         server_login_retry = 0.2\n{settings}",
        server.own.ip().await,
        POOLER.port
    );
    let run = "printf %s \"$1\" >/tmp/pooler.ini && exec pgbouncer /tmp/pooler.ini";
    let arguments = ["-c", run, "sh", &settings];
    Server::start(POOLER, &["--entrypoint=sh"], &arguments).await
}

async fn pooled(mode: &str, size: u32) -> (Server, Server) {
    let server = Server::beside::<Postgres>(IMAGE, &[], &[]).await;
    let pooler = pooler(&server, mode, size, "").await;
    (server, pooler)
}

/// A client that knows of the pooler, and does not look for what it was not notified of.
fn knowing(pooler: &Server) -> Builder {
    let url = format!("{}?pooler=transaction", pooler.url());
    Client::builder(url).recheck_interval(Duration::from_secs(60))
}

/// As soon as the pooler lets it in.
async fn client(builder: impl Fn() -> Builder) -> Client {
    let mut client = None;
    eventually(SOON * 5, "it lets clients in", async || {
        client = builder().connect().await.ok();
        client.is_some()
    })
    .await;
    client.expect("just connected")
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
        assert!(
            refusals.iter().any(|refusals| refusals.contains("?pooler=transaction")),
            "{refusals:?}"
        );
    }
}

/// Who knows of it brings all settings with each request, prepares nothing, and asks for what it
/// cannot be notified of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_works_for_those_who_know_of_it() {
    let server = Server::beside::<Postgres>(IMAGE, &[], &[]).await;
    for (size, prepared) in [(1, 0), (2, 200)] {
        let settings = format!("max_prepared_statements = {prepared}\n");
        let pooler = pooler(&server, "transaction", size, &settings).await;
        let builder = || knowing(&pooler).session_ttl(TTL);
        let [one, two, three] =
            [client(builder).await, client(builder).await, client(builder).await];
        for _ in 0..3 {
            let (guard, waiter) = contended(&one, &two, "a").await;
            queue_of(&one, "a", 2).await;
            let last = Waiter::of(&three, "a");
            queue_of(&one, "a", 3).await;
            guard.unlock().await.expect("released");
            release_both(within(SOON, "its turn", waiter.granted()).await, last).await;
        }
        let [held, over] = [(); 2].map(|()| Arc::<AtomicBool>::default());
        let clients = [one.clone(), two.clone(), three.clone()];
        let turns = clients
            .map(|client| tokio::spawn(takes_turns(client, Arc::clone(&held), Arc::clone(&over))));
        tokio::time::sleep(TTL).await;
        over.store(true, SeqCst);
        for refusal in futures_util::future::join_all(turns).await {
            assert_eq!(refusal.expect("no panic"), "");
        }
        close([one, two, three]).await;
    }
}

/// A pooler may take the first reply for the end of all that it was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_is_under_way_at_a_time() {
    let (_server, pooler) = pooled("transaction", 2).await;
    drop(client(|| knowing(&pooler)).await);
    let proxy = Proxy::start(pooler.address, Framing::Postgres).await;
    let url = format!("{}?pooler=transaction", POOLER.around.join(&proxy.address.to_string()));
    let client = connected(Client::builder(url).request_timeout(SOON)).await;
    let first = client.mutex("first").lock().await;
    // What the client does in the background as it begins is done, too.
    let mut before = 0;
    eventually(SOON, "nothing is under way", async || {
        let last = std::mem::replace(&mut before, proxy.requests());
        tokio::time::sleep(Duration::from_millis(300)).await;
        last == before && before == proxy.requests()
    })
    .await;
    proxy.set(Mode::BlackholeToClient);
    let waiters = ["a", "b", "c", "d"].map(|name| Waiter::of(&client, name));
    eventually(SOON, "one is sent", async || proxy.requests() > before).await;
    let is_alone = async || proxy.requests() == before + 1;
    throughout(Duration::from_millis(500), "no other one is sent", is_alone).await;
    proxy.set(Mode::Pass);
    for waiter in waiters {
        waiter.granted().await.unlock().await.expect("released");
    }
    first.expect("granted").unlock().await.expect("released");
    close([client]).await;
}

/// The pooler's other users find their connections as they were.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_outlasts_a_transaction() {
    let (_server, pooler) = pooled("transaction", 1).await;
    // The pooler has one connection: both use it by turns.
    let other = operator_of(&pooler).await;
    let settings = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) \
                    FROM pg_settings WHERE source IN ('session', 'override') \
                    AND name NOT IN ('application_name', 'transaction_isolation', \
                    'transaction_read_only', 'transaction_deferrable')";
    let before = ask(&other, settings).await;
    let client = client(|| knowing(&pooler)).await;
    let (guard, waiter) = contended(&client, &client, "a").await;
    release_both(guard, waiter).await;
    assert_eq!(ask(&other, settings).await, before);
    assert_eq!(ask(&other, "SELECT count(*) FROM pg_prepared_statements").await, ["0"]);
    assert_eq!(ask(&other, "SELECT count(*) FROM pg_listening_channels()").await, ["0"]);
    client.close().await.expect("closed");
}

/// What the role's settings would change is chosen by each request. And a crash ends the pooler's
/// connections to the server, not the clients': they notice all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_behind_a_pooler_is_noticed() {
    let server = lazy().await;
    let operator = dial(&server.url(), Some(OPERATOR)).await;
    for setting in [
        "synchronous_commit = off",
        "default_transaction_isolation = serializable",
        "session_replication_role = replica",
    ] {
        operator.batch_execute(&format!("ALTER ROLE postgres SET {setting}")).await.expect("set");
    }
    let pooler = pooler(&server, "transaction", 2, "").await;
    let builder = || knowing(&pooler).session_ttl(LONG);
    let [one, two] = [client(builder).await, client(builder).await];
    // A crashed process leaves the time at which the server was started.
    for whole in [true, false] {
        let held = one.mutex("held").lock().await.expect("granted");
        let guard = one.mutex("a").lock().await.expect("granted");
        let token = guard.fencing_token();
        guard.unlock().await.expect("released");
        if whole {
            crash(&server).await;
        } else {
            crash_process(&server).await;
        }
        let operator = dial(&server.url(), Some(OPERATOR)).await;
        let first = "SELECT min(number) FROM distlock.members WHERE queue = '/distlock/held'";
        let stored = ask(&operator, first).await;
        assert_eq!(stored, [held.fencing_token().to_string()], "the grant was not flushed");
        let next = within(REPEATED, "it is free again", two.mutex("a").lock()).await;
        let next = next.expect("granted");
        assert!(next.fencing_token() > token, "{next:?} after {token}");
        within(SOON, "it is released", next.unlock()).await.expect("released");
        within(REPEATED, "it is released", held.unlock()).await.expect("released");
    }
    for client in [one, two] {
        drop(client.close().await);
    }
}
