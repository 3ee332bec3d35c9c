//! The pool of mysql_async.

use std::time::Duration;

use distlock::{Client, Error, Write};
use distlock_testkit::{proxy::Mode, servers::mysql_url};
use mysql_async::{Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts, prelude::Queryable};

use super::REQUEST;
use crate::common::{
    Harness as _, SOON, Servers as _, Waiter, chain, close, company, connected, locked,
    mysql::SqlxPool, release_both, take_turn, within,
};

/// Returns a pool of one connection to the first server of this URL.
fn pool_of(url: &str, resets: bool) -> Pool {
    let (before, after) = url.split_once(',').unwrap_or((url, ""));
    let path = after.split_once('/').map_or(String::new(), |(_, path)| format!("/{path}"));
    let options = Opts::from_url(&(before.to_owned() + &path)).expect("a URL");
    let one = PoolConstraints::new(1, 1).expect("one");
    let pool = PoolOpts::default().with_constraints(one).with_reset_connection(resets);
    Pool::new(OptsBuilder::from_opts(options).pool_opts(pool).prefer_socket(false))
}

async fn client_of(pool: &Pool) -> Client {
    let builder = Client::builder(mysql_url()).mysql_pool(pool.clone());
    connected(builder.namespace("/other-pools").request_timeout(REQUEST)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_async_lends_one_connection() {
    let _company = company().await;
    for (resets, name) in [(true, "mysql_async-reset"), (false, "mysql_async")] {
        let pool = pool_of(&mysql_url(), resets);
        let [one, two] = [client_of(&pool).await, client_of(&pool).await];
        let guard = locked(&one, name).await;
        assert!(two.mutex(name).try_lock().await.expect("a reply").is_none());
        let writes = [Write::put("/other-pools-data/a", "b")];
        guard.write(&writes).await.expect("written");
        let waiter = Waiter::of(&two, name);
        release_both(guard, waiter).await;
        let taken = pool.get_conn().await.expect("lent");
        let mutex = one.mutex(name);
        let error = within(SOON, "lock() returns", mutex.lock()).await.expect_err("no connection");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
        assert!(chain(&error).contains("the pool lent no connection"), "{error:?}");
        drop(taken);
        take_turn(&two, name).await;
        close([one, two]).await;
    }
}

/// A driver may count only the rows that an update has changed, as mysql_async does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_request_goes_by_mysql_async() {
    let _company = company().await;
    let pool = pool_of(&mysql_url(), false);
    let client = client_of(&pool).await;
    let lock = client.rw_lock("rwlock");
    let guard = within(SOON, "granted", lock.write()).await.expect("granted");
    let guard = guard.downgrade().await.expect("a reader now");
    assert!(guard.is_valid());
    guard.unlock().await.expect("released");
    let semaphore = client.semaphore("semaphore", 1);
    let permits = within(SOON, "granted", semaphore.acquire()).await.expect("granted");
    assert!(semaphore.try_acquire().await.expect("a reply").is_none());
    permits.release().await.expect("released");
    let all = client.lock_all(["all-a", "all-b"]);
    let guards = within(SOON, "granted", all).await.expect("granted");
    drop(guards);
    // Many simultaneous calls share requests.
    let guards = (0..40).map(|number| client.mutex(format!("many-{number}")));
    let guards: Vec<_> = guards.map(|mutex| async move { mutex.lock().await }).collect();
    for guard in futures_util::future::join_all(guards).await {
        guard.expect("granted").unlock().await.expect("released");
    }
    take_turn(&client, "all-a").await;
    close([client]).await;
}

/// After an abandoned request the pool's other users get their own replies, and the pool a
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_async_gets_no_half_read_connection() {
    let _company = company().await;
    let proxies = SqlxPool::start().await.proxies().await;
    let pool = pool_of(proxies.url().trim_end_matches("?pool=sqlx"), false);
    let client = client_of(&pool).await;
    let connection = async || -> u64 {
        let mut connection = pool.get_conn().await.expect("lent");
        connection.query_first("SELECT CONNECTION_ID()").await.expect("read").expect("a number")
    };
    let before = connection().await;
    proxies.set(&Mode::BlackholeToClient);
    let name = "mysql_async-unanswered";
    within(SOON, "try_lock() returns", client.mutex(name).try_lock()).await.expect_err("no reply");
    proxies.set(&Mode::Pass);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let after = within(SOON, "the pool has a connection", connection()).await;
    assert_ne!(before, after);
    take_turn(&client, name).await;
    close([client]).await;
}
