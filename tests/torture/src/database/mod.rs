//! The operator's view of stores that belong to a run, and the troubles that may happen to them.
//!
//! To add a store or a deployment, add a file with a [`Database`] here, a name in the test kit's
//! `store.rs`, and a line in [`open`].

mod elected;
mod galera;
mod given;
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

/// Returns the namespace of a run. Runs differ in it, except on Redis, where the operator's scripts
/// know the keys of one namespace. There each run has its own servers.
pub(crate) fn namespace(is_redis: bool, usual: &str) -> String {
    if is_redis { redis::NAMESPACE.to_owned() } else { usual.to_owned() }
}

/// The common parts of all databases.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) words: &'static dyn Words,
    /// The parts of a client's URL before and after the servers.
    pub(crate) around: [String; 2],
    /// How the servers' bytes are split into packets.
    pub(crate) framing: Framing,
    pub(crate) servers: Vec<Server>,
    /// The index of the server that accepts writes, or did when all last agreed.
    primary: AtomicUsize,
    /// The network between the servers.
    network: Option<Network>,
}

impl Setup {
    fn new(words: &'static dyn Words, around: [impl Into<String>; 2], framing: Framing) -> Self {
        let (around, primary) = (around.map(Into::into), AtomicUsize::new(0));
        Self { words, around, framing, servers: Vec::new(), primary, network: None }
    }

    fn network(&self) -> Result<&Network> {
        Ok(self.network.as_ref().ok_or("there is only one server")?)
    }
}

/// A database of the run's own, removed on drop.
#[async_trait]
pub(crate) trait Database: std::fmt::Debug + Send + Sync {
    fn setup(&self) -> &Setup;

    /// Returns the addresses for the workers.
    fn doors(&self) -> Vec<SocketAddr> {
        self.setup().servers.iter().map(|server| server.address).collect()
    }

    /// Returns the servers as they are named in clients' URLs.
    fn named(&self) -> Result<Vec<String>> {
        Ok(self.doors().iter().map(SocketAddr::to_string).collect())
    }

    /// Returns the server that a trouble strikes: the one that accepts writes, or any of several.
    fn one(&self) -> usize {
        self.setup().primary.load(SeqCst)
    }

    /// Returns the server that accepts writes, according to those that elect it.
    async fn elected(&self) -> Result<usize> {
        Ok(self.one())
    }

    /// Returns the servers that a trouble strikes together.
    fn some(&self) -> Vec<usize> {
        vec![self.one()]
    }

    /// Returns the server's role.
    fn role(&self, _server: usize) -> Option<Role> {
        None
    }

    /// Opens an operator's connection to a server, with all permissions.
    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>>;

    /// Opens a connection that returns confirmed data.
    async fn reach(&self) -> Result<Box<dyn Connection>> {
        self.dial(self.one()).await
    }

    /// Returns a statement that confirms everything read before it in its transaction. It returns
    /// one row.
    fn confirmed(&self) -> Option<&'static str> {
        None
    }

    /// Fails unless the server serves in its role.
    async fn serves(&self, server: usize) -> Result<()> {
        self.dial(server).await?.ask(&self.setup().words.nothing()).await.map(drop)
    }

    /// Closes some of the clients' connections, including those for events.
    async fn sever(&self) -> Result<()> {
        Err("there are no connections".into())
    }

    /// Promotes another server. The old primary keeps running for `time`.
    async fn promote(&self, _time: Duration) -> Result<()> {
        Err("there is no standby".into())
    }

    /// Makes a trouble that only this database supports, for `time`.
    async fn strike(&self, trouble: Trouble, _time: Duration) -> Result<()> {
        Err(format!("{trouble:?} is not supported here").into())
    }

    /// Cuts off a server from the others, or only from its replicas. Its clients still reach it.
    async fn cut(&self, server: usize, _replicas_alone: bool) -> Result<()> {
        self.setup().servers[server].cut().await
    }

    /// Reconnects a server to the others.
    async fn heal(&self, server: usize) -> Result<()> {
        self.setup().servers[server].heal().await
    }

    /// Deletes the server's data, and leaves the server down.
    async fn wipe(&self, _server: usize) -> Result<()> {
        Err("the data cannot be removed".into())
    }

    /// Kills the server and removes its latest writes.
    async fn rewind(&self, _server: usize) -> Result<()> {
        Err("the data cannot be removed".into())
    }

    /// Fills the server's disk.
    async fn fill(&self, server: usize) -> Result<()> {
        self.setup().servers[server].fill().await
    }

    /// Frees the disk, and makes the server run again.
    async fn free(&self, server: usize) -> Result<()> {
        self.setup().servers[server].free().await
    }

    /// Sets the server's clock to this many seconds from the actual time.
    async fn set_clock(&self, server: usize, seconds: i64) -> Result<()> {
        self.setup().servers[server].set_clock(seconds).await
    }
}

/// The rows of a reply as text. NULL is empty.
pub(crate) type Rows = Vec<Vec<String>>;

#[async_trait]
pub(crate) trait Connection: std::fmt::Debug + Send {
    /// Runs one statement, and returns its rows.
    async fn ask(&mut self, statement: &str) -> Result<Rows>;
}

/// Returns a database whose servers already run.
pub(crate) fn given(store: Store, servers: &[SocketAddr]) -> Result<Box<dyn Database>> {
    Ok(Box::new(given::Given::new(store, servers)?))
}

/// Starts a database.
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
