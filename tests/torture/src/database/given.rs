//! Servers that already run when a run starts, and that another program starts and stops: one of
//! PostgreSQL or MariaDB, or several of Redis with sentinels.

use std::{net::SocketAddr, sync::atomic::Ordering::SeqCst};

use async_trait::async_trait;
use distlock_testkit::{Result, framing::Framing, store::Store};

use super::{
    Connection, Database, Setup, mysql, postgres, redis,
    replicas::{Confirmed, field, plays},
    sentinels::Sentinels,
    server::Server,
};

#[derive(Debug)]
pub(super) struct Given {
    store: Store,
    setup: Setup,
    /// The sentinels, which elect the primary.
    sentinels: Option<Sentinels>,
}

impl Given {
    pub(super) fn new(store: Store, servers: &[SocketAddr]) -> Result<Self> {
        let (mut sentinels, mut own) = (None, servers);
        let mut setup = match store {
            Store::Postgres => Setup::new(&postgres::WORDS, postgres::AROUND, Framing::Postgres),
            Store::Mysql => Setup::new(&mysql::WORDS, mysql::AROUND, Framing::Mysql),
            Store::RedisSentinel => {
                let (nodes, three) =
                    servers.split_last_chunk::<3>().ok_or("three sentinels are required")?;
                (sentinels, own) = (Some(Sentinels::given(three)), nodes);
                let after = format!("/main?replicas={}", nodes.len().saturating_sub(1));
                redis::setup(["redis+sentinel://app:apppw@".to_owned(), after])
            }
            _ => return Err(format!("--servers does not support {store}").into()),
        };
        setup.servers.extend(own.iter().copied().map(Server::given));
        Ok(Self { store, setup, sentinels })
    }
}

#[async_trait]
impl Database for Given {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn named(&self) -> Result<Vec<String>> {
        Ok(match &self.sentinels {
            Some(sentinels) => sentinels.addresses.clone(),
            None => self.doors().iter().map(SocketAddr::to_string).collect(),
        })
    }

    async fn elected(&self) -> Result<usize> {
        let Some(sentinels) = &self.sentinels else { return Ok(0) };
        let primary = sentinels.primary().await?;
        let mut servers = self.setup.servers.iter();
        let one = servers.position(|server| server.address.to_string() == primary);
        let one = one.ok_or("the sentinels name an unknown server")?;
        self.setup.primary.store(one, SeqCst);
        Ok(one)
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        let one = &self.setup.servers[server];
        Ok(match self.store {
            Store::Postgres => Box::new(postgres::dial(one, "distlock").await?),
            Store::Mysql => Box::new(mysql::dial(one, &[]).await?),
            _ => {
                let leads = server == self.one();
                let acks = if leads { self.setup.servers.len() - 1 } else { 0 };
                Box::new(Confirmed::open(one, acks).await?)
            }
        })
    }

    async fn reach(&self) -> Result<Box<dyn Connection>> {
        let one = self.elected().await?;
        self.dial(one).await
    }

    async fn serves(&self, server: usize) -> Result<()> {
        let Some(sentinels) = &self.sentinels else {
            return self.dial(server).await?.ask(&self.setup.words.nothing()).await.map(drop);
        };
        self.elected().await?;
        sentinels.all_report("flags", "master").await?;
        let one = &self.setup.servers[server];
        let leads = field(one, "role").await? == "master";
        plays(one, leads, self.setup.servers.len() - 1).await
    }
}
