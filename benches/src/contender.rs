//! One task's lock, of any subject.

use distlock::{LockGuard, Mutex};
use etcd_client::{LockClient, LockOptions};
use zookeeper_client::{Acls, LockPrefix, OwnedLockClient};

use crate::{
    Result,
    floor::{self, Floor},
    poller::Poller,
    primitive::{Ours, Turn},
    recipe::Recipe,
    scripts::Scripts,
    tries::Tries,
};

/// Large variants are boxed, so that a waiter of one kind is not as large as one of the largest
/// kind.
pub(crate) enum Contender {
    /// Two writes.
    Floor(Box<Floor>),
    /// The Lock RPC.
    EtcdPeer { client: Box<LockClient>, options: LockOptions, directory: String },
    /// `Client::lock`.
    ZooKeeperPeer { client: Box<zookeeper_client::Client>, directory: String },
    /// One repeated write.
    Poller(Box<Poller>),
    /// A lock of a database.
    Recipe(Box<Recipe>),
    /// A lock on Redis.
    Tries(Box<Tries>),
    /// The scripts that distlock sends to Redis.
    Scripts(Box<Scripts>),
    /// A mutex of distlock.
    Distlock(Mutex),
    /// Another primitive of distlock.
    Ours(Box<Ours>),
}

/// The contender's turn.
pub(crate) enum Held {
    Floor(Box<floor::Turn>),
    EtcdPeer(Vec<u8>),
    ZooKeeperPeer(Box<OwnedLockClient>),
    /// The contender itself has the state.
    Tried,
    Distlock(Box<LockGuard>),
    Ours(Box<Turn>),
}

impl Contender {
    pub(crate) async fn lock(&mut self) -> Result<Held> {
        // Boxed for the same reason.
        match self {
            Self::Floor(floor) => Ok(Held::Floor(Box::new(Box::pin(floor.lock()).await?))),
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
            Self::Poller(poller) => Box::pin(poller.lock()).await.map(|()| Held::Tried),
            Self::Recipe(recipe) => Box::pin(recipe.lock()).await.map(|()| Held::Tried),
            Self::Tries(tries) => Box::pin(tries.lock()).await.map(|()| Held::Tried),
            Self::Scripts(scripts) => Box::pin(scripts.lock()).await.map(|()| Held::Tried),
            Self::Distlock(mutex) => Ok(Held::Distlock(Box::new(Box::pin(mutex.lock()).await?))),
            Self::Ours(ours) => Ok(Held::Ours(Box::new(Box::pin(ours.lock()).await?))),
        }
    }

    pub(crate) async fn unlock(&mut self, held: Held) -> Result<()> {
        match (self, held) {
            (Self::Floor(floor), Held::Floor(turn)) => Box::pin(floor.unlock(*turn)).await?,
            (Self::Tries(tries), Held::Tried) => Box::pin(tries.unlock()).await?,
            (Self::Scripts(scripts), Held::Tried) => Box::pin(scripts.unlock()).await?,
            (Self::Poller(poller), Held::Tried) => Box::pin(poller.unlock()).await?,
            (Self::Recipe(recipe), Held::Tried) => Box::pin(recipe.unlock()).await?,
            (Self::EtcdPeer { client, .. }, Held::EtcdPeer(key)) => {
                Box::pin(client.unlock(key)).await?;
            }
            // It deletes the node in the background: there is nothing to wait for.
            (Self::ZooKeeperPeer { .. }, Held::ZooKeeperPeer(lock)) => drop(lock),
            (Self::Distlock(_), Held::Distlock(guard)) => Box::pin(guard.unlock()).await?,
            (Self::Ours(_), Held::Ours(turn)) => Box::pin(turn.unlock()).await?,
            _ => return Err("the turn belongs to another contender".into()),
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
