//! The operator's side of the stores that a run has for itself, and what may happen to these.
//!
//! Another one, or another way to set one up, is a file here that has a [`Database`], a name in the
//! test kit's `store.rs`, and a line in [`open`].

mod elected;
mod galera;
mod mysql;
mod network;
mod own;
mod postgres;
mod redis;
mod redlock;
mod replicas;
mod sentinels;
mod server;
mod slots;
mod sqlite;
mod standby;
pub(crate) mod trouble;
pub(crate) mod words;

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use async_trait::async_trait;
use distlock_testkit::{Result, framing::Framing, store::Store};

use self::{network::Network, server::Server, words::Words};
use crate::fault::{Role, Trouble};

/// The namespace of a run: each has another one, unless it has servers of its own, of which the
/// operator's scripts on Redis know the keys of one.
pub(crate) fn namespace(is_redis: bool, usual: &str) -> String {
    if is_redis { redis::NAMESPACE.to_owned() } else { usual.to_owned() }
}

/// What there is of any database.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) words: &'static dyn Words,
    /// What stands before and after the servers in the URL of those who lock.
    pub(crate) around: [String; 2],
    /// How the servers' bytes fall into packets.
    pub(crate) framing: Framing,
    pub(crate) servers: Vec<Server>,
    /// Which one is written to, or was the last time that all agreed.
    primary: AtomicUsize,
    /// By which they reach each other.
    network: Option<Network>,
}

impl Setup {
    fn new(words: &'static dyn Words, around: [impl Into<String>; 2], framing: Framing) -> Self {
        let (around, primary) = (around.map(Into::into), AtomicUsize::new(0));
        Self { words, around, framing, servers: Vec::new(), primary, network: None }
    }

    fn network(&self) -> Result<&Network> {
        Ok(self.network.as_ref().ok_or("it is alone")?)
    }
}

/// A database of the run's own, gone with this.
#[async_trait]
pub(crate) trait Database: std::fmt::Debug + Send + Sync {
    fn setup(&self) -> &Setup;

    /// Where the workers reach the servers.
    fn doors(&self) -> Vec<SocketAddr> {
        self.setup().servers.iter().map(|server| server.address).collect()
    }

    /// What stands for the servers in the URL of those who lock.
    fn named(&self) -> Result<Vec<String>> {
        Ok(self.doors().iter().map(SocketAddr::to_string).collect())
    }

    /// The server that is in trouble if there is any: the one that is written to, or any of those.
    fn one(&self) -> usize {
        self.setup().primary.load(SeqCst)
    }

    /// The one that is written to by the word of those who elect it.
    async fn elected(&self) -> Result<usize> {
        Ok(self.one())
    }

    /// Those that are in trouble together, where several may be.
    fn some(&self) -> Vec<usize> {
        vec![self.one()]
    }

    /// What it is to the others.
    fn role(&self, _server: usize) -> Option<Role> {
        None
    }

    /// A connection to it of an operator's, who may do everything.
    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>>;

    /// A connection to any that tells what has been confirmed.
    async fn reach(&self) -> Result<Box<dyn Connection>> {
        self.dial(self.one()).await
    }

    /// A statement after which all that was told before it in its transaction is confirmed. It
    /// tells one row.
    fn confirmed(&self) -> Option<&'static str> {
        None
    }

    /// Fails unless the server does its part.
    async fn serves(&self, server: usize) -> Result<()> {
        self.dial(server).await?.ask(&self.setup().words.nothing()).await.map(drop)
    }

    /// Ends some of the connections of those who lock, those that are to be told something too.
    async fn sever(&self) -> Result<()> {
        Err("there are no connections".into())
    }

    /// Another server is to be written to from now on. The old one goes on beside it for so long.
    async fn promote(&self, _time: Duration) -> Result<()> {
        Err("there is no standby".into())
    }

    /// What may happen to this one alone, for so long.
    async fn strike(&self, trouble: Trouble, _time: Duration) -> Result<()> {
        Err(format!("there is no {trouble:?} here").into())
    }

    /// Cuts it off from the others, or from its replicas alone, and never from its clients.
    async fn cut(&self, server: usize, _replicas_alone: bool) -> Result<()> {
        self.setup().servers[server].cut().await
    }

    /// It reaches the others again.
    async fn heal(&self, server: usize) -> Result<()> {
        self.setup().servers[server].heal().await
    }

    /// Its data is gone; it is down.
    async fn wipe(&self, _server: usize) -> Result<()> {
        Err("its data stays".into())
    }

    /// It is killed, and what it has written last is gone.
    async fn rewind(&self, _server: usize) -> Result<()> {
        Err("its data stays".into())
    }

    /// Leaves no room where the server's data is.
    async fn fill(&self, server: usize) -> Result<()> {
        self.setup().servers[server].fill().await
    }

    /// The room is there again, and so is the server.
    async fn free(&self, server: usize) -> Result<()> {
        self.setup().servers[server].free().await
    }

    /// Sets its clock so many seconds from the truth.
    async fn set_clock(&self, server: usize, seconds: i64) -> Result<()> {
        self.setup().servers[server].set_clock(seconds).await
    }
}

/// What the rows of an answer say, as text; empty where there is no value.
pub(crate) type Rows = Vec<Vec<String>>;

#[async_trait]
pub(crate) trait Connection: std::fmt::Debug + Send {
    /// What one statement tells.
    async fn ask(&mut self, statement: &str) -> Result<Rows>;
}

/// Starts it.
pub(crate) async fn open(store: Store) -> Result<Box<dyn Database>> {
    Ok(match store {
        Store::Postgres => Box::new(standby::Postgres::start(None).await?),
        Store::Pgbouncer => Box::new(standby::Postgres::pooled().await?),
        Store::PostgresStandby => Box::new(standby::Postgres::start(Some(true)).await?),
        Store::PostgresAsync => Box::new(standby::Postgres::start(Some(false)).await?),
        Store::Mysql => Box::new(galera::Mysql::start(1).await?),
        Store::Galera => Box::new(galera::Mysql::start(3).await?),
        Store::Sqlite => Box::new(sqlite::Sqlite::start().await?),
        Store::Redis | Store::RedisEverysec | Store::RedisWiped | Store::Valkey => {
            Box::new(redis::Redis::start(store).await?)
        }
        Store::RedisReplicas => Box::new(replicas::Replicas::start(true).await?),
        Store::RedisAsync => Box::new(replicas::Replicas::start(false).await?),
        Store::RedisSentinel => Box::new(elected::Elected::start(true).await?),
        Store::RedisCluster => Box::new(elected::Elected::start(false).await?),
        Store::Redlock => Box::new(redlock::Redlock::start().await?),
        Store::Etcd | Store::ZooKeeper => return Err(format!("{store} is no database").into()),
    })
}
