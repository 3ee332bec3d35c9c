//! Redis servers of which another one is elected when the primary is lost, by sentinels or by the
//! other servers of a cluster. Clients get the servers' addresses.

use std::{sync::atomic::Ordering::SeqCst, time::Duration};

use async_trait::async_trait;
use distlock_testkit::{Result, docker::path, retry::retried};
use tokio::time::sleep;

use super::{
    Connection, Database, Setup,
    redis::{PORT, run, setup, sever, strike},
    replicas::{Confirmed, field, followers, plays},
    sentinels::Sentinels,
    server::{Server, done},
    slots,
};
use crate::fault::{Role, Trouble};

/// The number of servers with sentinels.
const COUNT: usize = 3;

const CLUSTER: [&str; 7] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1500",
    // Otherwise a primary that has lost its slots would become a replica.
    "--cluster-allow-replica-migration",
    "no",
    // Its address follows.
    "--cluster-announce-ip",
];

#[derive(Debug)]
pub(super) struct Elected {
    /// The sentinels that elect. In a cluster, the servers elect.
    sentinels: Option<Sentinels>,
    /// Declared after them, since its network is removed last.
    setup: Setup,
}

impl Elected {
    pub(super) async fn start(by_sentinels: bool) -> Result<Self> {
        let (scheme, after, count) = match by_sentinels {
            true => ("redis+sentinel", format!("/main?replicas={}&", COUNT - 1), COUNT),
            false => ("redis", "?replicas=1&".to_owned(), slots::COUNT),
        };
        let after = format!("{after}allow_plaintext_credentials=true");
        let setup = setup([format!("{scheme}://app:apppw@"), after]);
        let mut elected = Self { setup, sentinels: None };
        let kept = format!("--volume={}:/usr/bin/kept-server:ro", path("redis/kept-server"));
        let kept = ["--env=SERVER=kept", kept.as_str()];
        let more = if by_sentinels { &kept[..] } else { &[] };
        let part = |ip: &str| {
            let part = if by_sentinels { &["--replica-announce-ip"][..] } else { &CLUSTER };
            part.iter().copied().chain([ip]).map(str::to_owned).collect()
        };
        followers(&mut elected.setup, count, more, part).await?;
        let Setup { servers, network: Some(network), .. } = &elected.setup else {
            return Err("no network".into());
        };
        if by_sentinels {
            let primary = servers[0].ip()?;
            for server in &servers[1..] {
                let follow = ["REPLICAOF", primary, "6379"];
                done(|| run(server, &follow)).await?;
                done(|| run(server, &["CONFIG", "REWRITE"])).await?;
            }
            elected.sentinels = Some(Sentinels::start(network, primary, COUNT - 1).await?);
        } else {
            slots::join(servers).await?;
        }
        done(|| elected.elected()).await?;
        Ok(elected)
    }

    /// Returns the servers that replicate this one, or that it replicates.
    fn others(&self, server: usize) -> Vec<usize> {
        match &self.sentinels {
            Some(_) => (0..COUNT).filter(|other| *other != server).collect(),
            None => slots::partner(server).into_iter().collect(),
        }
    }

    async fn has_moved(&self, from: usize) -> Result<()> {
        match self.elected().await? {
            one if one == from => Err("the server is still the primary".into()),
            _ => Ok(()),
        }
    }

    /// Returns the server of the locks, and the primary of the other pair.
    async fn pairs(&self) -> Result<[&Server; 2]> {
        let source = self.elected().await?;
        for other in (0..slots::COUNT - 1).filter(|it| *it / 2 != source / 2) {
            if field(&self.setup.servers[other], "role").await? == "master" {
                return Ok([&self.setup.servers[source], &self.setup.servers[other]]);
            }
        }
        Err("the other pair has no primary".into())
    }
}

#[async_trait]
impl Database for Elected {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn named(&self) -> Result<Vec<String>> {
        match &self.sentinels {
            Some(sentinels) => Ok(sentinels.addresses.clone()),
            None => {
                self.setup.servers.iter().map(|it| Ok(format!("{}:{PORT}", it.ip()?))).collect()
            }
        }
    }

    async fn elected(&self) -> Result<usize> {
        let one = match &self.sentinels {
            None => slots::keeper(&self.setup.servers).await?,
            Some(sentinels) => {
                let primary = sentinels.primary().await?;
                let is_it =
                    |server: &Server| server.ip().is_ok_and(|ip| format!("{ip}:{PORT}") == primary);
                self.setup
                    .servers
                    .iter()
                    .position(is_it)
                    .ok_or("the sentinels name an unknown server")?
            }
        };
        self.setup.primary.store(one, SeqCst);
        Ok(one)
    }

    fn role(&self, server: usize) -> Option<Role> {
        match self.one() {
            one if one == server => Some(Role::Leader),
            one => self.others(one).contains(&server).then_some(Role::Follower),
        }
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        let acks = if server == self.one() { self.others(server).len() } else { 0 };
        Ok(Box::new(Confirmed::open(&self.setup.servers[server], acks).await?))
    }

    async fn reach(&self) -> Result<Box<dyn Connection>> {
        let one = self.elected().await?;
        self.dial(one).await
    }

    async fn serves(&self, server: usize) -> Result<()> {
        self.elected().await?;
        let one = &self.setup.servers[server];
        match &self.sentinels {
            None => slots::is_whole(one).await?,
            // Sentinels complete what they started while the server was silent.
            Some(sentinels) => sentinels.all_report("flags", "master").await?,
        }
        let leads = field(one, "role").await? == "master";
        plays(one, leads, self.others(server).len()).await
    }

    async fn sever(&self) -> Result<()> {
        sever(&self.setup.servers[self.one()]).await
    }

    async fn strike(&self, trouble: Trouble, time: Duration) -> Result<()> {
        match trouble {
            Trouble::Migration => {
                let [source, target] = done(|| self.pairs()).await?;
                slots::migrate(source, target, time).await
            }
            _ => strike(&self.setup.servers[self.one()], trouble, time).await,
        }
    }

    /// Promotes a replica as an operator would, while the primary is healthy.
    async fn promote(&self, time: Duration) -> Result<()> {
        let old = self.elected().await?;
        let promote = async || {
            if self.has_moved(old).await.is_ok() {
                return Ok(());
            }
            match (&self.sentinels, slots::partner(old)) {
                (Some(sentinels), _) => sentinels.promote().await?,
                (None, Some(partner)) => {
                    let hows: [&[&str]; 3] = [&[], &["FORCE"], &["TAKEOVER"]];
                    let how = hows[fastrand::usize(..hows.len())];
                    let command = [&["CLUSTER", "FAILOVER"], how].concat();
                    run(&self.setup.servers[partner], &command).await?;
                }
                (None, None) => return Err("the primary has no replica".into()),
            }
            // It completes asynchronously, if at all.
            retried(Duration::from_secs(4), async || self.has_moved(old).await).await
        };
        done(promote).await?;
        sleep(time.mul_f64(fastrand::f64())).await;
        Ok(())
    }

    async fn cut(&self, server: usize, replicas_alone: bool) -> Result<()> {
        let others = match replicas_alone {
            true => self.others(server),
            false => (0..self.setup.servers.len()).filter(|other| *other != server).collect(),
        };
        let mut from = Vec::new();
        for other in others {
            from.push(self.setup.servers[other].ip()?);
        }
        if let (Some(sentinels), false) = (&self.sentinels, replicas_alone) {
            from.push(sentinels.ip()?);
        }
        self.setup.servers[server].part(&from).await
    }

    async fn heal(&self, server: usize) -> Result<()> {
        self.setup.servers[server].unite().await
    }
}
