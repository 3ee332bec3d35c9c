//! The operator's side of the relational stores, and what may happen to these.
//!
//! Another one, or another way to set one up, is a file here that has a [`Database`], a name in
//! `store.rs`, and a line in [`open`].

mod galera;
mod mysql;
mod network;
mod own;
mod postgres;
mod server;
mod sqlite;
mod standby;
pub(crate) mod trouble;

use std::time::Duration;

use async_trait::async_trait;
use distlock_testkit::{Result, framing::Framing};

use self::server::Server;
use crate::{fault::Role, store::Store};

/// A database of the run's own, gone with this.
#[async_trait]
pub(crate) trait Database: std::fmt::Debug + Send + Sync {
    fn words(&self) -> &'static Words;

    /// What stands before and after the servers in the URL of those who lock.
    fn around(&self) -> [String; 2];

    fn servers(&self) -> &[Server];

    /// How the servers' bytes fall into packets.
    fn framing(&self) -> Framing;

    /// The server that is in trouble if there is any: the one that is written to, or any of those.
    fn one(&self) -> usize {
        0
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
        self.dial(server).await?.ask("SELECT 1").await.map(drop)
    }

    /// Ends some of the connections of those who lock, those that are to be told something too.
    async fn sever(&self) -> Result<()> {
        Err("there are no connections".into())
    }

    /// Another server is to be written to from now on. The old one goes on beside it for so long.
    async fn promote(&self, _time: Duration) -> Result<()> {
        Err("there is no standby".into())
    }

    /// Leaves no room where the server's data is.
    async fn fill(&self, server: usize) -> Result<()> {
        self.servers()[server].fill().await
    }

    /// The room is there again, and so is the server.
    async fn free(&self, server: usize) -> Result<()> {
        self.servers()[server].free().await
    }

    /// Sets its clock so many seconds from the truth.
    async fn set_clock(&self, server: usize, seconds: i64) -> Result<()> {
        self.servers()[server].set_clock(seconds).await
    }
}

/// What the rows of an answer say, as text; empty where there is no value.
pub(crate) type Rows = Vec<Vec<String>>;

#[async_trait]
pub(crate) trait Connection: std::fmt::Debug + Send {
    /// What one statement tells.
    async fn ask(&mut self, sql: &str) -> Result<Rows>;
}

/// What an operator has to know of a database's words and of distlock's tables in it.
#[derive(Debug)]
pub(crate) struct Words {
    pub(crate) sessions: &'static str,
    pub(crate) queues: &'static str,
    pub(crate) entries: &'static str,
    pub(crate) data: &'static str,
    /// Where those are who are to be told, if that is kept.
    pub(crate) watches: Option<&'static str>,
    /// What makes the key of an entry.
    pub(crate) key: &'static str,
    /// The value of data as a text.
    pub(crate) text: &'static str,
    /// What stands before and after a text that is a value.
    pub(crate) value: [&'static str; 2],
    /// Columns of data that have to be written besides, and what is written.
    pub(crate) besides: [&'static str; 2],
    /// From now on the table `torture_writes` counts how often each key of data was written.
    pub(crate) counting: &'static [&'static str],
    /// Begins a transaction that is going to lock something.
    pub(crate) begin: &'static str,
    /// At the end of a question: what it finds is locked. Nothing, if the transaction locks it all.
    pub(crate) locking: Option<&'static str>,
    /// Makes it read-only, and ends that.
    pub(crate) read_only: [&'static [&'static str]; 2],
    /// Asked just before its disk is full, and while it is: so that it needs room soon.
    pub(crate) room: [&'static [&'static str]; 2],
    /// What is in a packet that tells of an event; else the name of a lock is.
    pub(crate) event: Option<&'static [u8]>,
}

impl Words {
    pub(crate) fn bytes(&self, text: &str) -> String {
        self.value.join(text)
    }

    /// Writes data that was not there.
    pub(crate) fn insert(&self, dir: &str, name: &str, text: &str) -> String {
        let [columns, values] = self.besides;
        format!(
            "INSERT INTO {} (dir, name, value{columns}) VALUES ('{dir}', '{name}', {}{values})",
            self.data,
            self.bytes(text)
        )
    }
}

/// What is in the queues below this.
pub(crate) fn within(namespace: &str) -> String {
    format!("queue >= '{namespace}/' AND queue < '{namespace}0'")
}

/// Starts it.
pub(crate) async fn open(store: Store) -> Result<Box<dyn Database>> {
    Ok(match store {
        Store::Postgres => Box::new(postgres::Postgres::start().await?),
        Store::Standby => Box::new(standby::Pair::start(true).await?),
        Store::Asynchronous => Box::new(standby::Pair::start(false).await?),
        Store::Mysql => Box::new(mysql::Mysql::start().await?),
        Store::Galera => Box::new(galera::Galera::start().await?),
        Store::Sqlite => Box::new(sqlite::Sqlite::start().await?),
        Store::Etcd | Store::ZooKeeper => return Err(format!("{store} is no database").into()),
    })
}
