//! Writes to own nodes, and puts others into their places.

use zookeeper_client::{self as zk, CreateMode, MultiWriteError, MultiWriteResult};

use super::{ZooKeeperStore, directory::revision};
use crate::{
    backend::{Entry, Rewritten, error::StoreError, name::Ticket, zookeeper::node},
    lost::LostReason,
};

impl ZooKeeperStore {
    /// Writes over a node of this version, by its name, which never comes again.
    pub(super) async fn overwrite(
        &self,
        client: &zk::Client,
        key: &str,
        data: &[u8],
        version: u64,
    ) -> Result<Rewritten, StoreError> {
        let number = |stat: zk::Stat| u64::from(stat.version.unsigned_abs());
        let version = i32::try_from(version).unwrap_or(i32::MAX);
        match self.reply(self.request_timeout, client.set_data(key, data, Some(version))).await? {
            Ok(stat) => return Ok(Rewritten::Done(number(stat))),
            Err(zk::Error::NoNode) => return Ok(Rewritten::Gone),
            Err(zk::Error::BadVersion) => {}
            Err(error) => return Err(self.failed("set", error)),
        }
        match self.reply(self.request_timeout, client.check_stat(key)).await? {
            Ok(stat) => Ok(stat.map_or(Rewritten::Gone, |stat| Rewritten::Not(number(stat)))),
            Err(error) => Err(self.failed("get", error)),
        }
    }

    /// Puts a node with another label into the place of an own one: it has the same tag and number.
    ///
    /// The one that withdraws the ticket may not have heard of it, because the reply was lost or
    /// nobody waited for it: then `leave` finds the node by its place.
    pub(super) async fn exchange(
        &self,
        label: &str,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, StoreError> {
        let client = self.client()?;
        let Some(key) = node::relabelled(&entry.key, label) else {
            let source = format!("{} is no node of ours", entry.key).into();
            return Err(StoreError::Fatal { operation: "relabel", source });
        };
        let data = node::data(ticket, value);
        self.doubtful().insert(ticket);
        let exchanged = self.exchange_once(&client, &entry.key, &key, &data).await?;
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
        Ok(new)
    }

    /// The new node's stat; `None` if neither is there. The create comes first: a server that
    /// showed half of it would show both nodes, not none.
    async fn exchange_once(
        &self,
        client: &zk::Client,
        old: &str,
        new: &str,
        data: &[u8],
    ) -> Result<Option<zk::Stat>, StoreError> {
        let node = CreateMode::Ephemeral.with_acls(self.acls);
        let mut both = client.new_multi_writer();
        let added = both.add_create(new, data, &node).and_then(|()| both.add_delete(old, None));
        added.map_err(|error| self.failed("create", error))?;
        let (_, committed) = self.send(|| both.commit());
        let results = match self.reply(self.request_timeout, committed).await? {
            Ok(results) => results,
            Err(MultiWriteError::OperationFailed { source: zk::Error::NoNode, .. }) => {
                return Ok(None);
            }
            // An earlier attempt's, whose reply was lost.
            Err(MultiWriteError::OperationFailed { index: 0, source: zk::Error::NodeExists }) => {
                return match self.reply(self.request_timeout, client.check_stat(new)).await? {
                    Ok(Some(stat)) if self.identity.owns(&stat) => Ok(Some(stat)),
                    Ok(Some(_)) => {
                        let source = format!("{new} is another session's").into();
                        Err(StoreError::Fatal { operation: "relabel", source })
                    }
                    Ok(None) => Ok(None),
                    Err(error) => Err(StoreError::Unknown(self.failed("get", error).into_source())),
                };
            }
            Err(error) => return Err(self.failed("create", error.into())),
        };
        let created = results.into_iter().find_map(|result| match result {
            MultiWriteResult::Create { stat, .. } => Some(stat),
            _ => None,
        });
        let stat = match created {
            Some(stat) if stat.czxid > 0 => stat,
            // Servers have left it out: see `settle`.
            _ => match self.reply(self.request_timeout, client.get_data(new)).await? {
                Ok((_, stat)) => stat,
                Err(zk::Error::NoNode) => return Ok(None),
                Err(error) => {
                    return Err(StoreError::Unknown(self.failed("get", error).into_source()));
                }
            },
        };
        if !self.identity.owns(&stat) {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        }
        Ok(Some(stat))
    }
}
