//! The tables, and their databases.

use std::time::Duration;

use distlock::{Client, Error};
use futures_util::future::join_all;

use crate::common::{
    SOON, Waiter, clients::connect, close, database::Tables, eventually, locked, reason, release,
    release_both, take_turn,
};

pub(crate) async fn first_client_creates_the_tables(database: &impl Tables) {
    let clients = join_all((0..8).map(|_| database.client())).await;
    for client in &clients {
        take_turn(client, "a").await;
    }
    close(clients).await;
    let dialect = database.dialect();
    let version = format!("SELECT version FROM {}schema", dialect.prefix);
    assert_eq!(database.ask(&version).await, [dialect.version.to_string()]);
    for table in dialect.empty {
        let left = database.ask(&format!("SELECT '1' FROM {}{table}", dialect.prefix)).await;
        assert!(left.is_empty(), "{table}: {left:?}");
    }
}

pub(crate) async fn tables_of_another_version_are_refused_by_name(database: &impl Tables) {
    close([database.client().await]).await;
    let dialect = database.dialect();
    let version = dialect.version + 1;
    database.ask(&format!("UPDATE {}schema SET version = {version}", dialect.prefix)).await;
    let error = database.connect().await.expect_err("an unknown version");
    assert!(matches!(error, Error::Backend { .. }) && !error.is_retryable(), "{error:?}");
    assert!(reason(&error).contains(&format!("version {version}")), "{}", reason(&error));
}

pub(crate) async fn connected_clients_notice_newer_tables(database: &impl Tables) {
    database.dialect().change.is_noticed(database.url()).await;
}

/// Removing a queue's row removes its number. Later numbers are higher.
pub(crate) async fn tokens_rise_over_the_end_of_a_queue(database: &impl Tables) {
    let client = database.client().await;
    let mut last = 0;
    for round in 0..3 {
        for name in ["a", "b"] {
            let guard = client.mutex(name).lock().await.expect("granted");
            let token = guard.fencing_token().as_u64();
            assert!(token > last || name == "b" && token >= last, "{token} after {last}");
            last = token.max(last);
            guard.unlock().await.expect("released");
        }
        database.ask(database.dialect().age).await;
        let other = database.client().await;
        let queues = format!("SELECT queue FROM {}queues", database.dialect().prefix);
        eventually(SOON, &format!("queues are removed, {round}"), async || {
            database.ask(&queues).await.is_empty()
        })
        .await;
        close([other]).await;
    }
    close([client]).await;
}

/// No other client connects, and the idle queues are more than the client removed when it
/// connected.
pub(crate) async fn client_that_stays_removes_idle_queues(database: &impl Tables) {
    let client = connect(database.url(), Duration::from_secs(3)).await;
    let guard = locked(&client, "held").await;
    for name in 0..20 {
        take_turn(&client, &name.to_string()).await;
    }
    let dialect = database.dialect();
    let rows = async || {
        let mut rows = 0;
        for table in dialect.queues {
            rows +=
                database.ask(&format!("SELECT queue FROM {}{table}", dialect.prefix)).await.len();
        }
        rows
    };
    assert!(rows().await > 20);
    database.ask(dialect.age).await;
    eventually(Duration::from_secs(60), "idle queues are removed", async || rows().await < 3).await;
    assert!(guard.is_valid());
    release([guard]).await;
    close([client]).await;
}

/// Recently used rows are kept, and not read when a session starts. Clients that connect
/// concurrently, or reconnect after an outage, find as many.
pub(crate) async fn many_recent_queues_do_not_block_connecting(database: &impl Tables) {
    close([database.client().await]).await;
    let dialect = database.dialect();
    let part = dialect.crowd / 8;
    for last in (1..=20).map(|number| number * part) {
        database.ask(&(dialect.use_queues)(last - part + 1, last)).await;
    }
    let (few, many) = (Duration::from_secs(1), Duration::from_secs(3));
    for clients in [1, 4] {
        let connecting = (0..clients).map(|_| async {
            let builder = Client::builder(database.url()).session_ttl(many);
            let client = builder.request_timeout(few).connect().await.expect("connected");
            take_turn(&client, "a").await;
            client
        });
        close(join_all(connecting).await).await;
    }
}

/// Quoting in the statements keeps such names intact.
pub(crate) async fn names_with_quotes_are_names(database: &impl Tables) {
    let namespace = "/it's\\'a\\--$$;";
    let connect = || Client::builder(database.url()).namespace(namespace).connect();
    let client = connect().await.expect("connected");
    let other = connect().await.expect("connected");
    let guard = client.mutex(database.dialect().name).lock().await.expect("granted");
    let key = "/it's\\data'\\";
    guard.put(key, "it's\\").await.expect("written");
    assert!(other.mutex(guard.name()).try_lock().await.expect("a reply").is_none());
    assert_eq!(client.locks().await.expect("a reply").len(), 1);
    let waiter = Waiter::of(&other, guard.name());
    release_both(guard, waiter).await;
    assert_eq!(database.ask(database.dialect().values).await, ["it's\\"]);
}
