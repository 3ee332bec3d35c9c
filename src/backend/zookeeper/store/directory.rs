//! The directory of a queue: its nodes, and where one stands among them.

use std::sync::Arc;

use zookeeper_client::{self as zk, MultiReadResult};

use super::ZooKeeperStore;
use crate::{
    backend::{
        Ahead, Entry, Present, Standing,
        zookeeper::node::{self, Place},
    },
    error::StoreError,
    name::Queue,
    rig::{Bug, planted},
};

/// A node of somebody's, of which the name alone is known.
pub(super) fn named(key: impl Into<Arc<str>>) -> Entry {
    Entry { key: key.into(), revision: 0, token: 0, crowded: false }
}

impl ZooKeeperStore {
    /// Where a node stands, by the list of its queue.
    pub(super) async fn stands(&self, client: &zk::Client, key: &str) -> Result<Standing, StoreError> {
        // Any server may answer. It knows of the own node (a session never goes back to an older state), so also of all that joined before it;
        // some of those may be gone already, which the next look will show.
        match self.reply(self.request_timeout, client.list_children(node::split(key).0)).await? {
            Ok(children) => self.place(client, key, &children).await,
            Err(zk::Error::NoNode) => Ok(Standing::Evicted),
            Err(error) => Err(self.failed("list", error)),
        }
    }

    /// Where the node `key` stands among `children`, which were listed after it was created.
    pub(super) async fn place(
        &self,
        client: &zk::Client,
        key: &str,
        children: &[String],
    ) -> Result<Standing, StoreError> {
        let (dir, own) = node::split(key);
        match node::place(own, children) {
            Place::First => Ok(Standing::First),
            Place::Gone => Ok(Standing::Evicted),
            Place::Behind { child, first } => {
                Ok(Standing::Behind(Ahead { entry: named(format!("{dir}/{child}")), first, seen: true }))
            }
            Place::Unclear => self.place_by_age(client, key, children).await,
        }
    }

    /// The same by the nodes' own transaction ids: one more request for each child, and never wrong.
    async fn place_by_age(&self, client: &zk::Client, own: &str, children: &[String]) -> Result<Standing, StoreError> {
        let (dir, _) = node::split(own);
        let waiters = children.iter().filter(|child| node::sequence(child).is_some());
        let keys: Vec<_> = waiters.map(|child| Arc::from(format!("{dir}/{child}"))).collect();
        let nodes = self.read(client, keys).await?;
        let Some(age) = nodes.iter().find(|(key, ..)| **key == *own).map(|(_, _, stat)| stat.czxid) else {
            return Ok(Standing::Evicted);
        };
        let older = || nodes.iter().filter(|(_, _, stat)| stat.czxid < age);
        Ok(match older().max_by_key(|(_, _, stat)| stat.czxid) {
            Some((key, ..)) => {
                Standing::Behind(Ahead { entry: named(Arc::clone(key)), first: older().nth(1).is_none(), seen: true })
            }
            None => Standing::First,
        })
    }

    /// Reads nodes, in one flight. Those that are gone are left out.
    pub(super) async fn read(
        &self,
        client: &zk::Client,
        keys: Vec<Arc<str>>,
    ) -> Result<Vec<(Arc<str>, Vec<u8>, zk::Stat)>, StoreError> {
        let replies: Vec<_> = keys.iter().map(|key| client.get_data(key)).collect();
        let mut nodes = Vec::with_capacity(keys.len());
        for (key, reply) in keys.into_iter().zip(replies) {
            match self.reply(self.request_timeout, reply).await? {
                Ok((data, stat)) => nodes.push((key, data, stat)),
                Err(zk::Error::NoNode) => {}
                Err(error) => return Err(self.failed("get", error)),
            }
        }
        Ok(nodes)
    }

    /// Whether somebody is in a queue. Writes nothing.
    pub(super) async fn is_occupied(&self, client: &zk::Client, queue: &Queue) -> Result<bool, StoreError> {
        // That a queue is free is put to the test by joining it. That it is not may be old news of a server that lags behind, or junk.
        match self.reply(self.request_timeout, client.check_stat(queue.dir())).await? {
            Ok(Some(stat)) => {
                self.tags.learn(queue.dir(), stat.czxid);
                Ok(stat.num_children > 0 && node::any_waiter(&self.list_now(client, queue.dir()).await?))
            }
            Ok(None) => Ok(false),
            Err(error) => Err(self.failed("get", error)),
        }
    }

    /// The children of a directory as of now; none without a directory. Whatever this session has sent before is decided by then: requests of one session are served
    /// in order, and those that a former server still had are refused as `SessionMoved`.
    pub(super) async fn list_now(&self, client: &zk::Client, dir: &str) -> Result<Vec<String>, StoreError> {
        let (sync, list) = (client.sync("/"), client.list_children(dir));
        let (synced, listed) = self.reply(self.request_timeout, async { tokio::join!(sync, list) }).await?;
        synced.map_err(|error| self.failed("sync", error))?;
        match listed {
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            listed => listed.map_err(|error| self.failed("list", error)),
        }
    }

    /// Looks at two nodes of one queue. That the own one is there is seen no earlier than that the other is gone; as none comes back, both are
    /// true at once then.
    pub(super) async fn look(&self, client: &zk::Client, own: &Entry, ahead: &Entry) -> Result<Present, StoreError> {
        let mut both = client.new_multi_reader();
        let added = both.add_get_data(&ahead.key).and_then(|()| both.add_get_data(&own.key));
        added.map_err(|error| self.failed("get", error))?;
        let read: Vec<_> = match self.reply(self.request_timeout, both.commit()).await? {
            Ok(read) => read.into_iter().map(found).collect(),
            // Older than 3.6.
            Err(zk::Error::Unimplemented) => {
                let (ahead, own) = (client.get_data(&ahead.key), client.get_data(&own.key));
                let (ahead, own) = self.reply(self.request_timeout, async { tokio::join!(ahead, own) }).await?;
                [ahead, own].map(|read| read.map(|(_, stat)| stat)).into()
            }
            Err(error) => return Err(self.failed("get", error)),
        };
        let mut there = read.into_iter().map(|read| match read {
            Ok(stat) => Ok(Some(stat)),
            Err(zk::Error::NoNode) => Ok(None),
            Err(error) => Err(self.failed("get", error)),
        });
        let (Some(ahead), Some(stat)) = (there.next(), there.next()) else {
            return Err(StoreError::Unknown("an answer that is too short".into()));
        };
        let is_own = |stat: &zk::Stat| revision(stat) == own.revision || planted(Bug::SequenceAsToken);
        Ok(Present { own: stat?.as_ref().is_some_and(is_own), ahead: ahead?.is_some() })
    }
}

fn found(read: MultiReadResult) -> Result<zk::Stat, zk::Error> {
    match read {
        MultiReadResult::Data { stat, .. } => Ok(stat),
        MultiReadResult::Error { err } => Err(err),
        other => Err(zk::Error::UnexpectedError(format!("{other:?} for a node"))),
    }
}

/// The order of grants: `czxid`, which rises with every write to the ensemble.
pub(super) fn revision(stat: &zk::Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
