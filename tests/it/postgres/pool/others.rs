//! Pools of crates other than sqlx.

use std::any::Any;

use async_trait::async_trait;
use bb8_postgres::{PostgresConnectionManager, bb8};
use deadpool_postgres::{Manager, Pool as Deadpool};
use distlock::{Client, Error, postgres::Pool};
use distlock_testkit::proxy::Mode;
use tokio_postgres::{Config, NoTls};

use super::{REQUEST, place};
use crate::common::{
    SOON, Servers as _, Waiter, chain, close, company, connected, locked, postgres::ask,
    release_both, single::Login, take_turn, within,
};

type Bb8 = bb8::Pool<PostgresConnectionManager<NoTls>>;

#[async_trait]
trait TestedPool: Pool + Clone {
    /// `true` if the pool closes a connection with an abandoned request.
    const CLOSES: bool;

    async fn of(url: &str, connections: u32) -> Self;

    /// Takes one connection out of the pool.
    async fn taken(&self) -> Box<dyn Any + Send>;

    /// Returns the server process of a connection.
    async fn process(&self) -> Vec<String>;
}

const PROCESS: &str = "SELECT pg_backend_pid()";

fn config(url: &str) -> Config {
    let Login { user, password, server, database } = Login::of(url, None);
    let (host, port) = server.rsplit_once(':').expect("host:port");
    let mut config = Config::new();
    config.user(user).password(password).dbname(database);
    config.host(host).port(port.parse().expect("a port"));
    config
}

#[async_trait]
impl TestedPool for Deadpool {
    const CLOSES: bool = true;

    async fn of(url: &str, connections: u32) -> Self {
        let size = usize::try_from(connections).expect("a few");
        let manager = Manager::new(config(url), NoTls);
        Self::builder(manager).max_size(size).build().expect("a pool")
    }

    async fn taken(&self) -> Box<dyn Any + Send> {
        Box::new(self.get().await.expect("lent"))
    }

    async fn process(&self) -> Vec<String> {
        ask(&self.get().await.expect("lent"), PROCESS).await
    }
}

#[async_trait]
impl TestedPool for Bb8 {
    const CLOSES: bool = false;

    async fn of(url: &str, connections: u32) -> Self {
        let manager = PostgresConnectionManager::new(config(url), NoTls);
        Self::builder().max_size(connections).build(manager).await.expect("a pool")
    }

    async fn taken(&self) -> Box<dyn Any + Send> {
        Box::new(self.get_owned().await.expect("lent"))
    }

    async fn process(&self) -> Vec<String> {
        ask(&self.get().await.expect("lent"), PROCESS).await
    }
}

async fn client_of(pool: &impl TestedPool) -> Client {
    let builder = Client::builder(place::url()).postgres_pool(pool.clone());
    connected(builder.namespace("/other-pools").request_timeout(REQUEST)).await
}

async fn locks_by_one_connection<P: TestedPool>(name: &str) {
    let _company = company().await;
    let pool = P::of(&place::url(), 1).await;
    let [one, two] = [client_of(&pool).await, client_of(&pool).await];
    let guard = locked(&one, name).await;
    assert!(two.mutex(name).try_lock().await.expect("a reply").is_none());
    let waiter = Waiter::of(&two, name);
    release_both(guard, waiter).await;
    let taken = pool.taken().await;
    let mutex = one.mutex(name);
    let error = within(SOON, "lock() returns", mutex.lock()).await.expect_err("no connection");
    assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    assert!(chain(&error).contains("the pool lent no connection"), "{error:?}");
    drop(taken);
    take_turn(&two, name).await;
    close([one, two]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadpool_lends_one_connection() {
    locks_by_one_connection::<Deadpool>("deadpool").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bb8_lends_one_connection() {
    locks_by_one_connection::<Bb8>("bb8").await;
}

/// After an abandoned request the pool's other users get their own replies, and the pool a
/// connection.
async fn unanswered_request_affects_no_other_user<P: TestedPool>(name: &str) {
    let _company = company().await;
    let proxies = place::by_pool().await.proxies().await;
    let pool = P::of(&proxies.url(), 1).await;
    let client = client_of(&pool).await;
    let before = pool.process().await;
    proxies.set(&Mode::BlackholeToClient);
    within(SOON, "try_lock() returns", client.mutex(name).try_lock()).await.expect_err("no reply");
    proxies.set(&Mode::Pass);
    let after = within(SOON, "the pool has a connection", pool.process()).await;
    assert_eq!(before != after, P::CLOSES, "{before:?} {after:?}");
    take_turn(&client, name).await;
    close([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadpool_gets_no_half_read_connection() {
    unanswered_request_affects_no_other_user::<Deadpool>("deadpool-unanswered").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bb8_gets_no_half_read_connection() {
    unanswered_request_affects_no_other_user::<Bb8>("bb8-unanswered").await;
}
