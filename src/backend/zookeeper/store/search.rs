//! Looks for nodes whose creation was never answered.

use std::sync::Arc;

use zookeeper_client as zk;

use super::{Request, ZooKeeperStore};
use crate::backend::{Result, SequencePoint, Ticket, zookeeper::names};

/// What a search has found, for all who wait for one: a lost connection leaves thousands in doubt
/// at once.
#[derive(Debug, Default)]
pub(super) struct Search {
    at: Option<SequencePoint>,
    /// This session's nodes that are nobody's place yet, by the tickets in them.
    found: Vec<(Box<str>, Arc<str>)>,
}

impl Search {
    /// Whether it would have found what was sent before `since`.
    fn covers(&self, since: SequencePoint) -> bool {
        self.at.is_some_and(|at| at > since)
    }
}

impl ZooKeeperStore {
    /// The node in `dir` that this session has created for a ticket, if it has.
    pub(super) async fn find(&self, dir: &str, ticket: Ticket) -> Result<Option<Arc<str>>> {
        let (since, ()) = self.send(|| ());
        let mut search = self.reply(self.search.lock()).await?;
        if !search.covers(since) {
            *search = self.search(ticket).await?;
        }
        let ticket = ticket.to_string();
        let mut found =
            search.found.iter().filter(|(of, key)| **of == *ticket && names::split(key).0 == dir);
        Ok(found.next().map(|(_, key)| Arc::clone(key)))
    }

    async fn search(&self, ticket: Ticket) -> Result<Search> {
        let client = self.client()?;
        // As of now: see `list_now`.
        let (at, (sync, list)) = self.send(|| (client.sync("/"), client.list_ephemerals("/")));
        let listed = self.synced(sync, list).await?;
        let keys = listed.map_err(|error| self.failed("list", error))?;
        let mut found = Vec::new();
        for (key, data) in self.unclaimed(keys.into_iter().map(Arc::from)).await? {
            match names::ticket_in(&data) {
                Some(ticket) => found.push((ticket.into(), key)),
                // Somebody has written over it, and nobody can claim it: all others would stand
                // behind it for as long as the session lives. It may be another's who is about to
                // hear of it, and hold it, unless no other request is in doubt.
                None => {
                    let only = self.doubtful().iter().all(|doubtful| *doubtful == ticket);
                    if !only || self.identity.has(&key) {
                        continue;
                    }
                    self.remove_if_there(client.delete(&key, None)).await?;
                }
            }
        }
        Ok(Search { at: Some(at), found })
    }

    /// Removes this session's nodes that no attempt has.
    ///
    /// A server refuses what came by a former connection of the session (`SessionMovedException`),
    /// unless the client's next request for the session was as late, by the same server: that makes
    /// the former connection the session's once more. A network that comes back after a while
    /// delivers both in the same moment, and the node that the one creates would block its queue
    /// for as long as the session lives.
    pub(super) async fn remove_strays(&self, keys: &[Arc<str>]) -> Result<()> {
        for (key, data) in self.unclaimed(keys.iter().map(Arc::clone)).await? {
            let ticket = names::ticket_in(&data).and_then(Ticket::parse);
            let client = self.client()?;
            // A later attempt's request is sent after this one, so that it is served after it.
            let (_, deleted) = self.send(|| {
                let doubtful = self.doubtful();
                let sought = ticket.map_or(!doubtful.is_empty(), |of| doubtful.contains(&of));
                (!sought && !self.identity.has(&key)).then(|| client.delete(&key, None))
            });
            if let Some(deleted) = deleted {
                self.remove_if_there(deleted).await?;
            }
        }
        Ok(())
    }

    /// Those of the nodes that are this session's and not known to be an attempt's, with what is
    /// written into them.
    async fn unclaimed(
        &self,
        keys: impl Iterator<Item = Arc<str>>,
    ) -> Result<Vec<(Arc<str>, Vec<u8>)>> {
        let unclaimed =
            keys.filter(|key| names::sequence(key).is_some() && !self.identity.has(key));
        let nodes = self.read(unclaimed.collect()).await?;
        let own = nodes.into_iter().filter(|(.., stat)| self.identity.owns(stat));
        Ok(own.map(|(key, data, _)| (key, data)).collect())
    }

    async fn remove_if_there(&self, deletion: impl Request<()>) -> Result<()> {
        match self.reply(deletion).await? {
            Ok(()) | Err(zk::Error::NoNode | zk::Error::NoAuth) => Ok(()),
            Err(error) => Err(self.failed("delete", error)),
        }
    }
}
