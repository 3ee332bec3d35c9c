//! Searches for nodes whose creation was never answered.

use std::sync::Arc;

use zookeeper_client as zk;

use super::{Request, ZooKeeperStore};
use crate::backend::{Result, SequencePoint, Ticket, zookeeper::names};

/// The result of a search, shared by all callers that wait for one. A lost connection leaves
/// thousands of tickets in doubt at once.
#[derive(Debug, Default)]
pub(super) struct Search {
    at: Option<SequencePoint>,
    /// This session's nodes that no attempt has claimed yet, with the tickets in them.
    found: Vec<(Box<str>, Arc<str>)>,
}

impl Search {
    /// Returns `true` if the search would have found a node that was requested before `since`.
    fn covers(&self, since: SequencePoint) -> bool {
        self.at.is_some_and(|at| at > since)
    }
}

impl ZooKeeperStore {
    /// Returns the node in `dir` that this session has created for a ticket, if it exists.
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
        // The current state: see `list_now`.
        let (at, (sync, list)) = self.send(|| (client.sync("/"), client.list_ephemerals("/")));
        let listed = self.synced(sync, list).await?;
        let keys = listed.map_err(|error| self.failed("listing nodes", error))?;
        let mut found = Vec::new();
        for (key, data) in self.unclaimed(keys.into_iter().map(Arc::from)).await? {
            match names::ticket_in(&data) {
                Some(ticket) => found.push((ticket.into(), key)),
                // An operator has overwritten it, and no attempt can claim it. All other clients
                // would wait behind it as long as the session lives. If other requests are in
                // doubt, it may belong to one of them, which is about to receive it and hold the
                // lock.
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

    /// Removes this session's nodes that belong to no attempt.
    ///
    /// A server rejects a request from a former connection of the session
    /// (`SessionMovedException`). There is one exception: the client's next request for the session
    /// was equally late and reached the same server. Then the former connection is the session's
    /// once more. A network that recovers after a while delivers both requests at the same moment.
    /// The node that the first one creates would block its queue as long as the session lives.
    pub(super) async fn remove_strays(&self, keys: &[Arc<str>]) -> Result<()> {
        for (key, data) in self.unclaimed(keys.iter().map(Arc::clone)).await? {
            let ticket = names::ticket_in(&data).and_then(Ticket::parse);
            let client = self.client()?;
            // A later attempt sends its request after this one, so the server serves it later.
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

    /// Returns this session's nodes that are not known to belong to an attempt, with their data.
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
            Err(error) => Err(self.failed("deleting a node", error)),
        }
    }
}
