//! Five independent Valkey servers.

use std::time::Duration;

use async_trait::async_trait;
use distlock_testkit::{Result, framing::Framing};
use redis::{aio::MultiplexedConnection, cmd};
use tokio::{task::JoinSet, time::timeout};

use super::{
    Connection, Database, Rows, Setup,
    redis::{open, server, sever, strike, wipe},
    words::Words,
};
use crate::fault::{Role, Trouble};

const COUNT: usize = 5;

/// The time limit of a node's reply.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// Scripts that run on each node. The nodes have no sessions and no data.
#[derive(Debug)]
struct Scripts;

static WORDS: Scripts = Scripts;

impl Words for Scripts {
    fn nothing(&self) -> String {
        "return {}".to_owned()
    }

    fn places(&self, namespace: &str) -> String {
        format!(
            "local found = {{}}
            for _, lock in ipairs(redis.call('KEYS', '{{{namespace}/*}}')) do
                local id = string.match(redis.call('GET', lock), '^[^\\n]*')
                found[#found + 1] = {{ string.sub(lock, 2, -2) .. '/' .. id, 0 }}
            end
            return found"
        )
    }
}

#[derive(Debug)]
pub(super) struct Redlock(Setup);

impl Redlock {
    pub(super) async fn start() -> Result<Self> {
        let mut setup = Setup::new(&WORDS, ["redlock://app:apppw@", ""], Framing::Resp);
        for _ in 0..COUNT {
            let node = server("redlock1", &["--auto-aof-rewrite-min-size", "16mb"]).await?;
            setup.servers.push(node);
        }
        Ok(Self(setup))
    }
}

#[async_trait]
impl Database for Redlock {
    fn setup(&self) -> &Setup {
        &self.0
    }

    /// A minority.
    fn some(&self) -> Vec<usize> {
        fastrand::choose_multiple(0..COUNT, fastrand::usize(1..=COUNT / 2))
    }

    /// No server leads.
    fn role(&self, _: usize) -> Option<Role> {
        Some(Role::Follower)
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(Nodes(vec![open(&self.0.servers[server]).await?])))
    }

    /// Connects to all nodes.
    async fn reach(&self) -> Result<Box<dyn Connection>> {
        let mut nodes = Vec::new();
        for server in &self.0.servers {
            nodes.push(timeout(TIME_LIMIT, open(server)).await??);
        }
        Ok(Box::new(Nodes(nodes)))
    }

    async fn sever(&self) -> Result<()> {
        for node in self.some() {
            sever(&self.0.servers[node]).await?;
        }
        Ok(())
    }

    async fn strike(&self, trouble: Trouble, time: Duration) -> Result<()> {
        let nodes = self.some();
        let mut struck = nodes.iter().map(|node| strike(&self.0.servers[*node], trouble, time));
        match (struck.next(), struck.next()) {
            (Some(one), Some(other)) => tokio::try_join!(one, other).map(drop),
            (Some(one), None) => one.await,
            _ => Ok(()),
        }
    }

    async fn wipe(&self, server: usize) -> Result<()> {
        wipe(&self.0.servers[server]).await
    }
}

/// Connections to some nodes.
#[derive(Debug)]
struct Nodes(Vec<MultiplexedConnection>);

#[async_trait]
impl Connection for Nodes {
    /// Returns the rows of all nodes.
    async fn ask(&mut self, script: &str) -> Result<Rows> {
        let mut running = JoinSet::new();
        for node in &self.0 {
            let (mut node, script) = (node.clone(), script.to_owned());
            running.spawn(async move {
                cmd("EVAL").arg(script).arg(0).query_async::<Rows>(&mut node).await
            });
        }
        let mut all = Rows::new();
        while let Some(reply) = running.join_next().await {
            all.extend(reply??);
        }
        all.sort();
        all.dedup();
        Ok(all)
    }
}
