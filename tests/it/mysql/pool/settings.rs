//! The server and the setup of a pool's connections.

use std::{net::TcpListener, time::Duration};

use distlock::{Client, Error, Write};
use distlock_testkit::{docker::OwnServer, servers::mysql_url};
use sqlx::{Executor as _, MySqlPool, Row as _, mysql::MySqlPoolOptions};

use super::{client_of, pool_of};
use crate::{
    common::{
        SOON, Waiter, chain, close, company, connected,
        database::{Database as _, Tables as _},
        eventually, locked,
        mysql::{DATABASE, IMAGE, Mysql},
        refused, release_both, take_turn, within,
    },
    mysql::tables::Own,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_with_the_url_of_another_store_is_refused() {
    let pool = pool_of(&mysql_url(), 1);
    for url in ["memory://pool", "sqlite:///tmp/pool.db"] {
        let error = refused(Client::builder(url).mysql_pool(pool.clone())).await;
        let expected = matches!(error, Error::InvalidArgument { argument: "mysql_pool", .. });
        assert!(expected && !error.is_retryable(), "{error:?}");
    }
    assert_eq!(pool.size(), 0, "nothing was sent");
}

/// The pool connects to another database of the server: without the tables, with its own tables, or
/// to `information_schema`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_that_leads_elsewhere_is_refused() {
    let _company = company().await;
    drop(<Mysql as crate::common::Harness>::start().await);
    let own = Own::new().await;
    let server = mysql_url().strip_suffix("/distlock").expect("the database").to_owned();
    for with_tables in [false, true] {
        if with_tables {
            own.client().await.close().await.expect("closed");
        }
        for elsewhere in [own.url(), &format!("{server}/information_schema")] {
            let error = refused(client_of(&pool_of(elsewhere, 1))).await;
            assert!(matches!(error, Error::Denied { .. }), "{error:?}");
            assert!(chain(&error).contains("is not connected to the database"), "{error:?}");
        }
    }
    // The server refuses this pool's password.
    let wrong = mysql_url().replace("apppw", "s3cret");
    let error = refused(client_of(&pool_of(&wrong, 1))).await;
    assert!(matches!(error, Error::Denied { .. }), "{error:?}");
    assert!(!format!("{error:?} {}", chain(&error)).contains("s3cret"), "{error:?}");
    own.end().await;
}

/// Returns a pool of one connection that executes `setup` before lending it.
async fn pool_after(setup: &'static str) -> MySqlPool {
    let connect = pool_of(&mysql_url(), 1).connect_options();
    MySqlPoolOptions::new()
        .max_connections(1)
        .before_acquire(move |connection, _| {
            Box::pin(async move { connection.execute(setup).await.map(|_| true) })
        })
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(setup).await.map(drop) })
        })
        .connect_lazy_with((*connect).clone())
}

/// Returns the values of all settings of a pool's connection.
async fn settings(pool: &MySqlPool) -> Vec<(String, String)> {
    let rows = pool.fetch_all("SHOW SESSION VARIABLES").await.expect("settings");
    let text = |row: &sqlx::mysql::MySqlRow, at: usize| -> String {
        let bytes = row.try_get_unchecked::<Vec<u8>, usize>(at).expect("a text");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let settings = rows.iter().map(|row| (text(row, 0), text(row, 1)));
    // These change with each statement, or belong to the whole server.
    let changes = |name: &str| {
        name.contains("timestamp")
            || name.contains("seq")
            || name.contains("gtid")
            || name.starts_with("last_")
            || name.contains("rand_seed")
            || name.contains("error_count")
            || name.contains("warning_count")
            || name.contains("identity")
            || name.contains("pseudo")
    };
    settings.filter(|(name, _)| !changes(name)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_pool_neither_apply_nor_change() {
    let _company = company().await;
    drop(<Mysql as crate::common::Harness>::start().await);
    let setup = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE; \
                 SET SESSION TRANSACTION READ ONLY; \
                 SET autocommit = 0, completion_type = 'CHAIN', sql_select_limit = 2000, \
                 sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE', \
                 foreign_key_checks = 0, unique_checks = 0, sql_safe_updates = 1, \
                 sql_big_selects = 0, innodb_lock_wait_timeout = 1, lock_wait_timeout = 1, \
                 collation_connection = 'utf16_bin' \
                 /*M!100101 , max_statement_time = 0.7 */";
    let pool = pool_after(setup).await;
    // On this connection the settings stay, because nothing else changes them.
    let once = pool_of(&mysql_url(), 1);
    once.execute(setup).await.expect("set");
    for pool in [&pool, &once] {
        let before = settings(pool).await;
        let is_set = |name: &str, value: &str| before.contains(&(name.into(), value.into()));
        assert!(is_set("autocommit", "OFF") && is_set("completion_type", "CHAIN"), "{before:?}");
        let builder = client_of(pool);
        let [one, two] = [connected(builder.clone()).await, connected(builder).await];
        let guard = locked(&one, "it's \\ \"quoted\"").await;
        let writes = [Write::put("/pool-data/a", "b"), Write::put("/pool-data/c", "d")];
        guard.write(&writes).await.expect("written");
        let waiter = Waiter::of(&two, "it's \\ \"quoted\"");
        crate::common::queue_of(&one, "it's \\ \"quoted\"", 2).await;
        release_both(guard, waiter).await;
        let after = settings(pool).await;
        let changed: Vec<_> =
            before.iter().zip(&after).filter(|(before, after)| before != after).collect();
        assert!(before.len() == after.len() && changed.is_empty(), "{changed:?}");
        // An open transaction would refuse this statement.
        let next = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        pool.execute(next).await.expect("no transaction is open");
        close([one, two]).await;
    }
}

/// The server would refuse statements that may read more rows. `max_join_size` turns
/// `sql_big_selects` off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_succeed_whatever_the_join_size_of_the_pool() {
    let _company = company().await;
    drop(<Mysql as crate::common::Harness>::start().await);
    let pool = pool_after("SET max_join_size = 1, sql_big_selects = 0").await;
    let builder = client_of(&pool);
    let [one, two] = [connected(builder.clone()).await, connected(builder).await];
    let guard = locked(&one, "a").await;
    let both = one.lock_all(["b", "c"]).await.expect("granted");
    guard.put("/pool-data/join-size", "b").await.expect("written");
    let waiter = Waiter::of(&two, "a");
    crate::common::queue_of(&one, "a", 2).await;
    assert!(two.mutex("a").try_lock().await.expect("a reply").is_none());
    assert_eq!(one.locks().await.expect("a list").len(), 3);
    release_both(guard, waiter).await;
    both.unlock().await.expect("released");
    close([one, two]).await;
}

/// A refused statement leaves neither settings nor a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_that_is_refused_leaves_nothing() {
    let _company = company().await;
    let database = Own::new().await;
    let pool = pool_of(database.url(), 1);
    let builder = Client::builder(database.url()).mysql_pool(pool.clone());
    let client = connected(builder.request_timeout(Duration::from_secs(1))).await;
    let guard = locked(&client, "a").await;
    guard.put("/data/second", "before").await.expect("written");
    let before = settings(&pool).await;
    let mut other = database.dial().await;
    let lock = "START TRANSACTION; SELECT 1 FROM distlock_data WHERE dir = '/data' \
                AND name = 'second' FOR UPDATE";
    crate::common::mysql::ask(&mut other, lock).await;
    let writes = [Write::put("/data/first", "after"), Write::put("/data/second", "after")];
    let written = within(SOON * 2, "a reply", guard.write(&writes)).await;
    assert!(matches!(written, Err(Error::Unavailable { .. })), "{written:?}");
    crate::common::mysql::ask(&mut other, "ROLLBACK; SELECT 1").await;
    assert_eq!(settings(&pool).await, before);
    let names: Vec<String> = sqlx::query_scalar("SELECT CAST(name AS CHAR) FROM distlock_data")
        .fetch_all(&pool)
        .await
        .expect("names");
    assert_eq!(names, ["second"], "nothing was written");
    guard.write(&writes).await.expect("written");
    guard.unlock().await.expect("released");
    client.close().await.expect("closed");
    database.end().await;
}

/// Other sessions would not see its writes, and a grant could be rolled back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_in_a_transaction_is_refused() {
    let _company = company().await;
    drop(<Mysql as crate::common::Harness>::start().await);
    for setup in [
        "BEGIN",
        "BEGIN; INSERT INTO distlock_data VALUES ('/pool-tests', 'open', '')",
        "SET autocommit = 0; SELECT COUNT(*) FROM distlock_data",
    ] {
        let error = refused(client_of(&pool_after(setup).await)).await;
        println!("{}", chain(&error));
        assert!(chain(&error).contains("on a connection from the pool"), "{error:?}");
        assert!(chain(&error).contains("open transaction"), "{error:?}");
    }
    // The refusal is not caused by the pool's way to connect.
    let client = connected(client_of(&pool_after("SELECT 1").await)).await;
    take_turn(&client, "a").await;
    client.close().await.expect("closed");
}

/// The application's transaction is neither committed nor rolled back, and its settings are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transaction_is_left_unchanged() {
    let _company = company().await;
    let database = Own::new().await;
    database.client().await.close().await.expect("closed");
    let pool = pool_of(database.url(), 1);
    let builder = Client::builder(database.url()).mysql_pool(pool.clone());
    let client = connected(builder.request_timeout(Duration::from_secs(1))).await;
    take_turn(&client, "a").await;
    let begun = "SET SESSION sql_mode = ''; BEGIN; \
                 INSERT INTO distlock_data VALUES ('/data', 'open', '')";
    pool.execute(begun).await.expect("begun");
    let before = settings(&pool).await;
    let error = client.mutex("a").lock().await.expect_err("a transaction is open");
    assert!(chain(&error).contains("open transaction"), "{error:?}");
    assert_eq!(settings(&pool).await, before);
    let count = "SELECT COUNT(*) FROM distlock_data";
    let own: i64 = sqlx::query_scalar(count).fetch_one(&pool).await.expect("a number");
    assert_eq!((own, database.ask(count).await), (1, vec!["0".to_owned()]));
    pool.execute("ROLLBACK").await.expect("rolled back");
    take_turn(&client, "a").await;
    client.close().await.expect("closed");
    database.end().await;
}

/// The pool's earlier connections belong to the server's former run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_of_the_server_loses_no_lock() {
    drop(<Mysql as crate::common::Harness>::start().await);
    // With a fixed port the server keeps its address over the restart.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    drop(free);
    let publish = format!("--publish={address}:{}", IMAGE.port);
    let arguments = ["--innodb-flush-log-at-trx-commit=1"];
    let server = OwnServer::start(IMAGE.like, &[&publish, DATABASE], &arguments).await;
    let url = IMAGE.around.join(&address.to_string());
    let pool = pool_of(&url, 2);
    let builder = Client::builder(&url).mysql_pool(pool).session_ttl(Duration::from_secs(60));
    let builder = builder.request_timeout(Duration::from_secs(1));
    let mut client = None;
    eventually(SOON * 5, "the server accepts clients", async || {
        client = builder.clone().connect().await.ok();
        client.is_some()
    })
    .await;
    let client = client.expect("just connected");
    let guard = locked(&client, "held").await;
    server.restart().await;
    eventually(SOON * 2, "the server grants locks", async || {
        match client.mutex("other").lock().await {
            Ok(guard) => guard.unlock().await.is_ok(),
            Err(_) => false,
        }
    })
    .await;
    assert!(guard.is_valid());
    assert!(client.mutex("held").try_lock().await.expect("a reply").is_none());
    guard.unlock().await.expect("released");
    take_turn(&client, "held").await;
    client.close().await.expect("closed");
}
