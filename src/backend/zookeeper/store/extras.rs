//! ZooKeeper's part of the operations that only some primitives need.

use async_trait::async_trait;
use zookeeper_client::{self as zk, CreateMode, MultiWriteResult};

use super::{ZooKeeperStore, directory::revision};
use crate::{
    backend::{
        Durability, Entry, Extras, Joiner, Result, Rewrite, Rewritten, StoreError, Write,
        zookeeper::names,
    },
    lost::LostReason,
};

#[async_trait]
impl Extras for ZooKeeperStore {
    /// Overwrites a node of this version by its name, which is never reused.
    async fn rewrite(&self, rewrite: Rewrite<'_>) -> Result<Rewritten> {
        let Rewrite { ticket, entry, value, version } = rewrite;
        let number = |stat: zk::Stat| u64::from(stat.version.unsigned_abs());
        let version = i32::try_from(version.unwrap_or(0)).unwrap_or(i32::MAX);
        let (client, data) = (self.client()?, names::data(ticket, value));
        match self.reply(client.set_data(&entry.key, &data, Some(version))).await? {
            Ok(stat) => return Ok(Rewritten::Done(number(stat))),
            Err(zk::Error::NoNode) => return Ok(Rewritten::Gone),
            Err(zk::Error::BadVersion) => {}
            Err(error) => return Err(self.failed("writing a node", error)),
        }
        let stat = self.ask("reading a node", client.check_stat(&entry.key)).await?;
        Ok(stat.map_or(Rewritten::Gone, |stat| Rewritten::Not(number(stat))))
    }

    /// Replaces an own node by one with another label. The new node has the same tag and number.
    ///
    /// The caller that withdraws the ticket may not know the new node, because the reply was lost
    /// or the call was dropped. Then `leave` finds the node by its tag and number.
    async fn relabel(&self, to: Joiner<'_>, entry: &Entry, value: &[u8]) -> Result<Option<Entry>> {
        let Some(key) = names::relabelled(&entry.key, to.queue.label()) else {
            let source = format!("{} is not a distlock node", entry.key).into();
            return Err(StoreError::Fatal { operation: "relabeling a node", source });
        };
        let data = names::data(to.ticket, value);
        self.renamed.lock().insert(to.ticket);
        self.doubtful().insert(to.ticket);
        let exchanged = self.exchange_once(&entry.key, &key, &data).await?;
        self.identity.gone(&entry.key);
        let new = exchanged.map(|stat| Entry {
            key: key.into(),
            revision: revision(&stat),
            token: entry.token,
            crowded: true,
        });
        if let Some(new) = &new {
            self.identity.created(&new.key);
        }
        // Any other node with this ticket belongs to no attempt: see `remove_strays`.
        self.doubtful().remove(&to.ticket);
        Ok(new)
    }

    /// Reads the ensemble's configuration, in which a single server has no members.
    async fn durability(&self) -> Result<Durability> {
        let client = self.client()?;
        let (config, _) = self.ask("reading a node", client.get_config()).await?;
        let config = String::from_utf8_lossy(&config).into_owned();
        let servers = config.lines().filter(|line| line.starts_with("server."));
        let voters = servers.filter(|line| !line.contains(":observer")).count();
        Ok(Durability::majority(voters.max(1)))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        self.write(guards, writes).await
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let client = self.client()?;
        // Sent together, in this order: see `children_now`.
        let (sync, read) = (client.sync("/"), client.get_data(key));
        let read = self.found("reading a node", self.synced(sync, read).await?)?;
        Ok(read.map(|(data, _)| data))
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        self.list_now(namespace).await
    }
}

impl ZooKeeperStore {
    /// Replaces a node, and returns the new node's stat; `None` if neither exists.
    ///
    /// The create comes first. A server that showed half of the transaction would show both nodes,
    /// not none.
    async fn exchange_once(&self, old: &str, new: &str, data: &[u8]) -> Result<Option<zk::Stat>> {
        let node = CreateMode::Ephemeral.with_acls(self.acls());
        let client = self.client()?;
        let mut both = client.new_multi_writer();
        let added = both.add_create(new, data, &node).and_then(|()| both.add_delete(old, None));
        added.map_err(|error| self.failed("creating a node", error))?;
        let results = match self.transact(both).await?.1 {
            Ok(results) => results,
            Err((Some(_), zk::Error::NoNode)) => return Ok(None),
            // An earlier attempt, whose reply was lost, has created it.
            Err((Some(0), zk::Error::NodeExists)) => {
                let there = self.ask("reading a node", client.check_stat(new)).await;
                return match there.map_err(StoreError::in_doubt)? {
                    Some(stat) if !self.identity.owns(&stat) => {
                        let source = format!("{new} belongs to another session").into();
                        Err(StoreError::Fatal { operation: "relabeling a node", source })
                    }
                    found => Ok(found),
                };
            }
            Err((_, error)) => return Err(self.failed("creating a node", error)),
        };
        let created = results.into_iter().find_map(|result| match result {
            MultiWriteResult::Create { stat, .. } => Some(stat),
            _ => None,
        });
        let stat = match created {
            Some(stat) if stat.czxid > 0 => stat,
            // Servers have omitted it: see `settle`.
            _ => {
                let read = self.seek("reading a node", client.get_data(new)).await;
                let Some((_, stat)) = read.map_err(StoreError::in_doubt)? else { return Ok(None) };
                stat
            }
        };
        if !self.identity.owns(&stat) {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        }
        Ok(Some(stat))
    }
}
