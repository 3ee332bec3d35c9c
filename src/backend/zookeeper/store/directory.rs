//! The directory of a queue: its nodes, and where one stands among them.

use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::ZooKeeperStore;
use crate::{
    backend::{
        Entry, Joined, Standing,
        zookeeper::node::{self, Place},
    },
    error::StoreError,
    guard::LostReason,
    name::{Queue, Ticket},
    rig::{Bug, planted},
};

/// A node that was just created.
pub(super) struct Created {
    pub(super) path: String,
    stat: zk::Stat,
}

impl ZooKeeperStore {
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
            Place::Behind(child) => Ok(Standing::Behind(Entry { key: format!("{dir}/{child}"), revision: 0 })),
            Place::Unclear => self.place_by_age(client, key, children).await,
        }
    }

    /// The same by the nodes' own transaction ids: one more request for each child, and never wrong.
    async fn place_by_age(&self, client: &zk::Client, own: &str, children: &[String]) -> Result<Standing, StoreError> {
        let (dir, _) = node::split(own);
        let waiters = children.iter().filter(|child| node::sequence(child).is_some());
        let keys = waiters.map(|child| format!("{dir}/{child}")).collect::<Vec<_>>();
        let replies = keys.iter().map(|key| client.get_data(key)).collect::<Vec<_>>();
        let mut nodes = Vec::with_capacity(keys.len());
        for (key, reply) in keys.into_iter().zip(replies) {
            match self.reply(self.request_timeout, reply).await? {
                Ok((_, stat)) => nodes.push(Entry { key, revision: revision(&stat) }),
                Err(zk::Error::NoNode) => {}
                Err(error) => return Err(self.failed("get", error)),
            }
        }
        let Some(age) = nodes.iter().find(|node| node.key == own).map(|node| node.revision) else {
            return Ok(Standing::Evicted);
        };
        let ahead = nodes.into_iter().filter(|node| node.revision < age).max_by_key(|node| node.revision);
        Ok(ahead.map_or(Standing::First, Standing::Behind))
    }

    /// The children of a queue's directory as this session's server knows them: that may be a moment ago. None without a directory.
    pub(super) async fn list(&self, client: &zk::Client, queue: &Queue) -> Result<Vec<String>, StoreError> {
        let listed = self.reply(self.request_timeout, client.list_children(queue.dir())).await?;
        self.listed(listed)
    }

    /// The same as of now. Whatever this session has sent before is decided by then: requests of one session are served in order, and those that a former
    /// server still had are refused as `SessionMoved`.
    pub(super) async fn list_now(&self, client: &zk::Client, queue: &Queue) -> Result<Vec<String>, StoreError> {
        let (sync, list) = (client.sync("/"), client.list_children(queue.dir()));
        let (synced, listed) = self.reply(self.request_timeout, async { tokio::join!(sync, list) }).await?;
        synced.map_err(|error| self.failed("sync", error))?;
        self.listed(listed)
    }

    fn listed(&self, listed: Result<Vec<String>, zk::Error>) -> Result<Vec<String>, StoreError> {
        match listed {
            Err(zk::Error::NoNode) => Ok(Vec::new()),
            listed => listed.map_err(|error| self.failed("list", error)),
        }
    }

    /// Creates a ticket's node and lists the queue, in one flight: both are sent before either is awaited, and served in this order. As the crate leaves `TCP_NODELAY` off, the
    /// second mostly waits for the reply to the first all the same (5 ms away: 21 ms, 11 where both left in one write). That needs `set_nodelay` in its
    /// `Connector::connect_endpoint`; nothing outside it can do that.
    ///
    /// `with_directory`: that is known to be missing, and is created in the same transaction.
    pub(super) async fn create_and_list(
        &self,
        client: &zk::Client,
        dir: &str,
        prefix: &str,
        value: &[u8],
        with_directory: bool,
    ) -> Result<(Result<Created, zk::Error>, Result<Vec<String>, zk::Error>), StoreError> {
        let node = CreateMode::EphemeralSequential.with_acls(self.acls);
        if !with_directory {
            let (create, list) = (client.create(prefix, value, &node), client.list_children(dir));
            let (created, listed) = self.reply(self.request_timeout, async { tokio::join!(create, list) }).await?;
            let created = created.map(|(stat, sequence)| Created { path: format!("{prefix}{sequence}"), stat });
            return Ok((created, listed));
        }
        let mut both = client.new_multi_writer();
        let directory = CreateMode::Container.with_acls(self.acls);
        let added = both.add_create(dir, &[], &directory).and_then(|()| both.add_create(prefix, value, &node));
        added.map_err(|error| self.failed("create", error))?;
        let (create, list) = (both.commit(), client.list_children(dir));
        let (created, listed) = self.reply(self.request_timeout, async { tokio::join!(create, list) }).await?;
        let created = created.map_err(zk::Error::from).and_then(|mut results| match results.pop() {
            Some(MultiWriteResult::Create { path, stat }) => Ok(Created { path, stat }),
            _ => Err(zk::Error::UnexpectedError("a create without a node".to_owned())),
        });
        Ok((created, listed))
    }

    /// When an own node was created. Servers have left that out of a transaction's results
    /// (<https://issues.apache.org/jira/browse/ZOOKEEPER-4026>, -4667): then it is read.
    pub(super) async fn revision_of(&self, client: &zk::Client, created: &Created) -> Result<u64, StoreError> {
        if planted(Bug::SequenceAsToken) {
            return Ok(node::sequence(&created.path).unwrap_or(0).unsigned_abs().into());
        }
        let stat = if created.stat.czxid > 0 {
            created.stat
        } else {
            let read = self.reply(self.request_timeout, client.get_data(&created.path)).await?;
            read.map_err(|error| self.failed("get", error))?.1
        };
        if !self.identity.owns(&stat) {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        }
        Ok(revision(&stat))
    }

    /// Finds the node of an earlier attempt to join.
    pub(super) async fn rejoin(
        &self,
        client: &zk::Client,
        queue: &Queue,
        ticket: Ticket,
    ) -> Result<Option<Joined>, StoreError> {
        let children = self.list_now(client, queue).await?;
        let Some(key) = node::of(ticket, queue.dir(), &children).next() else { return Ok(None) };
        match self.reply(self.request_timeout, client.get_data(&key)).await? {
            // One that another session owns will go with that session.
            Ok((_, stat)) if self.identity.owns(&stat) => {
                self.identity.created(&key);
                self.identify(client).await?;
                let standing = self.place(client, &key, &children).await?;
                Ok(Some(Joined::Queued { entry: Entry { key, revision: revision(&stat) }, standing, alive: None }))
            }
            Ok(_) | Err(zk::Error::NoNode) => Ok(None),
            Err(error) => Err(self.failed("get", error)),
        }
    }
}

/// The order of grants: `czxid`, which rises with every write to the ensemble.
fn revision(stat: &zk::Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
