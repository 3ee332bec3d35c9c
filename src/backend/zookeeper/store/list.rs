//! Lists a queue.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::OptionFuture;
use zookeeper_client as zk;

use super::{
    ZooKeeperStore,
    directory::{named, revision},
    watch,
};
use crate::backend::{Ask, Detail, Listing, Member, Result, StoreError, Watch, zookeeper::names};

/// How often to list a queue whose directory is created and removed concurrently, or whose nodes
/// are renamed.
const ATTEMPTS: usize = 8;

/// A node's data and stat.
type Node = (Vec<u8>, zk::Stat);

/// The names in a directory, the directory's czxid if it exists, and the watch on it.
type Children = (Vec<String>, Option<i64>, Option<Watch>);

/// How many nodes that belong to no session are remembered. When there are more, all are forgotten,
/// and found again.
const JUNK: usize = 1024;

impl ZooKeeperStore {
    /// Lists a queue. Any server may answer, unless the listing must be fresh: the server knows all
    /// that this session has received, and so its own nodes.
    pub(super) async fn listing(&self, dir: &str, ask: Ask) -> Result<Listing> {
        for _ in 0..ATTEMPTS {
            let Some((children, directory, watch)) = self.children(dir, ask).await? else {
                continue;
            };
            let (mut waiters, notes): (Vec<_>, Vec<_>) =
                children.into_iter().partition(|child| names::sequence(child).is_some());
            if !ask.values {
                let is_doubtful =
                    |child: &str| names::is_doubtful(child, directory) || self.is_junk(dir, child);
                waiters = self.without_junk(dir, waiters, is_doubtful).await?;
            }
            let clear = waiters
                .iter()
                .all(|child| names::sequence(child).is_some_and(|n| (0..i32::MAX).contains(&n)));
            let mut nodes = HashMap::new();
            if ask.values || !clear {
                let keys =
                    waiters.iter().map(|child| Arc::from(format!("{dir}/{child}"))).collect();
                let read = self.read(keys).await?;
                nodes = read.into_iter().map(|(key, data, stat)| (key, (data, stat))).collect();
                if nodes.len() < waiters.len() && self.any_renamed(dir, &waiters, &nodes).await? {
                    continue;
                }
                nodes.retain(|_, (_, stat)| !names::is_nobodys(stat));
            }
            let mut members = Vec::with_capacity(waiters.len());
            for child in waiters {
                let key = Arc::from(format!("{dir}/{child}"));
                match nodes.remove(&key) {
                    None if ask.values || !clear => {}
                    node => members.push((self.member(&child, key, node, ask), child)),
                }
            }
            if clear {
                // Of two equal numbers, the server did not assign one. That node goes first, as in
                // `order::position`.
                members.sort_by_key(|(member, child)| {
                    (names::sequence(child), member.label.is_some())
                });
            } else {
                // A node that replaced another one is ordered by that one's age.
                members.sort_by_key(|(member, _)| member.entry.token);
            }
            return Ok(Listing {
                members: members.into_iter().map(|(member, _)| member).collect(),
                notes: notes.into_iter().map(Into::into).collect(),
                watch,
                ..Listing::default()
            });
        }
        Err(StoreError::Unavailable(format!("other clients kept changing {dir}").into()))
    }

    /// Remembers a node that belongs to no session, whatever its name is. A rule that judges by
    /// names would wait for it for ever.
    pub(super) fn remember_junk(&self, key: &str) {
        let mut junk = self.junk.lock();
        if junk.len() >= JUNK {
            junk.clear();
        }
        junk.insert(key.into());
    }

    /// Returns `true` if a node of this name once belonged to no session. Another node may have the
    /// name now.
    fn is_junk(&self, dir: &str, child: &str) -> bool {
        let junk = self.junk.lock();
        !junk.is_empty() && junk.contains(&*format!("{dir}/{child}"))
    }

    /// Returns the children of a directory and its czxid, or no children if it does not exist.
    ///
    /// `None`: the directory was created in the meantime. The watch, if requested, begins with the
    /// reply.
    async fn children(&self, dir: &str, ask: Ask) -> Result<Option<Children>> {
        let client = self.client()?;
        if !ask.watch {
            let (children, directory) = if ask.fresh {
                self.children_now(dir).await?
            } else {
                let listed = self.seek("listing nodes", client.get_children(dir)).await?;
                listed.map(|(children, stat)| (children, Some(stat.czxid))).unwrap_or_default()
            };
            return Ok(Some((children, directory, None)));
        }
        // Sent together, in this order: see `children_now`.
        let sync = OptionFuture::from(ask.fresh.then(|| client.sync("/")));
        let list = client.get_and_watch_children(dir);
        let listed = self.synced(async { sync.await.unwrap_or(Ok(())) }, list).await?;
        if let Some((children, stat, watcher)) = self.found("listing nodes", listed)? {
            return Ok(Some((children, Some(stat.czxid), Some(watch::any(watcher)))));
        }
        let (there, watcher) = self.ask("reading a node", client.check_and_watch_stat(dir)).await?;
        Ok(there.is_none().then(|| (Vec::new(), None, Some(watch::any(watcher)))))
    }

    /// Returns `true` if a waiter that could not be read exists under another name. The list must
    /// not omit it.
    async fn any_renamed(
        &self,
        dir: &str,
        waiters: &[String],
        nodes: &HashMap<Arc<str>, Node>,
    ) -> Result<bool> {
        // This server has applied their deletion, and so the rest of the same transaction.
        let children = self.seek("listing nodes", self.client()?.list_children(dir)).await?;
        let gone = waiters.iter().filter(|child| !nodes.contains_key(&*format!("{dir}/{child}")));
        let gone: Vec<_> = gone.filter_map(|child| names::place_of(child)).collect();
        Ok(children
            .iter()
            .flatten()
            .filter_map(|child| names::place_of(child))
            .any(|place| gone.contains(&place)))
    }

    fn member(&self, child: &str, key: Arc<str>, node: Option<Node>, ask: Ask) -> Member {
        let (label, token) = names::label(child).map(names::inherited).unzip();
        let mut entry = named(key);
        let token = token.flatten();
        entry.token = token.unwrap_or(0);
        let detail = node.and_then(|(data, stat)| {
            entry.revision = revision(&stat);
            entry.token = token.unwrap_or(entry.revision);
            ask.values.then(|| Detail {
                value: if label.is_some() { names::value(data) } else { data },
                version: u64::try_from(stat.mzxid).unwrap_or(0),
                since: u64::try_from(stat.ctime).ok().and_then(|ctime| {
                    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ctime))
                }),
                own: self.identity.owns(&stat),
            })
        });
        Member { entry, label: label.map(Into::into), detail }
    }
}
