//! The directory of a queue: its nodes, and a node's position among them.

use std::{borrow::Cow, collections::HashSet, sync::Arc};

use zookeeper_client::{self as zk, MultiReadResult};

use super::ZooKeeperStore;
use crate::backend::{
    Entry, Fate, Predecessor, Present, Queue, Result, Standing, StoreError,
    zookeeper::{
        names,
        order::{self, Position},
    },
};

/// Returns an entry for another client's node, of which only the name is known.
pub(super) fn named(key: impl Into<Arc<str>>) -> Entry {
    Entry::new(key, 0)
}

impl ZooKeeperStore {
    /// Returns a node's position by the list of its queue.
    pub(super) async fn stands(&self, key: &str) -> Result<Standing> {
        // Any server may answer. It knows our own node, because a session never returns to an older
        // state, and so all nodes that joined before it. Some of them may be gone already, which
        // the next read will show.
        match self.seek("listing nodes", self.client()?.list_children(names::split(key).0)).await? {
            Some(children) => self.position(key, &children).await,
            None => Ok(Standing::Evicted),
        }
    }

    /// Returns the position of the node `key` among `children`, which were listed after it was
    /// created.
    pub(super) async fn position(&self, key: &str, children: &[String]) -> Result<Standing> {
        let (dir, own) = names::split(key);
        let mut waiters = Cow::Borrowed(children);
        loop {
            match order::position(own, &waiters) {
                Position::First => return Ok(Standing::First),
                Position::Gone => return Ok(Standing::Evicted),
                Position::Unclear => return self.place_by_age(key, &waiters).await,
                Position::Behind { child, first } => {
                    let ahead = format!("{dir}/{child}");
                    let checked = matches!(waiters, Cow::Owned(_));
                    if checked || !self.is_nobodys(&ahead).await? {
                        let entry = named(ahead);
                        return Ok(Standing::Behind(Predecessor { entry, first, seen: true }));
                    }
                }
            }
            waiters = Cow::Owned(self.without_junk(dir, children.to_vec(), |_| true).await?);
        }
    }

    /// Returns `true` if the node belongs to no session, which its name does not show.
    async fn is_nobodys(&self, key: &str) -> Result<bool> {
        let stat = self.ask("reading a node", self.client()?.check_stat(key)).await?;
        Ok(stat.is_some_and(|stat| names::is_nobodys(&stat)))
    }

    /// Removes nodes from the list that are named like waiters' but belong to no session, among the
    /// doubtful ones. A node that was deleted in the meantime stays in the list, because it
    /// existed.
    pub(super) async fn without_junk(
        &self,
        dir: &str,
        mut children: Vec<String>,
        is_doubtful: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        let doubtful =
            children.iter().filter(|child| names::sequence(child).is_some() && is_doubtful(child));
        // Sent together.
        let client = self.client()?;
        let replies: Vec<_> = doubtful
            .map(|child| (child.clone(), client.check_stat(&format!("{dir}/{child}"))))
            .collect();
        let mut junk = HashSet::new();
        for (child, reply) in replies {
            if self.ask("reading a node", reply).await?.is_some_and(|stat| names::is_nobodys(&stat))
            {
                junk.insert(child);
            }
        }
        children.retain(|child| !junk.contains(child));
        Ok(children)
    }

    /// Returns a node's position by the nodes' own transaction IDs. This costs one more request per
    /// child, and is never wrong.
    async fn place_by_age(&self, own: &str, children: &[String]) -> Result<Standing> {
        let (dir, _) = names::split(own);
        let waiters = children.iter().filter(|child| names::sequence(child).is_some());
        let keys: Vec<_> = waiters.map(|child| Arc::from(format!("{dir}/{child}"))).collect();
        let mut nodes = self.read(keys).await?;
        nodes.retain(|(_, _, stat)| !names::is_nobodys(stat));
        let Some(age) = nodes.iter().find(|(key, ..)| **key == *own).map(|(_, _, stat)| stat.czxid)
        else {
            return Ok(Standing::Evicted);
        };
        let older = || nodes.iter().filter(|(_, _, stat)| stat.czxid < age);
        let nearest = older().max_by_key(|(_, _, stat)| stat.czxid);
        let Some((key, ..)) = nearest else { return Ok(Standing::First) };
        let (entry, first) = (named(Arc::clone(key)), older().nth(1).is_none());
        Ok(Standing::Behind(Predecessor { entry, first, seen: true }))
    }

    /// Reads nodes by requests that are sent together. Deleted nodes are left out.
    pub(super) async fn read(
        &self,
        keys: Vec<Arc<str>>,
    ) -> Result<Vec<(Arc<str>, Vec<u8>, zk::Stat)>> {
        let client = self.client()?;
        let replies: Vec<_> = keys.iter().map(|key| client.get_data(key)).collect();
        let mut nodes = Vec::with_capacity(keys.len());
        for (key, reply) in keys.into_iter().zip(replies) {
            let read = self.seek("reading a node", reply).await?;
            nodes.extend(read.map(|(data, stat)| (key, data, stat)));
        }
        Ok(nodes)
    }

    /// Returns `true` if a queue has a waiter. Writes nothing.
    pub(super) async fn is_occupied(&self, queue: &Queue) -> Result<bool> {
        let dir = queue.dir();
        let client = self.client()?;
        let listed = self.seek("listing nodes", client.get_children(dir)).await?;
        let Some((children, stat)) = listed else { return Ok(false) };
        self.tags.learn(dir, stat.czxid);
        // If the queue seems free, joining it verifies that. If it seems occupied, the waiters may
        // be junk, or the reply may be stale, from a server that lags behind. One waiter that
        // exists now is sufficient.
        let Some(first) = order::lowest(&children) else { return Ok(false) };
        let (sync, there) = (client.sync("/"), client.check_stat(&format!("{dir}/{first}")));
        let there = self
            .synced(sync, there)
            .await?
            .map_err(|error| self.failed("reading a node", error))?;
        if there.is_some_and(|stat| !names::is_nobodys(&stat)) {
            return Ok(true);
        }
        let children = self.list_now(dir).await?;
        let waiters = self.without_junk(dir, children, |_| true).await?;
        Ok(order::lowest(&waiters).is_some())
    }

    /// Returns the current children of a directory, or none if it does not exist.
    pub(super) async fn list_now(&self, dir: &str) -> Result<Vec<String>> {
        Ok(self.children_now(dir).await?.0)
    }

    /// Returns the current children of a directory, and its czxid if it exists.
    ///
    /// All earlier requests of this session are decided by then: a server serves its requests in
    /// order, and rejects those of a former connection (`SessionMovedException`). The exceptions
    /// are found later: see [`remove_strays`](Self::remove_strays).
    pub(super) async fn children_now(&self, dir: &str) -> Result<(Vec<String>, Option<i64>)> {
        let client = self.client()?;
        let (sync, list) = (client.sync("/"), client.get_children(dir));
        let listed = self.found("listing nodes", self.synced(sync, list).await?)?;
        Ok(listed.map(|(children, stat)| (children, Some(stat.czxid))).unwrap_or_default())
    }

    /// Reads two nodes, and the release marker in the directory of the node ahead.
    ///
    /// The own node is read after the predecessor. No node is created again, so if the own node
    /// exists and the predecessor is gone, both are true at the same time.
    ///
    /// The transaction that deletes a holder's node writes the marker. Clients that have read or
    /// written it write it again. It is true as long as no name is reused (`Tags`), so it counts
    /// only in the directory that it belongs to.
    pub(super) async fn look(&self, own: &Entry, ahead: &Entry) -> Result<Present> {
        let client = self.client()?;
        let mut both = client.new_multi_reader();
        let (dir, name) = names::split(&ahead.key);
        let added = both
            .add_get_data(&ahead.key)
            .and_then(|()| both.add_get_data(&own.key))
            .and_then(|()| both.add_get_data(dir));
        added.map_err(|error| self.failed("reading a node", error))?;
        let read = self.ask("reading a node", both.commit()).await?;
        let mut found = read.into_iter().map(|read| match read {
            MultiReadResult::Data { data, stat } => Ok(Some((data, stat))),
            MultiReadResult::Error { err: zk::Error::NoNode } => Ok(None),
            MultiReadResult::Error { err } => Err(self.failed("reading a node", err)),
            other => Err(StoreError::Unknown(format!("malformed reply: {other:?}").into())),
        });
        let (Some(ahead), Some(own_node), Some(directory)) =
            (found.next(), found.next(), found.next())
        else {
            return Err(StoreError::Unknown("malformed reply: too short".into()));
        };
        // An operator may have made the directory unreadable. Then there is no marker.
        let mark = directory.unwrap_or_default().and_then(|(data, stat)| {
            let name = String::from_utf8(data).ok()?;
            names::is_mark_in(&name, stat.czxid).then_some(name)
        });
        let fate = match ahead? {
            // A node without a session blocks no client.
            Some((_, stat)) if names::is_nobodys(&stat) => Fate::Gone,
            Some(_) => Fate::There,
            None if mark.as_deref() == Some(name) => Fate::Released,
            None => Fate::Gone,
        };
        if let Some(mark) = mark {
            self.tags.mark(dir, &mark);
        }
        let own = own_node?.is_some_and(|(_, stat)| revision(&stat) == own.revision);
        Ok(Present { own, ahead: fate })
    }
}

/// Returns the order of grants: `czxid`, which rises with every write to the ensemble.
pub(super) fn revision(stat: &zk::Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
