//! A pool for each server of a URL, of which a reachable one is used: sqlx's pool knows one server,
//! and cases that cut off a client have several ways to it.

use std::{
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use distlock::postgres::{Pool, PoolConnection, PoolError, PoolFuture};
use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use sqlx::{
    Connection as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use tokio::time::{sleep, timeout};

use super::single::Login;

/// The end of the URL of a client that has a pool, too.
pub(crate) const POOLED: &str = "?pool=sqlx";

/// How many connections each of the pools has.
const CONNECTIONS: u32 = 4;

/// How long a connection is idle before it is tested, and how long that may take.
const RESTED: Duration = Duration::from_millis(1900);
const TEST: Duration = Duration::from_secs(2);

/// How much later than one server the next one is asked.
const STAGGER: Duration = Duration::from_millis(100);

/// How long a server may take to let a connection in.
const ACQUIRE: Duration = Duration::from_secs(10);

pub(crate) struct Hosts {
    pools: Vec<PgPool>,
    /// The pool that has lent the last connection.
    reached: AtomicUsize,
}

impl Hosts {
    pub(crate) fn of(url: &str) -> Self {
        let (_, after) = url.rsplit_once('@').expect("a user");
        let servers = after.split('/').next().expect("servers");
        let pool = |server| options(CONNECTIONS).connect_lazy_with(to(url, server));
        let pools: Vec<_> = servers.split(',').map(pool).collect();
        // sqlx tests a connection as it is released, too. So there are others for what a case does
        // at that moment on a network that is slow or cut.
        if pools.len() > 1 {
            pools.iter().cloned().for_each(|pool| drop(tokio::spawn(warm_up(pool))));
        }
        Self { pools, reached: AtomicUsize::new(0) }
    }
}

async fn warm_up(pool: PgPool) {
    drop(join_all((0..CONNECTIONS).map(|_| pool.acquire())).await);
}

/// A pool of at most so many connections to the server of this URL.
pub(crate) fn pool_of(url: &str, connections: u32) -> PgPool {
    options(connections).connect_lazy_with(to(url, Login::of(url, None).server))
}

fn to(url: &str, server: &str) -> PgConnectOptions {
    let Login { user, password, database, .. } = Login::of(url, None);
    let (host, port) = server.rsplit_once(':').expect("host:port");
    PgConnectOptions::new_without_pgpass()
        .host(host)
        .port(port.parse().expect("a port"))
        .username(user)
        .password(password)
        .database(database)
}

fn options(connections: u32) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE)
        // Cases demand that a request is sent although nothing is replied any more. They hang up at
        // other times, and wait for longer before they demand that the next request succeeds.
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                let tested = async { connection.ping().await.is_ok() };
                Ok(meta.idle_for < RESTED || timeout(TEST, tested).await.unwrap_or(false))
            })
        })
}

impl Pool for Hosts {
    /// A server that is silent does not keep the others from being asked.
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
        Box::pin(async move {
            let (first, count) = (self.reached.load(Relaxed), self.pools.len());
            let mut acquiring: FuturesUnordered<_> = (0..count)
                .map(|place| async move {
                    sleep(STAGGER * u32::try_from(place).expect("a few")).await;
                    let at = (first + place) % count;
                    (at, Pool::acquire(&self.pools[at]).await)
                })
                .collect();
            let mut last = PoolError::new("no server");
            while let Some((at, acquired)) = acquiring.next().await {
                match acquired {
                    Ok(connection) => {
                        self.reached.store(at, Relaxed);
                        return Ok(connection);
                    }
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
    }
}
