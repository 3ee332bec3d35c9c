//! PostgreSQL behind a pooler, which may assign one connection to several clients in turn.

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

use super::{
    crash::{LONG, REPEATED},
    place::{self, Server, crash, crash_process, lazy, operator_of, pooler},
};
use crate::common::{
    SOON, Waiter, close, connected, contended, eventually,
    own::TTL,
    postgres::{IMAGE, OPERATOR, ask, dial},
    queue_of, reason, release_both, throughout, within,
};

async fn pooled(mode: &str, size: u32) -> (Server, Server) {
    let server = place::server().await;
    let pooler = pooler(&server, mode, size, "").await;
    (server, pooler)
}

/// Returns a client that knows of the pooler, and practically never rechecks.
fn pooler_aware(pooler: &Server) -> Builder {
    let url = format!("{}?pooler=transaction", pooler.url());
    Client::builder(url).recheck_interval(Duration::from_secs(60))
}

/// Connects as soon as the pooler accepts clients.
async fn client(builder: impl Fn() -> Builder) -> Client {
    let mut client = None;
    eventually(SOON * 5, "the pooler accepts clients", async || {
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
    assert!(other.mutex("a").try_lock().await.expect("a reply").is_none());
    let waiter = Waiter::of(&other, "a");
    release_both(guard, waiter).await;
    close([one, other]).await;
}

/// Takes turns with a lock until the pooler is refused, and returns the reason. Returns an empty
/// string once `over` is set. A client that is alone with the pooler does not notice it.
async fn takes_turns(client: Client, held: Arc<AtomicBool>, over: Arc<AtomicBool>) -> String {
    let mut refusal = String::new();
    while refusal.is_empty() && !over.load(SeqCst) {
        match within(TTL * 5, "a reply", client.mutex("a").lock_timeout(TTL)).await {
            Ok(Some(guard)) => {
                if guard.is_valid() {
                    assert!(!held.swap(true, SeqCst), "two clients hold the lock");
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

/// The settings and listeners of a session soon belong to another session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_is_refused_without_the_setting() {
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

/// A client that knows of the pooler sends all settings with each request, prepares no statements,
/// and polls instead of listening.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_in_transaction_mode_works_with_the_pooler_setting() {
    let server = place::server().await;
    for (size, prepared) in [(1, 0), (2, 200)] {
        let settings = format!("max_prepared_statements = {prepared}\n");
        let pooler = pooler(&server, "transaction", size, &settings).await;
        let builder = || pooler_aware(&pooler).session_ttl(TTL);
        let [one, two, three] =
            [client(builder).await, client(builder).await, client(builder).await];
        for _ in 0..3 {
            let (guard, waiter) = contended(&one, &two, "a").await;
            queue_of(&one, "a", 2).await;
            let last = Waiter::of(&three, "a");
            queue_of(&one, "a", 3).await;
            guard.unlock().await.expect("released");
            release_both(within(SOON, "the lock is granted", waiter.granted()).await, last).await;
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

/// A pooler may take the first reply for the end of everything it was sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_request_is_under_way_at_a_time() {
    let (_server, pooler) = pooled("transaction", 2).await;
    drop(client(|| pooler_aware(&pooler)).await);
    let proxy = Proxy::start(pooler.address, Framing::Postgres).await;
    let url = format!("{}?pooler=transaction", IMAGE.around.join(&proxy.address.to_string()));
    let client = connected(Client::builder(url).request_timeout(SOON)).await;
    let first = client.mutex("first").lock().await;
    // Wait until the client's background requests are done, too.
    let mut before = 0;
    eventually(SOON, "no request is under way", async || {
        let last = std::mem::replace(&mut before, proxy.requests());
        tokio::time::sleep(Duration::from_millis(300)).await;
        last == before && before == proxy.requests()
    })
    .await;
    proxy.set(Mode::BlackholeToClient);
    let waiters = ["a", "b", "c", "d"].map(|name| Waiter::of(&client, name));
    eventually(SOON, "one request is sent", async || proxy.requests() > before).await;
    let is_alone = async || proxy.requests() == before + 1;
    throughout(Duration::from_millis(500), "no other request is sent", is_alone).await;
    proxy.set(Mode::Pass);
    for waiter in waiters {
        waiter.granted().await.unlock().await.expect("released");
    }
    first.expect("granted").unlock().await.expect("released");
    close([client]).await;
}

/// The pooler's other users find their connections unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_setting_outlasts_a_transaction() {
    let (_server, pooler) = pooled("transaction", 1).await;
    // The pooler has one connection, which both use in turn.
    let other = operator_of(&pooler).await;
    let settings = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) \
                    FROM pg_settings WHERE source IN ('session', 'override') \
                    AND name NOT IN ('application_name', 'transaction_isolation', \
                    'transaction_read_only', 'transaction_deferrable')";
    let before = ask(&other, settings).await;
    let client = client(|| pooler_aware(&pooler)).await;
    let (guard, waiter) = contended(&client, &client, "a").await;
    release_both(guard, waiter).await;
    assert_eq!(ask(&other, settings).await, before);
    assert_eq!(ask(&other, "SELECT count(*) FROM pg_prepared_statements").await, ["0"]);
    assert_eq!(ask(&other, "SELECT count(*) FROM pg_listening_channels()").await, ["0"]);
    client.close().await.expect("closed");
}

/// Each request overrides the role's settings. A crash ends the pooler's connections to the server,
/// not the clients', and the clients still notice it.
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
    let builder = || pooler_aware(&pooler).session_ttl(LONG);
    let [one, two] = [client(builder).await, client(builder).await];
    // A crashed process does not change the server's start time.
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
        let next = within(REPEATED, "the lock is free again", two.mutex("a").lock()).await;
        let next = next.expect("granted");
        assert!(next.fencing_token() > token, "{next:?} after {token}");
        within(SOON, "the lock is released", next.unlock()).await.expect("released");
        within(REPEATED, "the lock is released", held.unlock()).await.expect("released");
    }
    for client in [one, two] {
        drop(client.close().await);
    }
}
