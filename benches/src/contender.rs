//! One task's lock, whosever it is.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use distlock::{LockGuard, Mutex};
use distlock_testkit::clock::now;
use etcd_client::{KvClient, LockClient, LockOptions, PutOptions, Txn, TxnOp};
use redis::aio::MultiplexedConnection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zookeeper_client::{Acls, CreateMode, LockPrefix, OwnedLockClient};

use crate::{
    Result,
    poller::Poller,
    primitive::{Ours, Turn},
    recipe::Recipe,
    sql::{Connection, Done},
    tries::{Tries, on_most},
};

/// The floors write as a lock would, and pass a baton within the process: so joining overlaps with
/// the turns of others, and nobody's turn begins before the last deletion is answered. Their
/// clients are in boxes, so that a waiter of one kind is not as large as one of the largest kind.
pub(crate) enum Contender {
    EtcdFloor {
        client: Box<KvClient>,
        lease: i64,
        directory: String,
        counter: Arc<AtomicU64>,
        baton: Arc<Semaphore>,
    },
    EtcdPeer {
        client: Box<LockClient>,
        options: LockOptions,
        directory: String,
    },
    ZooKeeperFloor {
        client: Box<zookeeper_client::Client>,
        prefix: String,
        baton: Arc<Semaphore>,
    },
    ZooKeeperPeer {
        client: Box<zookeeper_client::Client>,
        directory: String,
    },
    SqlFloor {
        connection: Connection,
        directory: String,
        counter: Arc<AtomicU64>,
        baton: Arc<Semaphore>,
    },
    RedisFloor {
        /// To each of the servers.
        connections: Vec<MultiplexedConnection>,
        directory: String,
        counter: Arc<AtomicU64>,
        baton: Arc<Semaphore>,
    },
    Poller(Box<Poller>),
    Recipe(Box<Recipe>),
    Tries(Box<Tries>),
    Distlock(Mutex),
    Ours(Box<Ours>),
}

/// The contender's turn.
pub(crate) enum Held {
    Floor { key: String, baton: OwnedSemaphorePermit },
    EtcdPeer(Vec<u8>),
    ZooKeeperPeer(Box<OwnedLockClient>),
    Poller,
    Recipe,
    Tries,
    Distlock(Box<LockGuard>),
    Ours(Box<Turn>),
}

impl Contender {
    pub(crate) async fn lock(&mut self) -> Result<Held> {
        // In boxes for the same reason.
        match self {
            Self::EtcdFloor { baton, .. }
            | Self::ZooKeeperFloor { baton, .. }
            | Self::SqlFloor { baton, .. }
            | Self::RedisFloor { baton, .. } => {
                let baton = Arc::clone(baton);
                let key = Box::pin(self.join()).await?;
                Ok(Held::Floor { key, baton: baton.acquire_owned().await? })
            }
            Self::EtcdPeer { client, options, directory } => {
                let locked =
                    Box::pin(client.lock(directory.as_str(), Some(options.clone()))).await?;
                Ok(Held::EtcdPeer(locked.key().to_vec()))
            }
            Self::ZooKeeperPeer { client, directory } => {
                let prefix = LockPrefix::new_curator(directory, "lock-")?;
                let locked = Box::pin(client.lock(prefix, b"", Acls::anyone_all())).await?;
                Ok(Held::ZooKeeperPeer(Box::new(locked.into_owned())))
            }
            Self::Poller(poller) => {
                Box::pin(poller.lock()).await?;
                Ok(Held::Poller)
            }
            Self::Recipe(recipe) => {
                Box::pin(recipe.lock()).await?;
                Ok(Held::Recipe)
            }
            Self::Tries(tries) => {
                Box::pin(tries.lock()).await?;
                Ok(Held::Tries)
            }
            Self::Distlock(mutex) => Ok(Held::Distlock(Box::new(Box::pin(mutex.lock()).await?))),
            Self::Ours(ours) => Ok(Held::Ours(Box::new(Box::pin(ours.lock()).await?))),
        }
    }

    /// The floor's first write.
    async fn join(&mut self) -> Result<String> {
        match self {
            Self::EtcdFloor { client, lease, directory, counter, .. } => {
                let key = format!("{directory}/{:032x}", next(counter));
                let put = TxnOp::put(key.as_str(), "", Some(PutOptions::new().with_lease(*lease)));
                client.txn(Txn::new().and_then([put])).await?;
                Ok(key)
            }
            Self::ZooKeeperFloor { client, prefix, .. } => {
                let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
                let (_, sequence) = client.create(prefix, b"", &options).await?;
                Ok(format!("{prefix}{sequence}"))
            }
            Self::SqlFloor { connection, directory, counter, .. } => {
                let key = format!("{directory}/{:032x}", next(counter));
                let insert = format!("INSERT INTO bench_floor (id) VALUES ('{key}')");
                match connection.write(insert).await? {
                    Done::Rows(1) => Ok(key),
                    _ => Err("the floor's row was not written".into()),
                }
            }
            Self::RedisFloor { connections, directory, counter, .. } => {
                let key = format!("{directory}/{:032x}", next(counter));
                let mut set = redis::cmd("SET");
                set.arg(&key).arg("");
                on_most(connections, &set).await?;
                Ok(key)
            }
            _ => Err("this is no floor".into()),
        }
    }

    pub(crate) async fn unlock(&mut self, held: Held) -> Result<()> {
        match (self, held) {
            (Self::EtcdFloor { client, .. }, Held::Floor { key, baton }) => {
                Box::pin(client.delete(key, None)).await?;
                drop(baton);
            }
            (Self::ZooKeeperFloor { client, .. }, Held::Floor { key, baton }) => {
                client.delete(&key, None).await?;
                drop(baton);
            }
            (Self::SqlFloor { connection, .. }, Held::Floor { key, baton }) => {
                let delete = format!("DELETE FROM bench_floor WHERE id = '{key}'");
                if Box::pin(connection.write(delete)).await? != Done::Rows(1) {
                    return Err("the floor's row was not deleted".into());
                }
                drop(baton);
            }
            (Self::RedisFloor { connections, .. }, Held::Floor { key, baton }) => {
                // And not `DEL`, which others' scripts call, and which is counted with that.
                let mut unlink = redis::cmd("UNLINK");
                unlink.arg(key);
                Box::pin(on_most(connections, &unlink)).await?;
                drop(baton);
            }
            (Self::Tries(tries), Held::Tries) => Box::pin(tries.unlock()).await?,
            (Self::Poller(poller), Held::Poller) => Box::pin(poller.unlock()).await?,
            (Self::Recipe(recipe), Held::Recipe) => Box::pin(recipe.unlock()).await?,
            (Self::EtcdPeer { client, .. }, Held::EtcdPeer(key)) => {
                Box::pin(client.unlock(key)).await?;
            }
            // Deletes it in the background: there is nothing to wait for.
            (Self::ZooKeeperPeer { .. }, Held::ZooKeeperPeer(lock)) => drop(lock),
            (Self::Distlock(_), Held::Distlock(guard)) => Box::pin(guard.unlock()).await?,
            (Self::Ours(_), Held::Ours(turn)) => Box::pin(turn.unlock()).await?,
            _ => return Err("somebody else's turn".into()),
        }
        Ok(())
    }
}

impl Held {
    pub(crate) fn token(&self) -> Option<u64> {
        match self {
            Self::Distlock(guard) => Some(guard.fencing_token().as_u64()),
            _ => None,
        }
    }
}

/// How long a floor's first write takes.
pub(crate) async fn write(floor: &mut Contender) -> Result<u64> {
    let start = now();
    let key = floor.join().await?;
    let time = now() - start;
    let (Contender::EtcdFloor { baton, .. }
    | Contender::ZooKeeperFloor { baton, .. }
    | Contender::SqlFloor { baton, .. }
    | Contender::RedisFloor { baton, .. }) = floor
    else {
        return Err("this is no floor".into());
    };
    let baton = Arc::clone(baton).acquire_owned().await?;
    floor.unlock(Held::Floor { key, baton }).await?;
    Ok(time)
}

/// A number that was not given before.
fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Relaxed)
}
