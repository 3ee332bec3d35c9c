//! Whether the session in use is still the one that was opened.

use std::{
    collections::BTreeSet,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
};

use zookeeper_client as zk;

use crate::runtime::mutex::Mutex;

/// The crate reconnects by itself and takes the session that it is given, also another one than it
/// asked for:
/// <https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/mod.rs#L453>.
/// ZooKeeper never does that; ClickHouse Keeper has done it
/// (<https://github.com/ClickHouse/ClickHouse/issues/116690>). The nodes belong to the old session,
/// and a write in the new one's name keeps none of them.
///
/// Its clients tell the first session's id for ever. But each connection shows in the state, so
/// that only after a new one the server has to be asked.
#[derive(Debug)]
pub(super) struct Identity {
    session: i64,
    /// Has seen the connection that was last known to be the session's.
    known: Mutex<zk::StateWatcher>,
    /// The session's nodes.
    nodes: Mutex<BTreeSet<Arc<str>>>,
}

impl Identity {
    pub(super) fn new(client: &zk::Client) -> Self {
        Self {
            session: client.session_id().0,
            known: Mutex::new(client.state_watcher()),
            nodes: Mutex::default(),
        }
    }

    pub(super) fn owns(&self, stat: &zk::Stat) -> bool {
        stat.ephemeral_owner == self.session
    }

    /// What has to be found out: `None` while the connection is the known one, or nothing is there
    /// to be lost.
    pub(super) async fn question(&self) -> Option<Question> {
        let mut connection = self.known.lock().clone();
        let changed = {
            // Polled once, never awaited.
            let mut changed = pin!(connection.changed());
            poll_fn(|context| Poll::Ready(changed.as_mut().poll(context).is_ready())).await
        };
        let node = self.nodes.lock().first().cloned();
        node.filter(|_| changed).map(|node| Question { node, connection })
    }

    /// The node was found to be this session's: so is the connection.
    pub(super) fn confirmed(&self, question: Question) {
        *self.known.lock() = question.connection;
    }

    pub(super) fn created(&self, node: &Arc<str>) {
        self.nodes.lock().insert(Arc::clone(node));
    }

    pub(super) fn has(&self, node: &str) -> bool {
        self.nodes.lock().contains(node)
    }

    pub(super) fn gone(&self, node: &str) {
        self.nodes.lock().remove(node);
    }
}

/// Does the session own this node?
#[derive(Debug)]
pub(super) struct Question {
    pub(super) node: Arc<str>,
    connection: zk::StateWatcher,
}
