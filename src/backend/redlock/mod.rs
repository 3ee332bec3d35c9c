//! Redlock: one lock on several independent servers of Redis or Valkey. A client holds the lock if
//! a majority of the servers has granted it.
//!
//! There is no queue, because independent servers share no order: waiters poll, see
//! `queue/poll.rs`. On each node a lock is the key `{namespace/name}`. Its value belongs to one
//! attempt, and it has a time to live. `{namespace/name}:token` counts the lock's tokens. Each
//! decision about the replies is in a file of its own, which does nothing else: `round.rs` (is
//! there a majority?), `node_state.rs` and `node_clock.rs` (does a node count?), `token.rs`, and
//! `keys.rs` (until when is the lock confirmed?). The guarantees are in `docs/stores/redlock.md`.

mod contended;
mod keys;
mod link;
mod node;
mod node_clock;
mod node_state;
mod nodes;
mod release;
mod round;
mod script;
mod store;
mod strays;
mod token;

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::future::join_all;

use self::{
    link::{CONNECTING, Link},
    node::Node,
    nodes::Nodes,
    store::RedlockStore,
};
use super::{Backend, Facts, LockStore, Store};
use crate::{
    backend::{Result, StoreError, opening::SHORTEST, remote::Remote, trust},
    error::Error,
    runtime::clock::timeout,
    store_kind::StoreKind,
};

/// The backend of `redlock://`.
#[derive(Debug)]
pub(crate) struct Redlock {
    nodes: Vec<Arc<Node>>,
    remote: Arc<Remote>,
}

impl Redlock {
    pub(crate) fn new(remote: Remote) -> Result<Self, Error> {
        let invalid = |option, reason: &str| Err(Error::invalid(option, reason));
        trust::check(&remote)?;
        let distinct: HashSet<_> = remote.endpoints.iter().collect();
        if distinct.len() < remote.endpoints.len() {
            return invalid(
                "url",
                "a node is listed twice, but each node has only one vote: list each node once",
            );
        }
        if remote.endpoints.len() < 3 || remote.endpoints.len().is_multiple_of(2) {
            return invalid(
                "url",
                "Redlock needs an odd number of nodes, and at least three: an even number adds no \
                 safety",
            );
        }
        let remote = Arc::new(remote);
        let node = |endpoint: &String| Arc::new(Node::new(endpoint, &remote));
        Ok(Self { nodes: remote.endpoints.iter().map(node).collect(), remote })
    }

    /// Connects to all nodes at once. A minority may be unreachable, but every reachable node must
    /// be fit for locks.
    async fn connect(&self) -> Result<Vec<Option<Link>>> {
        let patience = self.remote.opening_timeout().min(Duration::from_secs(2));
        let connecting = self.nodes.iter().map(|node| async {
            timeout(patience, node.connect()).await.unwrap_or_else(|late| {
                let reason = format!("{}: {late}", node.endpoint);
                node.state.lock().trouble = Some(reason.clone());
                Err(StoreError::Unavailable(reason.into()))
            })
        });
        let (mut links, mut troubles) = (Vec::new(), Vec::new());
        let mut runs = HashSet::new();
        for connected in join_all(connecting).await {
            match connected {
                Ok(link) if !runs.insert(link.server.run.clone()) => {
                    let source =
                        "two of the nodes are the same server: list each server once".into();
                    return Err(StoreError::Fatal { operation: CONNECTING, source });
                }
                Ok(link) => links.push(Some(link)),
                Err(StoreError::Unavailable(trouble)) => {
                    troubles.push(trouble.to_string());
                    links.push(None);
                }
                Err(unfit) => return Err(unfit),
            }
        }
        if links.iter().flatten().count() <= self.nodes.len() / 2 {
            let reason =
                format!("fewer than a majority of the nodes replied: {}", troubles.join("; "));
            return Err(StoreError::Unavailable(reason.into()));
        }
        Ok(links)
    }
}

#[async_trait]
impl Backend for Redlock {
    fn kind(&self) -> StoreKind {
        StoreKind::Redlock
    }

    fn queues(&self) -> bool {
        false
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        let ttl = ttl.max(SHORTEST);
        let links = self.connect().await?;
        let serving = self.nodes.iter().zip(links).map(|(node, link)| node.serve(link, ttl));
        let store = RedlockStore::new(Nodes::new(serving, ttl), ttl);
        // A majority must know the TTL before any lock is acquired.
        store.keep_alive().await?;
        let longest = store.longest_ttl();
        if longest > self.remote.longest_ttl {
            let source = format!(
                "a client of these nodes has a TTL of {longest:?}: set longest_ttl to at \
                 least that, in the URLs of all clients"
            );
            return Err(StoreError::Fatal { operation: CONNECTING, source: source.into() });
        }
        Ok((Facts::new(ttl), Arc::new(store)))
    }
}
