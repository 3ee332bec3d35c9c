//! The servers: their containers, their roles, and an operator's view of the store.

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{Mutex as StdMutex, PoisonError},
    time::Duration,
};

use distlock_testkit::{
    Result, disk,
    docker::{container, control, docker, is_local, script},
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

/// The time limit of a reply.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// The time within which a server must serve again after a fault.
const RECOVERY: Duration = Duration::from_secs(90);

#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) store: Store,
    pub(crate) servers: Vec<SocketAddr>,
    /// The operator's session on ZooKeeper.
    session: Mutex<Option<ZooKeeper>>,
    database: Option<Box<dyn Database>>,
    /// Idle connections of operators.
    idle: StdMutex<Vec<Box<dyn Connection>>>,
}

impl Cluster {
    /// Connects to the cluster of docker/up, or starts a database for this run, which is removed on
    /// drop.
    pub(crate) async fn connect(store: impl Into<Store>) -> Result<Self> {
        let store = store.into();
        match store.clustered() {
            Some(backend) => Self::of(store, resolve(&backend.url()).await?, None).await,
            None => {
                let database = database::open(store).await?;
                Self::of(store, database.doors(), Some(database)).await
            }
        }
    }

    /// Connects to servers that already run.
    pub(crate) async fn join(store: Store, servers: &[SocketAddr]) -> Result<Self> {
        if store.clustered().is_some() {
            return Self::of(store, servers.to_vec(), None).await;
        }
        let database = database::given(store, servers)?;
        Self::of(store, database.doors(), Some(database)).await
    }

    async fn of(
        store: Store,
        servers: Vec<SocketAddr>,
        database: Option<Box<dyn Database>>,
    ) -> Result<Self> {
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

    /// Starts a worker's own proxies of all servers. Each worker number has another server first.
    pub(crate) async fn proxies(&self, number: usize) -> Result<Proxies> {
        if let Some(backend) = self.store.clustered() {
            return Ok(Proxies::start(backend, &self.servers).await);
        }
        let database = self.database()?;
        let Setup { around, framing, .. } = database.setup();
        if self.store.elects() {
            // Clients get the servers' addresses.
            return Ok(Proxies::between([&self.url(), ""], *framing, &[]).await);
        }
        let mut servers = self.servers.clone();
        let first = number % servers.len().max(1);
        servers.rotate_left(first);
        Ok(Proxies::between(around.each_ref().map(String::as_str), *framing, &servers).await)
    }

    /// Returns bytes that identify packets with an event for clients.
    pub(crate) fn event_of(&self, namespace: &str) -> Vec<u8> {
        let event = self.database.as_ref().and_then(|database| database.setup().words.event());
        event.unwrap_or(namespace.as_bytes()).to_vec()
    }

    /// Returns a server's name in docker/'s scripts, or in a history.
    pub(crate) fn service(&self, server: usize) -> String {
        match self.store.clustered() {
            Some(backend) => backend.services()[server].to_owned(),
            None if self.servers.len() > 1 => format!("{}{}", self.store, server + 1),
            None => self.store.to_string(),
        }
    }

    async fn docker(&self, command: &str, server: usize) -> Result<()> {
        let container = match &self.database {
            None if is_local() => return control(command, &self.service(server)).await,
            None => container(&self.service(server)),
            Some(database) => database.setup().servers[server].container.clone(),
        };
        let mut attempts = 0;
        loop {
            match docker(&[command, &container]).await.map(drop) {
                // A busy engine occasionally fails with `unable to freeze`, and may have done it
                // nevertheless.
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

    /// Returns the path of the log of a cluster's server.
    fn log(&self) -> Result<&'static str> {
        match self.store {
            Store::Etcd => Ok(disk::LOG_OF_ETCD),
            Store::ZooKeeper => Ok(disk::LOG_OF_ZOOKEEPER),
            _ => Err(format!("{} has no disk that can hang", self.store).into()),
        }
    }

    /// Makes trouble for the database for `time`.
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

    /// Takes the primary down until the others have elected another one, and for a while longer.
    async fn fail_over(&self, time: Duration) -> Result<()> {
        let old = self.find(Role::Leader).await?;
        let deeds = [Deed::Pause, Deed::Kill, Deed::Stop, Deed::Cut];
        let deed = deeds[fastrand::usize(..deeds.len())];
        self.strike(deed, old).await?;
        let database = self.database()?;
        let elected = async || match timeout(TIME_LIMIT, database.elected()).await {
            Ok(Ok(one)) if one != old => Ok(()),
            _ => Err(format!("no other primary within {RECOVERY:?} of a {deed:?}").into()),
        };
        retried(RECOVERY, elected).await?;
        sleep(time.mul_f64(fastrand::f64())).await;
        self.mend(deed, old).await
    }

    /// Returns a server in this role.
    pub(crate) async fn find(&self, role: Role) -> Result<usize> {
        let attempt = async || {
            let mut order: Vec<_> = (0..self.servers.len()).collect();
            fastrand::shuffle(&mut order);
            for server in order {
                if self.role(server).await == Some(role) {
                    return Ok(server);
                }
            }
            Err(format!("no {role:?} within {RECOVERY:?}").into())
        };
        retried(RECOVERY, attempt).await
    }

    async fn role(&self, server: usize) -> Option<Role> {
        let leads = match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[server]).await.ok()?;
                let status = timeout(TIME_LIMIT, client.status()).await.ok()?.ok()?;
                status.leader() == status.header()?.member_id()
            }
            Store::ZooKeeper => {
                let answer = ask(self.servers[server], "srvr", TIME_LIMIT).await.ok()?;
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

    /// Waits until a server serves as a member of the cluster.
    pub(crate) async fn recovered(&self, server: usize) -> Result<()> {
        retried(RECOVERY, async || self.serves(server).await).await.map_err(|reason| {
            let server = self.service(server);
            format!("{server} does not serve within {RECOVERY:?}: {reason}").into()
        })
    }

    /// Fails, with the reason, unless the server serves.
    async fn serves(&self, server: usize) -> Result<()> {
        match self.store {
            Store::Etcd => {
                // A linearizable read needs a leader.
                let mut client = self.etcd(&[server]).await?;
                timeout(TIME_LIMIT, client.get("distlock", None)).await??;
            }
            Store::ZooKeeper => {
                self.role(server).await.ok_or("the server is not part of the ensemble")?;
            }
            _ => {
                let database = self.database()?;
                if !database.setup().servers.is_empty() {
                    timeout(TIME_LIMIT, database.serves(server)).await??;
                }
                // The read is confirmed by all servers.
                let reply = self.ask(&database.setup().words.nothing()).await;
                reply.map_err(|error| format!("the store: {error}"))?;
            }
        }
        Ok(())
    }

    pub(crate) async fn etcd(&self, servers: &[usize]) -> Result<Etcd> {
        let addresses: Vec<_> =
            servers.iter().map(|server| format!("http://{}", self.servers[*server])).collect();
        Ok(timeout(TIME_LIMIT, Etcd::connect(addresses, None)).await??)
    }

    /// Returns the operator's session, or a new one if it has ended.
    pub(crate) async fn zookeeper(&self) -> Result<ZooKeeper> {
        let mut session = self.session.lock().await;
        if let Some(client) = session.as_ref().filter(|client| !client.state().is_terminated()) {
            return Ok(client.clone());
        }
        let servers: Vec<_> = self.servers.iter().map(ToString::to_string).collect();
        let client = timeout(TIME_LIMIT * 3, ZooKeeper::connect(&servers.join(","))).await??;
        Ok(session.insert(client).clone())
    }

    fn database(&self) -> Result<&dyn Database> {
        Ok(self.database.as_deref().ok_or_else(|| format!("{} is no database", self.store))?)
    }

    /// Returns the statements for the database.
    pub(crate) fn words(&self) -> Result<&'static dyn Words> {
        Ok(self.database()?.setup().words)
    }

    /// Runs an operator's statement, and returns its rows. The rows are confirmed if the database
    /// requires that.
    pub(crate) async fn ask(&self, statement: &str) -> Result<Rows> {
        let database = self.database()?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let idle_one = idle().pop();
        let running = async {
            let mut operator = match idle_one {
                Some(idle_one) => idle_one,
                None => database.reach().await?,
            };
            let rows = match database.confirmed() {
                None => operator.ask(statement).await?,
                Some(confirmed) => {
                    let mut rows = operator.ask(&format!("{statement}; {confirmed}")).await?;
                    rows.pop();
                    rows
                }
            };
            Result::Ok((rows, operator))
        };
        let (rows, operator) = timeout(TIME_LIMIT, running).await??;
        idle().push(operator);
        Ok(rows)
    }

    /// Returns the keys of the namespace. A missing key may exist on another server. A listed key
    /// existed.
    pub(crate) async fn keys(&self, namespace: &str) -> Result<Vec<String>> {
        Ok(self.places(namespace).await?.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the keys, each with its creation time where keys recur.
    pub(crate) async fn places(&self, namespace: &str) -> Result<Vec<(String, u64)>> {
        match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[0, 1, 2]).await?;
                let options = GetOptions::new().with_prefix().with_keys_only();
                let answer =
                    timeout(TIME_LIMIT, client.get(format!("{namespace}/"), Some(options)))
                        .await??;
                let place = |kv: &KeyValue| {
                    let key = String::from_utf8_lossy(kv.key()).into_owned();
                    (key, kv.create_revision().unsigned_abs())
                };
                Ok(answer.kvs().iter().map(place).collect())
            }
            Store::ZooKeeper => {
                let client = self.zookeeper().await?;
                let mut keys = Vec::new();
                let locks = timeout(TIME_LIMIT, client.list_children(namespace)).await?;
                for lock in absent_is_empty(locks)? {
                    let directory = format!("{namespace}/{lock}");
                    let children = timeout(TIME_LIMIT, client.list_children(&directory)).await?;
                    let children = absent_is_empty(children)?.into_iter();
                    keys.extend(children.map(|child| (format!("{directory}/{child}"), 0)));
                }
                Ok(keys)
            }
            _ => {
                let place = |row: Vec<String>| match <[String; 2]>::try_from(row) {
                    Ok([key, number]) => Ok((key, number.parse()?)),
                    Err(row) => Err(format!("unexpected row: {row:?}").into()),
                };
                self.ask(&self.words()?.places(namespace)).await?.into_iter().map(place).collect()
            }
        }
    }

    /// Deletes a key of any kind. It may be absent.
    pub(crate) async fn delete(&self, key: &str) -> Result<()> {
        match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[0, 1, 2]).await?;
                timeout(TIME_LIMIT, client.delete(key, None)).await??;
            }
            Store::ZooKeeper => {
                let client = self.zookeeper().await?;
                match timeout(TIME_LIMIT, client.delete(key, None)).await? {
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

    /// Returns what the store keeps for its clients: leases or sessions, and the number of watches.
    pub(crate) async fn upkeep(&self) -> Result<(HashSet<String>, u64)> {
        let (mut sessions, mut watches) = (HashSet::new(), 0);
        match self.store {
            Store::Etcd => {
                let mut client = self.etcd(&[0, 1, 2]).await?;
                let leases = timeout(TIME_LIMIT, client.leases()).await??;
                sessions
                    .extend(leases.leases().iter().map(|lease| format!("lease {:x}", lease.id())));
                for server in &self.servers {
                    let metrics = ask(*server, METRICS, TIME_LIMIT).await?;
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
                    // Each server lists the sessions that it knows, and the leader knows all.
                    let dump = ask(*server, "dump", TIME_LIMIT).await?;
                    let listed = dump.split("ephemeral nodes dump").next().unwrap_or_default();
                    let ids =
                        listed.split_whitespace().map(|word| word.trim_end_matches([',', ':']));
                    let ids = ids.filter(|id| id.starts_with("0x") && *id != format!("0x{own:x}"));
                    sessions.extend(ids.map(|id| format!("session {id}")));
                    let counted = ask(*server, "wchs", TIME_LIMIT).await?;
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

/// Returns `true` if the engine reports that the container is already in the wanted state.
fn is_done(error: &str) -> bool {
    ["is already", "is not paused"].iter().any(|words| error.contains(words))
}
