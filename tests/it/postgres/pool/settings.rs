//! The server and the setup of a pool's connections.

use std::time::Duration;

use distlock::{Client, Error};
use sqlx::{Executor as _, PgPool, postgres::PgPoolOptions};

use super::{client_of, place, pool_of};
use crate::common::{
    Waiter, chain, close, company, connected, database::Database as _, eventually, locked, refused,
    release, release_both, take_turn,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_with_the_url_of_another_store_is_refused() {
    let pool = pool_of(&place::url(), 1);
    for url in ["memory://pool", "sqlite:///tmp/pool.db"] {
        let error = refused(Client::builder(url).postgres_pool(pool.clone())).await;
        let expected = matches!(error, Error::InvalidArgument { argument: "postgres_pool", .. });
        assert!(expected && !error.is_retryable(), "{error:?}");
    }
    assert_eq!(pool.size(), 0, "nothing was sent");
}

/// Returns a pool that executes `setup` on each connection before lending it.
async fn pool_after(setup: &'static str) -> PgPool {
    let connect = pool_of(&place::url(), 1).connect_options();
    PgPoolOptions::new()
        .max_connections(1)
        .before_acquire(move |connection, _| {
            Box::pin(async move { connection.execute(setup).await.map(|_| true) })
        })
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(setup).await.map(drop) })
        })
        .connect_lazy_with((*connect).clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_pool_neither_apply_nor_change() {
    let _company = company().await;
    let pool = pool_after(
        "SET default_transaction_isolation = serializable; SET synchronous_commit = off; \
         SET statement_timeout = 7000; SET lock_timeout = 6000; SET search_path = pg_catalog; \
         SET standard_conforming_strings = off; SET DateStyle = 'German'",
    )
    .await;
    let changed = async || -> String {
        let settings = "SELECT string_agg(name || '=' || setting, ' ' ORDER BY name) \
                        FROM pg_settings WHERE source IN ('session', 'override') \
                        AND name NOT LIKE 'transaction%'";
        sqlx::query_scalar(settings).fetch_one(&pool).await.expect("settings")
    };
    let before = changed().await;
    assert!(before.contains("statement_timeout=7000"), "{before}");
    let builder = client_of(&pool);
    let [one, two] = [connected(builder.clone()).await, connected(builder).await];
    let guard = locked(&one, "it's \\ quoted").await;
    let waiter = Waiter::of(&two, "it's \\ quoted");
    release_both(guard, waiter).await;
    assert_eq!(changed().await, before);
    close([one, two]).await;
}

/// Other sessions would not see its writes, and a grant could be rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_in_a_transaction_is_refused() {
    let _company = company().await;
    let above = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
    for setup in ["BEGIN", "BEGIN; SELECT 1", above] {
        let error = refused(client_of(&pool_after(setup).await)).await;
        println!("{}", chain(&error));
        assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
        assert!(chain(&error).contains("on a connection from the pool"), "{error:?}");
    }
    // The refusal is not caused by the pool's way to connect.
    let client = connected(client_of(&pool_after("SELECT 1").await)).await;
    take_turn(&client, "a").await;
    client.close().await.expect("closed");
}

/// A transaction begins with the connection's default, so every lock would fail later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_read_only_connections_is_refused() {
    let _company = company().await;
    let pool = pool_after("SET default_transaction_read_only = on").await;
    let error = refused(client_of(&pool)).await;
    assert!(matches!(error, Error::Denied { .. }) && !error.is_retryable(), "{error:?}");
    assert!(chain(&error).contains("turn off default_transaction_read_only"), "{error:?}");
}

/// The client watches on its own connection, where it is notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_are_notified() {
    let _company = company().await;
    let pool = pool_of(&place::url(), 2);
    let builder = client_of(&pool).recheck_interval(Duration::from_secs(600));
    let [one, two] = [connected(builder.clone()).await, connected(builder).await];
    let guard = locked(&one, "a").await;
    let waiter = Waiter::of(&two, "a");
    crate::common::queue_of(&one, "a", 2).await;
    release_both(guard, waiter).await;
    close([one, two]).await;
}

/// Requests through the pool leave the client's own connection silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_connection_is_pinged_while_the_pool_is_in_use() {
    let database = place::Own::new().await;
    let builder = Client::builder(database.url()).postgres_pool(pool_of(database.url(), 1));
    // So long that no keepalive is sent during the test.
    let client = connected(builder.session_ttl(Duration::from_secs(300))).await;
    let guard = locked(&client, "a").await;
    // The holder watches its own key.
    eventually(Duration::from_secs(60), "the connection is pinged", async || {
        client.mutex("b").queue().await.expect("a list");
        database.connections_after("SELECT 1").await == 1
    })
    .await;
    release([guard]).await;
    close([client]).await;
    database.end().await;
}
