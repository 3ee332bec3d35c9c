//! Looks for nodes whose creation was never answered.

use std::sync::Arc;

use zookeeper_client as zk;

use super::ZooKeeperStore;
use crate::backend::{SequencePoint, error::Result, name::Ticket, zookeeper::names};

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
        let unclaimed = keys
            .into_iter()
            .filter(|key| names::sequence(key).is_some() && !self.identity.has(key));
        let nodes = self.read(unclaimed.map(Arc::from).collect()).await?;
        let own = nodes.into_iter().filter(|(.., stat)| self.identity.owns(stat));
        let mut found = Vec::new();
        for (key, data, _) in own {
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
                    match self.reply(client.delete(&key, None)).await? {
                        Ok(()) | Err(zk::Error::NoNode | zk::Error::NoAuth) => {}
                        Err(error) => return Err(self.failed("delete", error)),
                    }
                }
            }
        }
        Ok(Search { at: Some(at), found })
    }
}
