//! The subjects, connected to a store, each with one client.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use etcd_client::{LeaseClient, LockOptions};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::aio::MultiplexedConnection;
use tokio::{
    sync::{Mutex, Semaphore},
    time::timeout,
};
use zookeeper_client::{Acls, CreateMode};

use crate::{
    Result,
    backend::{Backend, owner, url_as},
    contender::Contender,
    floor::{Floor, Store},
    poller::Poller,
    primitive::Ours,
    recipe::Recipe,
    scripts::Scripts,
    sql::Connection,
    statements::JOINER,
    task::{NAME, Primitive, Subject, Task, Work},
    tries::{self, Tries},
};

/// Longer than any measurement, because these leases are not renewed.
const LEASE: i64 = 300;
/// The TTL of ZooKeeper sessions other than distlock's.
const SESSION: Duration = Duration::from_secs(20);
/// The library's default.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// How many preparing or closing requests are under way at once.
const AT_ONCE: usize = 64;

#[derive(Clone)]
pub(crate) struct Connected {
    task: Task,
    client: Client,
    /// Leases to revoke at the end.
    leases: Arc<Mutex<Vec<(LeaseClient, i64)>>>,
    counter: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Client {
    Floor(Store),
    EtcdPeer(Box<etcd_client::Client>),
    ZooKeeperPeer(zookeeper_client::Client),
    /// Each contender has its own connection.
    Recipes,
    Scripts(distlock::Client, MultiplexedConnection),
    Distlock(distlock::Client),
}

impl Connected {
    pub(crate) async fn open(task: &Task) -> Result<Self> {
        let leases = Arc::<Mutex<Vec<_>>>::default();
        let addresses = task.servers.join(",");
        let client = match (task.backend, task.subject) {
            (_, Subject::Distlock) => Client::Distlock(ours(task).await?),
            (_, Subject::Scripts) => {
                let server = task.servers.first().ok_or("no server")?;
                Client::Scripts(ours(task).await?, tries::connect(server).await?)
            }
            (_, subject) if subject.program().is_some() => {
                return Err("another program measures this one".into());
            }
            (Backend::Etcd, subject) => {
                // One connection, as the others have.
                let address = task.servers.first().ok_or("no server")?;
                let mut client = etcd_client::Client::connect([address], None).await?;
                if subject == Subject::Floor {
                    let lease = client.lease_grant(LEASE, None).await?.id();
                    leases.lock().await.push((client.lease_client(), lease));
                    Client::Floor(Store::Etcd(Box::new(client.kv_client()), lease))
                } else {
                    Client::EtcdPeer(Box::new(client))
                }
            }
            (Backend::ZooKeeper, subject) => {
                let client = zookeeper_client::Client::connector()
                    .with_session_timeout(SESSION)
                    .connect(&addresses)
                    .await?;
                if subject == Subject::Floor {
                    Client::Floor(Store::ZooKeeper(client))
                } else {
                    Client::ZooKeeperPeer(client)
                }
            }
            (Backend::Redis | Backend::Redlock, Subject::Floor) => {
                Client::Floor(Store::Redis(tries::connect_all(&task.servers, None).await?))
            }
            (backend, Subject::Floor) => {
                Client::Floor(Store::Sql(Connection::open(backend, &task.servers).await?))
            }
            _ => Client::Recipes,
        };
        Ok(Self { task: task.clone(), client, leases, counter: Arc::default() })
    }

    /// Returns a number of contenders, for one name or for one name each.
    pub(crate) async fn contenders(&self, count: usize, one_name: bool) -> Result<Vec<Contender>> {
        let (mut contenders, mut batons) = (Vec::new(), Vec::new());
        for index in 0..if one_name { count.min(1) } else { count } {
            batons.push(Arc::new(Semaphore::new(1)));
            if let Client::Floor(Store::ZooKeeper(client)) | Client::ZooKeeperPeer(client) =
                &self.client
            {
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                let directory = format!("{}/{}", self.task.namespace, name(index));
                client.mkdir(&directory, &options).await?;
            }
        }
        let mut leases = self.grant(count).await?.into_iter();
        let mut connections = self.connect(count).await?.into_iter();
        for index in 0..count {
            let place = if one_name { 0 } else { index };
            let directory = format!("{}/{}", self.task.namespace, name(place));
            let baton = Arc::clone(&batons[place]);
            contenders.push(match &self.client {
                Client::Floor(store) => {
                    let (store, counter) = (store.clone(), Arc::clone(&self.counter));
                    Contender::Floor(Box::new(Floor { store, directory, counter, baton }))
                }
                Client::EtcdPeer(client) if let Some(pause) = self.task.subject.pause() => {
                    let lease = leases.next().ok_or("no lease")?;
                    let poller = Poller::etcd(client.kv_client(), lease, directory, pause);
                    Contender::Poller(Box::new(poller))
                }
                Client::ZooKeeperPeer(client) if let Some(pause) = self.task.subject.pause() => {
                    let poller = Poller::zookeeper(client.clone(), &directory, pause);
                    Contender::Poller(Box::new(poller))
                }
                Client::EtcdPeer(client) => {
                    let options = LockOptions::new().with_lease(leases.next().ok_or("no lease")?);
                    Contender::EtcdPeer {
                        client: Box::new(client.lock_client()),
                        options,
                        directory,
                    }
                }
                Client::ZooKeeperPeer(client) => {
                    Contender::ZooKeeperPeer { client: Box::new(client.clone()), directory }
                }
                Client::Recipes if !self.task.backend.is_relational() => {
                    let Task { subject, servers, .. } = &self.task;
                    Contender::Tries(Box::new(Tries::open(*subject, servers, directory).await?))
                }
                Client::Recipes => {
                    let connection = connections.next().ok_or("no connection")?;
                    let Task { backend, subject, .. } = self.task;
                    let recipe = Recipe::new(backend, subject, connection, directory)?;
                    Contender::Recipe(Box::new(recipe))
                }
                Client::Scripts(client, connection) => {
                    let server = self.task.servers.first().ok_or("no server")?;
                    let (name, connection) = (name(place), connection.clone());
                    let scripts = Scripts::record(client, &name, server, connection).await?;
                    Contender::Scripts(Box::new(scripts))
                }
                Client::Distlock(client) => match Ours::new(client, self.primitive(), &name(place))
                {
                    Some(ours) => Contender::Ours(Box::new(ours)),
                    None => Contender::Distlock(client.mutex(name(place))),
                },
            });
        }
        Ok(contenders)
    }

    fn primitive(&self) -> Primitive {
        match &self.task.work {
            Work::Pairs(pairs) => pairs.primitive,
            _ => Primitive::Mutex,
        }
    }

    /// Leases for the Lock RPC, which identifies a contender by its lease.
    async fn grant(&self, count: usize) -> Result<Vec<i64>> {
        let Client::EtcdPeer(client) = &self.client else { return Ok(Vec::new()) };
        let granting = (0..count).map(|_| {
            let mut client = client.lease_client();
            async move { client.grant(LEASE, None).await.map(|granted| granted.id()) }
        });
        let granting = stream::iter(granting).buffer_unordered(AT_ONCE);
        let leases: Vec<_> = granting.try_collect().await?;
        let owned = leases.iter().map(|lease| (client.lease_client(), *lease));
        self.leases.lock().await.extend(owned);
        Ok(leases)
    }

    /// For the recipes, whose contenders have a connection each.
    async fn connect(&self, count: usize) -> Result<Vec<Connection>> {
        let mut connections = Vec::new();
        if let (Client::Recipes, true) = (&self.client, self.task.backend.is_relational()) {
            for _ in 0..count {
                connections.push(Connection::open(self.task.backend, &self.task.servers).await?);
            }
        }
        Ok(connections)
    }

    pub(crate) async fn close(self) -> Result<()> {
        let leases = std::mem::take(&mut *self.leases.lock().await);
        let revoking =
            leases.into_iter().map(|(mut client, lease)| async move { client.revoke(lease).await });
        stream::iter(revoking).buffer_unordered(AT_ONCE).for_each(|_| async {}).await;
        match self.client {
            Client::Floor(Store::ZooKeeper(client)) | Client::ZooKeeperPeer(client) => {
                // Answered after all earlier requests, so that background deletions are done.
                client.check_stat("/").await?;
                let mut states = client.state_watcher();
                drop(client);
                // The session must end now, not during later measurements.
                while !timeout(SESSION, states.changed()).await?.is_terminated() {}
            }
            // Their connections end with their owners.
            Client::Floor(_) | Client::EtcdPeer(_) | Client::Recipes => {}
            Client::Scripts(client, _) | Client::Distlock(client) => client.close().await?,
        }
        Ok(())
    }
}

/// Closes several at once.
pub(crate) async fn close(all: Vec<Connected>) -> Result<()> {
    let closing = all.into_iter().map(Connected::close);
    stream::iter(closing).buffer_unordered(AT_ONCE).try_collect().await
}

/// Times single writes on a separate connection.
pub(crate) async fn raw_writes(task: &Task, count: usize) -> Result<Vec<u64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let namespace = format!("{}-raw-{:08x}", task.namespace, fastrand::u32(..));
    let connected =
        Connected::open(&Task { subject: Subject::Floor, namespace, ..task.clone() }).await?;
    let contender = connected.contenders(1, true).await?.pop();
    let Some(Contender::Floor(mut floor)) = contender else { return Err("no floor".into()) };
    let mut times = Vec::new();
    for index in 0..count + 2 {
        let time = floor.time().await?;
        // The first ones establish connections.
        if index >= 2 {
            times.push(time);
        }
    }
    drop(floor);
    connected.close().await?;
    Ok(times)
}

async fn ours(task: &Task) -> Result<distlock::Client> {
    let user = if let Work::Join { .. } = task.work { JOINER } else { owner(task.backend) };
    let url = url_as(task.backend, user, &task.servers);
    let builder = distlock::Client::builder(&url).namespace(&task.namespace).session_ttl(TTL);
    Ok(builder.connect().await?)
}

fn name(place: usize) -> String {
    if place == 0 { NAME.to_owned() } else { format!("{NAME}-{place}") }
}
