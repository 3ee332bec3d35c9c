//! Redis servers of which another one is elected when the primary is lost: by sentinels, or by the
//! other servers of a cluster. Who locks is told where it is, and goes there.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::Duration,
};

use async_trait::async_trait;
use distlock_testkit::{
    Result,
    docker::{CLOCK_OF_REDIS, path},
    framing::Framing,
};
use tokio::time::sleep;

use super::{
    Connection, Database,
    network::Network,
    redis::{PORT, WORDS, sever, strike, tell},
    replicas::{Confirmed, FOLLOWING, field},
    sentinels::Sentinels,
    server::{Peer, Server, done},
    slots,
    words::Words,
};
use crate::fault::{Role, Trouble};

/// With sentinels.
const COUNT: usize = 3;

const CLUSTER: [&str; 6] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1500",
    // One that has lost its slots would be a replica from then on.
    "--cluster-allow-replica-migration",
    "no",
];

#[derive(Debug)]
pub(super) struct Elected {
    servers: Vec<Server>,
    /// Which one is written to, or was the last time that all agreed.
    primary: AtomicUsize,
    /// Who elects; of a cluster, the servers do.
    sentinels: Option<Sentinels>,
    _network: Network,
}

impl Elected {
    pub(super) async fn start(by_sentinels: bool) -> Result<Self> {
        let network = Network::start().await?;
        let follow = format!("--volume={}:/follow:ro", path("redis/follow"));
        let kept = format!("--volume={}:/usr/bin/kept-server:ro", path("redis/kept-server"));
        let own = ["--stop-timeout=3", "--sysctl=net.ipv4.tcp_retries2=5", &follow];
        let mut run = [&CLOCK_OF_REDIS[..], &own, &["--entrypoint=/follow"]].concat();
        if by_sentinels {
            run.extend(["--env=SERVER=kept", &kept]);
        }
        let mut servers = Vec::new();
        for number in 0..if by_sentinels { COUNT } else { slots::COUNT } {
            let ip = network.address(number);
            let part = match by_sentinels {
                true => vec!["--replica-announce-ip", &ip],
                false => [&CLUSTER[..], &["--cluster-announce-ip", &ip]].concat(),
            };
            let arguments = [&FOLLOWING[..], &part].concat();
            let peer = Some(Peer { network: &network, number });
            servers.push(Server::beside(peer, "redis", PORT, &run, &arguments).await?);
        }
        let mut sentinels = None;
        if by_sentinels {
            let primary = servers[0].ip()?;
            for server in &servers[1..] {
                let follow = ["REPLICAOF", primary, "6379"];
                done(|| tell(server, &follow)).await?;
                done(|| tell(server, &["CONFIG", "REWRITE"])).await?;
            }
            sentinels = Some(Sentinels::start(&network, primary, COUNT - 1).await?);
        } else {
            slots::join(&servers).await?;
        }
        let primary = AtomicUsize::new(0);
        let elected = Self { servers, primary, sentinels, _network: network };
        done(|| elected.elected()).await?;
        Ok(elected)
    }

    /// Those that have what this one has.
    fn others(&self, server: usize) -> Vec<usize> {
        match &self.sentinels {
            Some(_) => (0..COUNT).filter(|other| *other != server).collect(),
            None => slots::partner(server).into_iter().collect(),
        }
    }

    async fn has_moved(&self, from: usize) -> Result<()> {
        match self.elected().await? {
            one if one == from => Err("it is the primary yet".into()),
            _ => Ok(()),
        }
    }

    /// Who has the locks, and the primary of the other pair.
    async fn pairs(&self) -> Result<[&Server; 2]> {
        let source = self.elected().await?;
        for other in (0..slots::COUNT - 1).filter(|it| *it / 2 != source / 2) {
            if field(&self.servers[other], "role").await? == "master" {
                return Ok([&self.servers[source], &self.servers[other]]);
            }
        }
        Err("the other pair has no primary".into())
    }
}

#[async_trait]
impl Database for Elected {
    fn words(&self) -> &'static dyn Words {
        &WORDS
    }

    fn around(&self) -> [String; 2] {
        let after = match &self.sentinels {
            Some(_) => format!("/main?replicas={}&", COUNT - 1),
            None => "?replicas=1&".to_owned(),
        };
        let scheme = if self.sentinels.is_some() { "redis+sentinel" } else { "redis" };
        let after = format!("{after}allow_plaintext_credentials=true");
        [format!("{scheme}://app:apppw@"), after]
    }

    fn servers(&self) -> &[Server] {
        &self.servers
    }

    fn named(&self) -> Result<Vec<String>> {
        match &self.sentinels {
            Some(sentinels) => sentinels.addresses(),
            None => self.servers.iter().map(|it| Ok(format!("{}:{PORT}", it.ip()?))).collect(),
        }
    }

    fn framing(&self) -> Framing {
        Framing::Resp
    }

    fn one(&self) -> usize {
        self.primary.load(SeqCst)
    }

    async fn elected(&self) -> Result<usize> {
        let one = match &self.sentinels {
            None => slots::keeper(&self.servers).await?,
            Some(sentinels) => {
                let primary = sentinels.primary().await?;
                let is_it = |server: &Server| server.ip().is_ok_and(|ip| ip == primary);
                self.servers.iter().position(is_it).ok_or("they name a stranger")?
            }
        };
        self.primary.store(one, SeqCst);
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
        Ok(Box::new(Confirmed::open(&self.servers[server], acks).await?))
    }

    async fn reach(&self) -> Result<Box<dyn Connection>> {
        let one = self.elected().await?;
        self.dial(one).await
    }

    async fn serves(&self, server: usize) -> Result<()> {
        self.elected().await?;
        let one = &self.servers[server];
        match &self.sentinels {
            None => slots::is_whole(one).await?,
            // What they have begun while it was silent they bring to its end.
            Some(sentinels) => sentinels.all_tell("flags", "master").await?,
        }
        let (name, wanted) = match field(one, "role").await? == "master" {
            true => ("connected_slaves", self.others(server).len().to_string()),
            false => ("master_link_status", "up".to_owned()),
        };
        let told = field(one, name).await?;
        if told == wanted { Ok(()) } else { Err(format!("{name} is {told:?}").into()) }
    }

    async fn sever(&self) -> Result<()> {
        sever(&self.servers[self.one()]).await
    }

    async fn strike(&self, trouble: Trouble, time: Duration) -> Result<()> {
        match trouble {
            Trouble::Migration => {
                let [source, target] = done(|| self.pairs()).await?;
                slots::migrate(source, target, time).await
            }
            _ => strike(&self.servers[self.one()], trouble, time).await,
        }
    }

    /// As an operator has it done, while the primary is well.
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
                    tell(&self.servers[partner], &command).await?;
                }
                (None, None) => return Err("it has no replica".into()),
            }
            // It is done while nobody waits for it, if it is done.
            for _ in 0..40 {
                if self.has_moved(old).await.is_ok() {
                    return Ok(());
                }
                sleep(Duration::from_millis(100)).await;
            }
            Err("no other one is promoted".into())
        };
        done(promote).await?;
        sleep(time.mul_f64(fastrand::f64())).await;
        Ok(())
    }

    async fn cut(&self, server: usize, replicas_alone: bool) -> Result<()> {
        let others = match replicas_alone {
            true => self.others(server),
            false => (0..self.servers.len()).filter(|other| *other != server).collect(),
        };
        let mut from = Vec::new();
        for other in others {
            from.push(self.servers[other].ip()?);
        }
        if let (Some(sentinels), false) = (&self.sentinels, replicas_alone) {
            from.push(sentinels.ip()?);
        }
        self.servers[server].part(&from).await
    }

    async fn heal(&self, server: usize) -> Result<()> {
        self.servers[server].unite().await
    }
}
