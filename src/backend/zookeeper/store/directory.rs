//! The directory of a queue: its nodes, and where one stands among them.

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

/// A node of somebody's, of which the name alone is known.
pub(super) fn named(key: impl Into<Arc<str>>) -> Entry {
    Entry::new(key, 0)
}

impl ZooKeeperStore {
    /// Where a node stands, by the list of its queue.
    pub(super) async fn stands(&self, key: &str) -> Result<Standing> {
        // Any server may answer. It knows of the own node (a session never goes back to an older
        // state), so also of all that joined before it; some of those may be gone already, which
        // the next look will show.
        match self.seek("list", self.client()?.list_children(names::split(key).0)).await? {
            Some(children) => self.position(key, &children).await,
            None => Ok(Standing::Evicted),
        }
    }

    /// Where the node `key` stands among `children`, which were listed after it was created.
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

    /// A name alone does not tell whether a node is anybody's.
    async fn is_nobodys(&self, key: &str) -> Result<bool> {
        let stat = self.ask("get", self.client()?.check_stat(key)).await?;
        Ok(stat.is_some_and(|stat| names::is_nobodys(&stat)))
    }

    /// Leaves out what is named like a waiter's node and is nobody's, as far as there is a doubt.
    /// What is gone meanwhile stays in the list: it was there.
    pub(super) async fn without_junk(
        &self,
        dir: &str,
        mut children: Vec<String>,
        is_doubtful: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>> {
        let doubtful =
            children.iter().filter(|child| names::sequence(child).is_some() && is_doubtful(child));
        // In one flight.
        let client = self.client()?;
        let replies: Vec<_> = doubtful
            .map(|child| (child.clone(), client.check_stat(&format!("{dir}/{child}"))))
            .collect();
        let mut junk = HashSet::new();
        for (child, reply) in replies {
            if self.ask("get", reply).await?.is_some_and(|stat| names::is_nobodys(&stat)) {
                junk.insert(child);
            }
        }
        children.retain(|child| !junk.contains(child));
        Ok(children)
    }

    /// The same by the nodes' own transaction ids: one more request for each child, and never
    /// wrong.
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

    /// Reads nodes, in one flight. Those that are gone are left out.
    pub(super) async fn read(
        &self,
        keys: Vec<Arc<str>>,
    ) -> Result<Vec<(Arc<str>, Vec<u8>, zk::Stat)>> {
        let client = self.client()?;
        let replies: Vec<_> = keys.iter().map(|key| client.get_data(key)).collect();
        let mut nodes = Vec::with_capacity(keys.len());
        for (key, reply) in keys.into_iter().zip(replies) {
            let read = self.seek("get", reply).await?;
            nodes.extend(read.map(|(data, stat)| (key, data, stat)));
        }
        Ok(nodes)
    }

    /// Whether somebody is in a queue. Writes nothing.
    pub(super) async fn is_occupied(&self, queue: &Queue) -> Result<bool> {
        let dir = queue.dir();
        let client = self.client()?;
        let listed = self.seek("list", client.get_children(dir)).await?;
        let Some((children, stat)) = listed else { return Ok(false) };
        self.tags.learn(dir, stat.czxid);
        // That a queue is free is put to the test by joining it. That it is not may be old news of
        // a server that lags behind, or junk: one waiter that is there now is enough.
        let Some(first) = order::lowest(&children) else { return Ok(false) };
        let (sync, there) = (client.sync("/"), client.check_stat(&format!("{dir}/{first}")));
        let there = self.synced(sync, there).await?.map_err(|error| self.failed("get", error))?;
        if there.is_some_and(|stat| !names::is_nobodys(&stat)) {
            return Ok(true);
        }
        let children = self.list_now(dir).await?;
        let waiters = self.without_junk(dir, children, |_| true).await?;
        Ok(order::lowest(&waiters).is_some())
    }

    /// The children of a directory as of now; none without a directory.
    pub(super) async fn list_now(&self, dir: &str) -> Result<Vec<String>> {
        Ok(self.children_now(dir).await?.0)
    }

    /// The same with the directory's czxid. Whatever this session has sent before is decided by
    /// then, as its requests are served in order and those that a former server still had are
    /// refused (`SessionMovedException`). What escapes that is found later: see
    /// [`remove_strays`](Self::remove_strays).
    pub(super) async fn children_now(&self, dir: &str) -> Result<(Vec<String>, Option<i64>)> {
        let client = self.client()?;
        let (sync, list) = (client.sync("/"), client.get_children(dir));
        let listed = self.found("list", self.synced(sync, list).await?)?;
        Ok(listed.map(|(children, stat)| (children, Some(stat.czxid))).unwrap_or_default())
    }

    /// Looks at two nodes of one queue, and at the name that the last holder to leave has written
    /// into their directory. That the own one is there is seen no earlier than that the other is
    /// gone; as none comes back, both are true at once then.
    ///
    /// A name is written by the transaction that deletes that holder's node, or passed on by a
    /// client that has read or written it. It is true as long as no name comes again (`Tags`), so
    /// it counts only in the directory that it belongs to.
    pub(super) async fn look(&self, own: &Entry, ahead: &Entry) -> Result<Present> {
        let client = self.client()?;
        let mut both = client.new_multi_reader();
        let (dir, name) = names::split(&ahead.key);
        let added = both
            .add_get_data(&ahead.key)
            .and_then(|()| both.add_get_data(&own.key))
            .and_then(|()| both.add_get_data(dir));
        added.map_err(|error| self.failed("get", error))?;
        let read = self.ask("get", both.commit()).await?;
        let mut found = read.into_iter().map(|read| match read {
            MultiReadResult::Data { data, stat } => Ok(Some((data, stat))),
            MultiReadResult::Error { err: zk::Error::NoNode } => Ok(None),
            MultiReadResult::Error { err } => Err(self.failed("get", err)),
            other => Err(StoreError::Unknown(format!("{other:?} for a node").into())),
        });
        let (Some(ahead), Some(own_node), Some(directory)) =
            (found.next(), found.next(), found.next())
        else {
            return Err(StoreError::Unknown("an answer that is too short".into()));
        };
        // An operator may let nobody read the directory: then it says nothing.
        let mark = directory.unwrap_or_default().and_then(|(data, stat)| {
            let name = String::from_utf8(data).ok()?;
            names::is_mark_in(&name, stat.czxid).then_some(name)
        });
        let fate = match ahead? {
            // A node of no session stands in nobody's way.
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

/// The order of grants: `czxid`, which rises with every write to the ensemble.
pub(super) fn revision(stat: &zk::Stat) -> u64 {
    u64::try_from(stat.czxid).unwrap_or(0)
}
