//! The servers: their containers, their roles, and what an operator sees in the store.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Mutex as StdMutex, PoisonError},
    time::Duration,
};

use distlock_testkit::{
    Result, disk,
    docker::{container, docker, script},
    proxies::Proxies,
    retry::retried,
    servers::{METRICS, ask, resolve},
    store::Store,
};
use etcd_client::{Client as Etcd, GetOptions, KeyValue};
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use zookeeper_client::{Client as ZooKeeper, Error as ZkError};

use crate::{
    database::{
        self, Connection, Database, Rows, Setup, trouble,
        words::{Words, parts},
    },
    fault::{Deed, Role, Trouble},
};

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(1);

/// A server that takes longer to serve again after a fault has a trouble of its own.
const RECOVERY: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) servers: Vec<SocketAddr>,
    /// The operator's session on ZooKeeper.
    session: Mutex<Option<ZooKeeper>>,
    database: Option<Box<dyn Database>>,
    /// Connections of operators to it, with nothing under way.
    idle: StdMutex<Vec<Box<dyn Connection>>>,
}

impl Cluster {
    /// The cluster of docker/up, or a database of its own, which is gone with this.
    pub(crate) async fn connect(store: impl Into<Store>) -> Result<Self> {
        let store = store.into();
        let (servers, database) = match store.clustered() {
            Some(backend) => (resolve(&backend.url()).await?, None),
            None => {
                let database = database::open(store).await?;
                (database.doors(), Some(database))
            }
        };
        let (session, idle) = Default::default();
        let cluster = Self { store, servers, session, database, idle };
        for server in 0..cluster.servers.len() {
            cluster
                .recovered(server)
                .await
                .map_err(|error| format!("{error}; start the servers with docker/up"))?;
        }
        Ok(cluster)
    }

    pub(crate) fn url(&self) -> String {
        match (self.store.clustered(), &self.database) {
            (Some(backend), _) => backend.url_of(&self.servers),
            (None, Some(database)) => {
                let servers = database.named().unwrap_or_default();
                database.setup().around.join(&servers.join(","))
            }
            (None, None) => String::new(),
        }
    }

    /// A way of one's own to all of the servers, of which another one is the first for each number.
    pub(crate) async fn proxies(&self, number: usize) -> Result<Proxies> {
        if let Some(backend) = self.store.clustered() {
            return Ok(Proxies::start(backend, &self.servers).await);
        }
        let database = self.database()?;
        let Setup { around, framing, .. } = database.setup();
        if self.store.elects() {
            // They are told where to go to.
            return Ok(Proxies::between([&self.url(), ""], *framing, &[]).await);
        }
        let mut servers = self.servers.clone();
        let first = number % servers.len().max(1);
        servers.rotate_left(first);
        Ok(Proxies::between(around.each_ref().map(String::as_str), *framing, &servers).await)
    }

    /// What is in a packet to those who lock that tells of an event.
    pub(crate) fn event_of(&self, namespace: &str) -> Vec<u8> {
        let told = self.database.as_ref().and_then(|database| database.setup().words.event());
        told.unwrap_or(namespace.as_bytes()).to_vec()
    }

    /// The name that docker/'s scripts know a server by, or that it has in a history.
    pub(crate) fn service(&self, server: usize) -> String {
        match self.store.clustered() {
            Some(backend) => backend.services()[server].to_owned(),
            None if self.servers.len() > 1 => format!("{}{}", self.store, server + 1),
            None => self.store.to_string(),
        }
    }

    async fn docker(&self, command: &str, server: usize) -> Result<()> {
        let container = match &self.database {
            None => container(&self.service(server)),
            Some(database) => database.setup().servers[server].container.clone(),
        };
        let mut attempts = 0;
        loop {
            match docker(&[command, &container]).await.map(drop) {
                // A busy engine fails now and then, `unable to freeze`, and may have done it all
                // the same.
                Err(error) if attempts > 0 && is_done(&error.to_string()) => return Ok(()),
                Err(_) if attempts < 5 => sleep(Duration::from_millis(200)).await,
                outcome => return outcome,
            }
            attempts += 1;
        }
    }

    async fn script(&self, name: &str, server: usize, more: &[&str]) -> Result<()> {
        script(name, &[&[self.service(server).as_str()], more].concat()).await.map(drop)
    }

    pub(crate) async fn strike(&self, deed: Deed, server: usize) -> Result<()> {
        match deed {
            Deed::Pause => self.docker("pause", server).await,
            Deed::Kill => self.docker("kill", server).await,
            Deed::Stop => self.docker("stop", server).await,
            Deed::Part => self.database()?.cut(server, true).await,
            Deed::Cut if self.database.is_some() => self.database()?.cut(server, false).await,
            Deed::Cut => self.script("cut", server, &[]).await,
            Deed::Wipe => self.database()?.wipe(server).await,
            Deed::Rewind => self.database()?.rewind(server).await,
            Deed::Loss => self.script("impair", server, &["loss"]).await,
            Deed::Slow => self.script("impair", server, &["slow"]).await,
            Deed::Hang => disk::hang(&container(&self.service(server)), self.log()?).await,
        }
    }

    pub(crate) async fn mend(&self, deed: Deed, server: usize) -> Result<()> {
        match deed {
            Deed::Pause => self.docker("unpause", server).await,
            Deed::Kill | Deed::Stop | Deed::Wipe | Deed::Rewind => {
                self.docker("start", server).await
            }
            Deed::Hang => disk::mend(&container(&self.service(server))).await,
            Deed::Part => self.database()?.heal(server).await,
            Deed::Cut if self.database.is_some() => self.database()?.heal(server).await,
            Deed::Cut | Deed::Loss | Deed::Slow => self.script("heal", server, &[]).await,
        }
    }

    /// The log of a server of a cluster.
    fn log(&self) -> Result<&'static str> {
        match self.store {
            Store::Etcd => Ok(disk::LOG_OF_ETCD),
            Store::ZooKeeper => Ok(disk::LOG_OF_ZOOKEEPER),
            _ => Err(format!("{} has no disk that can hang", self.store).into()),
        }
    }

    /// Has something happen to the database for so long.
    pub(crate) async fn trouble(
        &self,
        trouble: Trouble,
        namespace: &str,
        time: Duration,
    ) -> Result<()> {
        match trouble {
            Trouble::Failover => self.fail_over(time).await,
            _ => trouble::strike(self.database()?, trouble, namespace, time).await,
        }
    }

    /// Keeps the primary away until the others have elected another one, and for a while.
    async fn fail_over(&self, time: Duration) -> Result<()> {
        let old = self.find(Role::Leader).await?;
        let deeds = [Deed::Pause, Deed::Kill, Deed::Stop, Deed::Cut];
        let deed = deeds[fastrand::usize(..deeds.len())];
        self.strike(deed, old).await?;
        let database = self.database()?;
        let elected = async || match timeout(PATIENCE, database.elected()).await {
            Ok(Ok(one)) if one != old => Ok(()),
            _ => Err(format!("no other primary within {RECOVERY:?} of a {deed:?}").into()),
        };
        retried(RECOVERY, elected).await?;
        sleep(time.mul_f64(fastrand::f64())).await;
        self.mend(deed, old).await
    }

    /// A server in this role.
    pub(crate) async fn find(&self, role: Role) -> Result<usize> {
        let look = async || {
            let mut order: Vec<_> = (0..self.servers.len()).collect();
            fastrand::shuffle(&mut order);
            for server in order {
                if self.role(server).await == Some(role) {
                    return Ok(server);
                }
            }
            Err(format!("no {role:?} within {RECOVERY:?}").into())
        };
        retried(RECOVERY, look).await
    }

    async fn role(&self, server: usize) -> Option<Role> {
        let leads = match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[server]).await.ok()?;
                let status = timeout(PATIENCE, client.status()).await.ok()?.ok()?;
                status.leader() == status.header()?.member_id()
            }
            Store::ZooKeeper => {
                let answer = ask(self.servers[server], "srvr", PATIENCE).await.ok()?;
                match answer.lines().find_map(|line| line.strip_prefix("Mode: "))? {
                    "leader" | "standalone" => true,
                    "follower" => false,
                    _ => return None,
                }
            }
            _ => return self.database().ok()?.role(server),
        };
        Some(if leads { Role::Leader } else { Role::Follower })
    }

    /// Returns when a server serves as a member of the cluster.
    pub(crate) async fn recovered(&self, server: usize) -> Result<()> {
        retried(RECOVERY, async || self.serves(server).await).await.map_err(|reason| {
            let server = self.service(server);
            format!("{server} does not serve within {RECOVERY:?}: {reason}").into()
        })
    }

    /// An error that says why not, if it does not.
    async fn serves(&self, server: usize) -> Result<()> {
        match self.store {
            Store::Etcd => {
                // Linearizable: it has a leader.
                let mut client = self.etcd(&[server]).await?;
                timeout(PATIENCE, client.get("distlock", None)).await??;
            }
            Store::ZooKeeper => {
                self.role(server).await.ok_or("it has no part in the ensemble")?;
            }
            _ => {
                let database = self.database()?;
                if !database.setup().servers.is_empty() {
                    timeout(PATIENCE, database.serves(server)).await??;
                }
                // What is confirmed there is so by all.
                let asked = self.ask(&database.setup().words.nothing()).await;
                asked.map_err(|error| format!("the store: {error}"))?;
            }
        }
        Ok(())
    }

    pub(crate) async fn etcd(&self, servers: &[usize]) -> Result<Etcd> {
        let addresses: Vec<_> =
            servers.iter().map(|server| format!("http://{}", self.servers[*server])).collect();
        Ok(timeout(PATIENCE, Etcd::connect(addresses, None)).await??)
    }

    /// The operator's session; a new one if the former has come to its end.
    pub(crate) async fn zookeeper(&self) -> Result<ZooKeeper> {
        let mut session = self.session.lock().await;
        if let Some(client) = session.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let servers: Vec<_> = self.servers.iter().map(ToString::to_string).collect();
        let client = timeout(PATIENCE * 3, ZooKeeper::connect(&servers.join(","))).await??;
        Ok(session.insert(client).clone())
    }

    fn database(&self) -> Result<&dyn Database> {
        Ok(self.database.as_deref().ok_or_else(|| format!("{} is no database", self.store))?)
    }

    /// The words of the database.
    pub(crate) fn words(&self) -> Result<&'static dyn Words> {
        Ok(self.database()?.setup().words)
    }

    /// What a statement tells an operator of the database, where that is what was confirmed.
    pub(crate) async fn ask(&self, statement: &str) -> Result<Rows> {
        let database = self.database()?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let asking = async {
            let mut operator = match kept {
                Some(kept) => kept,
                None => database.reach().await?,
            };
            let told = match database.confirmed() {
                None => operator.ask(statement).await?,
                Some(confirmed) => {
                    let mut told = operator.ask(&format!("{statement}; {confirmed}")).await?;
                    told.pop();
                    told
                }
            };
            Result::Ok((told, operator))
        };
        let (told, operator) = timeout(PATIENCE, asking).await??;
        idle().push(operator);
        Ok(told)
    }

    /// The keys of the namespace. One that is missing may be there all the same, on another server;
    /// one that is listed was there.
    pub(crate) async fn keys(&self, namespace: &str) -> Result<Vec<String>> {
        Ok(self.places(namespace).await?.into_iter().map(|(key, _)| key).collect())
    }

    /// The keys, each with when it was created where it may be created again.
    pub(crate) async fn places(&self, namespace: &str) -> Result<Vec<(String, u64)>> {
        match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[0, 1, 2]).await?;
                let options = GetOptions::new().with_prefix().with_keys_only();
                let answer =
                    timeout(PATIENCE, client.get(format!("{namespace}/"), Some(options))).await??;
                let place = |kv: &KeyValue| {
                    let key = String::from_utf8_lossy(kv.key()).into_owned();
                    (key, kv.create_revision().unsigned_abs())
                };
                Ok(answer.kvs().iter().map(place).collect())
            }
            Store::ZooKeeper => {
                let client = self.zookeeper().await?;
                let mut keys = Vec::new();
                let locks = timeout(PATIENCE, client.list_children(namespace)).await?;
                for lock in absent_is_empty(locks)? {
                    let directory = format!("{namespace}/{lock}");
                    let children = timeout(PATIENCE, client.list_children(&directory)).await?;
                    let children = absent_is_empty(children)?.into_iter();
                    keys.extend(children.map(|child| (format!("{directory}/{child}"), 0)));
                }
                Ok(keys)
            }
            _ => {
                let place = |row: Vec<String>| match <[String; 2]>::try_from(row) {
                    Ok([key, number]) => Ok((key, number.parse()?)),
                    Err(row) => Err(format!("a strange row: {row:?}").into()),
                };
                self.ask(&self.words()?.places(namespace)).await?.into_iter().map(place).collect()
            }
        }
    }

    /// Deletes a key, whatever it is. It may not be there.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[0, 1, 2]).await?;
                timeout(PATIENCE, client.delete(key, None)).await??;
            }
            Store::ZooKeeper => {
                let client = self.zookeeper().await?;
                match timeout(PATIENCE, client.delete(key, None)).await? {
                    Ok(()) | Err(ZkError::NoNode) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            _ => {
                let words = self.words()?;
                let (dir, name) = parts(key);
                self.ask(&words.evict(key)).await?;
                self.ask(&words.erase(dir, name)).await?;
            }
        }
        Ok(())
    }

    /// What the store keeps for its clients: leases or sessions, and how many watches.
    pub(crate) async fn upkeep(&self) -> Result<(HashSet<String>, u64)> {
        let (mut sessions, mut watches) = (HashSet::new(), 0);
        match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[0, 1, 2]).await?;
                let leases = timeout(PATIENCE, client.leases()).await??;
                sessions
                    .extend(leases.leases().iter().map(|lease| format!("lease {:x}", lease.id())));
                for server in &self.servers {
                    let metrics = ask(*server, METRICS, PATIENCE).await?;
                    let gauge = metrics
                        .lines()
                        .find_map(|line| line.strip_prefix("etcd_debugging_mvcc_watcher_total "));
                    watches +=
                        gauge.ok_or("no gauge of the watches")?.trim().parse::<f64>()? as u64;
                }
            }
            Store::ZooKeeper => {
                let own = self.zookeeper().await?.session_id().0;
                for server in &self.servers {
                    // Every server lists all sessions that it knows of; the leader knows them all.
                    let dump = ask(*server, "dump", PATIENCE).await?;
                    let listed = dump.split("ephemeral nodes dump").next().unwrap_or_default();
                    let ids =
                        listed.split_whitespace().map(|word| word.trim_end_matches([',', ':']));
                    let ids = ids.filter(|id| id.starts_with("0x") && *id != format!("0x{own:x}"));
                    sessions.extend(ids.map(|id| format!("session {id}")));
                    let counted = ask(*server, "wchs", PATIENCE).await?;
                    let total =
                        counted.lines().find_map(|line| line.strip_prefix("Total watches:"));
                    watches += total.ok_or("no count of the watches")?.trim().parse::<u64>()?;
                }
            }
            _ => {
                let words = self.words()?;
                let ids = self.ask(&words.sessions()).await?;
                sessions.extend(ids.iter().map(|id| format!("session {}", id.concat())));
                if let Some(count) = words.watches() {
                    watches = self.ask(&count).await?.concat().concat().parse()?;
                }
            }
        }
        Ok((sessions, watches))
    }
}

fn absent_is_empty(listed: std::result::Result<Vec<String>, ZkError>) -> Result<Vec<String>> {
    match listed {
        Err(ZkError::NoNode) => Ok(Vec::new()),
        listed => Ok(listed?),
    }
}

/// Whether the engine says that a container is as it is wanted.
fn is_done(error: &str) -> bool {
    ["is already", "is not paused"].iter().any(|words| error.contains(words))
}
