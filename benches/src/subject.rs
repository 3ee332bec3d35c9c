//! The subjects, connected to a store, each with one client.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use etcd_client::LockOptions;
use redis::aio::MultiplexedConnection;
use tokio::{
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::timeout,
};
use zookeeper_client::{Acls, CreateMode};

use crate::{
    Result,
    backend::Backend,
    contender::{Contender, write},
    poller::Poller,
    primitive::Ours,
    recipe::Recipe,
    sql::Connection,
    statements::JOINER,
    task::{NAME, Primitive, Subject, Task, Work},
    tries::{self, Tries},
};

/// Longer than any measurement, as these leases are not kept alive.
const LEASE: i64 = 300;
/// Of a ZooKeeper session other than ours.
const SESSION: Duration = Duration::from_secs(20);
/// The default of the library.
pub(crate) const TTL: Duration = Duration::from_secs(10);

/// How many requests of the preparations, or closings, are under way at once.
const AT_ONCE: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Connected {
    task: Task,
    client: Client,
    /// Leases to revoke at the end.
    leases: Arc<Mutex<Vec<i64>>>,
    counter: Arc<AtomicU64>,
}

#[derive(Clone)]
enum Client {
    EtcdFloor(etcd_client::Client, i64),
    EtcdPeer(etcd_client::Client),
    ZooKeeperFloor(zookeeper_client::Client),
    ZooKeeperPeer(zookeeper_client::Client),
    SqlFloor(Connection),
    RedisFloor(Vec<MultiplexedConnection>),
    /// Each contender has a connection of its own.
    Recipes,
    Distlock(distlock::Client),
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Connected {
    pub(crate) async fn open(task: &Task) -> Result<Self> {
        let leases: Arc<Mutex<Vec<i64>>> = Arc::default();
        let addresses = task.servers.join(",");
        let client = match (task.backend, task.subject) {
            (_, Subject::Distlock) => Client::Distlock(ours(task).await?),
            (_, subject) if subject.program().is_some() => {
                return Err("another program measures this one".into());
            }
            (Backend::Etcd, subject) => {
                // One connection, as the others have.
                let address = task.servers.first().ok_or("no server")?;
                let mut client = etcd_client::Client::connect([address], None).await?;
                if subject == Subject::Floor {
                    let lease = client.lease_grant(LEASE, None).await?.id();
                    leases.lock().await.push(lease);
                    Client::EtcdFloor(client, lease)
                } else {
                    Client::EtcdPeer(client)
                }
            }
            (Backend::ZooKeeper, subject) => {
                let client = zookeeper_client::Client::connector()
                    .with_session_timeout(SESSION)
                    .connect(&addresses)
                    .await?;
                if subject == Subject::Floor {
                    Client::ZooKeeperFloor(client)
                } else {
                    Client::ZooKeeperPeer(client)
                }
            }
            (Backend::Redis | Backend::Redlock, Subject::Floor) => {
                Client::RedisFloor(tries::connect_all(&task.servers, None).await?)
            }
            (backend, Subject::Floor) => {
                Client::SqlFloor(Connection::open(backend, &task.servers).await?)
            }
            _ => Client::Recipes,
        };
        Ok(Self { task: task.clone(), client, leases, counter: Arc::default() })
    }

    /// So many contenders, for one name or for one name each.
    pub(crate) async fn contenders(&self, count: usize, one_name: bool) -> Result<Vec<Contender>> {
        let (mut contenders, mut batons) = (Vec::new(), Vec::new());
        for index in 0..if one_name { count.min(1) } else { count } {
            batons.push(Arc::new(Semaphore::new(1)));
            if let Client::ZooKeeperFloor(client) | Client::ZooKeeperPeer(client) = &self.client {
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
            let counter = Arc::clone(&self.counter);
            contenders.push(match &self.client {
                Client::EtcdFloor(client, lease) => Contender::EtcdFloor {
                    client: Box::new(client.kv_client()),
                    lease: *lease,
                    directory,
                    counter,
                    baton,
                },
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
                Client::ZooKeeperFloor(client) => Contender::ZooKeeperFloor {
                    client: Box::new(client.clone()),
                    prefix: format!("{directory}/lock-"),
                    baton,
                },
                Client::ZooKeeperPeer(client) => {
                    Contender::ZooKeeperPeer { client: Box::new(client.clone()), directory }
                }
                Client::SqlFloor(connection) => Contender::SqlFloor {
                    connection: connection.clone(),
                    directory,
                    counter,
                    baton,
                },
                Client::RedisFloor(connections) => Contender::RedisFloor {
                    connections: connections.clone(),
                    directory,
                    counter,
                    baton,
                },
                Client::Recipes if !self.task.backend.is_sql() => {
                    let Task { subject, servers, .. } = &self.task;
                    Contender::Tries(Box::new(Tries::open(*subject, servers, directory).await?))
                }
                Client::Recipes => {
                    let connection = connections.next().ok_or("no connection")?;
                    let Task { backend, subject, .. } = self.task;
                    let recipe = Recipe::new(backend, subject, connection, directory)?;
                    Contender::Recipe(Box::new(recipe))
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

    /// Leases for the Lock RPC, which knows a contender by its lease.
    async fn grant(&self, count: usize) -> Result<Vec<i64>> {
        let Client::EtcdPeer(client) = &self.client else { return Ok(Vec::new()) };
        let mut granting = JoinSet::new();
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        for _ in 0..count {
            let (mut client, slots) = (client.lease_client(), Arc::clone(&slots));
            granting.spawn(async move {
                let _slot = slots.acquire_owned().await;
                client.grant(LEASE, None).await.map(|granted| granted.id())
            });
        }
        let mut leases = Vec::new();
        while let Some(granted) = granting.join_next().await {
            leases.push(granted??);
        }
        self.leases.lock().await.extend(&leases);
        Ok(leases)
    }

    /// For the recipes, whose contenders have a connection each.
    async fn connect(&self, count: usize) -> Result<Vec<Connection>> {
        let mut connections = Vec::new();
        if let (Client::Recipes, true) = (&self.client, self.task.backend.is_sql()) {
            for _ in 0..count {
                connections.push(Connection::open(self.task.backend, &self.task.servers).await?);
            }
        }
        Ok(connections)
    }

    pub(crate) async fn close(self) -> Result<()> {
        match self.client {
            Client::EtcdFloor(client, _) | Client::EtcdPeer(client) => {
                let mut revoking = JoinSet::new();
                let slots = Arc::new(Semaphore::new(AT_ONCE));
                for lease in self.leases.lock().await.drain(..) {
                    let (mut client, slots) = (client.lease_client(), Arc::clone(&slots));
                    revoking.spawn(async move {
                        let _slot = slots.acquire_owned().await;
                        client.revoke(lease).await
                    });
                }
                while revoking.join_next().await.is_some() {}
            }
            Client::ZooKeeperFloor(client) | Client::ZooKeeperPeer(client) => {
                // Answered after all that was sent before, so that background deletions are done.
                client.check_stat("/").await?;
                let mut states = client.state_watcher();
                drop(client);
                // The session ends now, and not in the midst of later measurements.
                while !timeout(SESSION, states.changed()).await?.is_terminated() {}
            }
            // Their connections end with their owners.
            Client::SqlFloor(_) | Client::RedisFloor(_) | Client::Recipes => {}
            Client::Distlock(client) => client.close().await?,
        }
        Ok(())
    }
}

/// Some of them at once.
pub(crate) async fn close(all: Vec<Connected>) -> Result<()> {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut closing = JoinSet::new();
    for connected in all {
        let slots = Arc::clone(&slots);
        closing.spawn(async move {
            let _slot = slots.acquire_owned().await?;
            connected.close().await
        });
    }
    while let Some(closed) = closing.join_next().await {
        closed??;
    }
    Ok(())
}

/// Times single writes through a connection of their own.
pub(crate) async fn raw_writes(task: &Task, count: usize) -> Result<Vec<u64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let namespace = format!("{}-raw-{:08x}", task.namespace, fastrand::u32(..));
    let connected =
        Connected::open(&Task { subject: Subject::Floor, namespace, ..task.clone() }).await?;
    let mut contender = connected.contenders(1, true).await?.pop().ok_or("no contender")?;
    let mut times = Vec::new();
    for index in 0..count + 2 {
        let time = write(&mut contender).await?;
        // The first ones open what there is to open.
        if index >= 2 {
            times.push(time);
        }
    }
    drop(contender);
    connected.close().await?;
    Ok(times)
}

async fn ours(task: &Task) -> Result<distlock::Client> {
    let user = if let Work::Join { .. } = task.work { JOINER } else { task.backend.owner() };
    let url = task.backend.url_as(user, &task.servers);
    let builder = distlock::Client::builder(&url).namespace(&task.namespace).session_ttl(TTL);
    Ok(builder.connect().await?)
}

fn name(place: usize) -> String {
    if place == 0 { NAME.to_owned() } else { format!("{NAME}-{place}") }
}
