//! One pool per server of a URL, since sqlx's pool knows one server only. Clients of cases that cut
//! the network have several ways to a server, and use one that is reachable.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use sqlx::{Connection, Database, Pool, pool::PoolOptions};
use tokio::time::{sleep, timeout};

use super::single::Login;

/// The suffix of the URL of a client with a pool.
pub(crate) const POOLED: &str = "?pool=sqlx";

/// The number of connections of each pool.
const CONNECTIONS: u32 = 4;

/// How long a connection is idle before it is tested, and the time limit of the test.
const RESTED: Duration = Duration::from_millis(1900);
const TEST: Duration = Duration::from_secs(2);

/// The delay between attempts at one server and the next.
const STAGGER: Duration = Duration::from_millis(100);

/// The time limit of opening a connection.
const ACQUIRE: Duration = Duration::from_secs(10);

pub(crate) struct Hosts<DB: Database> {
    pools: Vec<Pool<DB>>,
    /// The index of the pool that lent the last connection.
    reached: AtomicUsize,
}

/// The connect options of sqlx.
type Options<DB> = <<DB as Database>::Connection as Connection>::Options;

/// A database that sqlx supports.
pub(crate) trait Pooled: Database {
    fn options(login: &Login<'_>, host: &str, port: u16) -> Options<Self>;
}

#[cfg(feature = "postgres")]
impl Pooled for sqlx::Postgres {
    fn options(login: &Login<'_>, host: &str, port: u16) -> Options<Self> {
        let Login { user, password, database, .. } = login;
        let options = sqlx::postgres::PgConnectOptions::new_without_pgpass();
        options.host(host).port(port).username(user).password(password).database(database)
    }
}

#[cfg(feature = "mysql")]
impl Pooled for sqlx::MySql {
    fn options(login: &Login<'_>, host: &str, port: u16) -> Options<Self> {
        let Login { user, password, database, .. } = login;
        let options = sqlx::mysql::MySqlConnectOptions::new();
        options.host(host).port(port).username(user).password(password).database(database)
    }
}

impl<DB: Pooled> Hosts<DB> {
    pub(crate) fn of(url: &str) -> Self {
        let (_, after) = url.rsplit_once('@').expect("a user");
        let servers = after.split('/').next().expect("servers");
        let pool = |server| options(CONNECTIONS).connect_lazy_with(to::<DB>(url, server));
        let pools: Vec<Pool<DB>> = servers.split(',').map(pool).collect();
        // sqlx also tests a connection when it is released. Spare connections serve what a case
        // does at that moment on a slow or cut network.
        if pools.len() > 1 {
            pools.iter().cloned().for_each(|pool| drop(tokio::spawn(warm_up(pool))));
        }
        Self { pools, reached: AtomicUsize::new(0) }
    }

    /// Acquires a connection from the first pool that has one. A silent server does not delay the
    /// others by more than the stagger.
    async fn reach<C, E>(
        &self,
        acquire: impl AsyncFn(&Pool<DB>) -> Result<C, E>,
        none: impl FnOnce() -> E,
    ) -> Result<C, E> {
        let (first, count) = (self.reached.load(Relaxed), self.pools.len());
        let mut acquiring: FuturesUnordered<_> = (0..count)
            .map(|place| {
                let acquire = &acquire;
                async move {
                    sleep(STAGGER * u32::try_from(place).expect("a few")).await;
                    let at = (first + place) % count;
                    (at, acquire(&self.pools[at]).await)
                }
            })
            .collect();
        let mut last = None;
        while let Some((at, acquired)) = acquiring.next().await {
            match acquired {
                Ok(connection) => {
                    self.reached.store(at, Relaxed);
                    return Ok(connection);
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(none))
    }
}

async fn warm_up<DB: Database>(pool: Pool<DB>) {
    drop(join_all((0..CONNECTIONS).map(|_| pool.acquire())).await);
}

/// Returns a pool of up to `connections` connections to the server of this URL.
pub(crate) fn pool_of<DB: Pooled>(url: &str, connections: u32) -> Pool<DB> {
    options(connections).connect_lazy_with(to::<DB>(url, Login::of(url, None).server))
}

fn to<DB: Pooled>(url: &str, server: &str) -> Options<DB> {
    let (host, port) = server.rsplit_once(':').expect("host:port");
    DB::options(&Login::of(url, None), host, port.parse().expect("a port"))
}

fn options<DB: Database>(connections: u32) -> PoolOptions<DB> {
    PoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        // Cases require that a request is sent although the server no longer replies, so a fresh
        // connection is not tested. When a case closes connections, it waits longer before it
        // requires the next request to succeed.
        .test_before_acquire(false)
        .before_acquire(|connection: &mut DB::Connection, meta| {
            Box::pin(async move {
                let tested = async { connection.ping().await.is_ok() };
                Ok(meta.idle_for < RESTED || timeout(TEST, tested).await.unwrap_or(false))
            })
        })
}

#[cfg(feature = "postgres")]
impl distlock::postgres::Pool for Hosts<sqlx::Postgres> {
    fn acquire(
        &self,
    ) -> distlock::postgres::PoolFuture<'_, Box<dyn distlock::postgres::PoolConnection>> {
        let none = || distlock::postgres::PoolError::new("no server");
        Box::pin(self.reach(async |pool| distlock::postgres::Pool::acquire(pool).await, none))
    }
}

#[cfg(feature = "mysql")]
impl distlock::mysql::Pool for Hosts<sqlx::MySql> {
    fn acquire(&self) -> distlock::mysql::PoolFuture<'_, Box<dyn distlock::mysql::PoolConnection>> {
        let none = || distlock::mysql::PoolError::new("no server");
        Box::pin(self.reach(async |pool| distlock::mysql::Pool::acquire(pool).await, none))
    }
}
