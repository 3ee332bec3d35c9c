//! Whether the session in use is still the one that was opened.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use tokio::sync::watch;
use zookeeper_client as zk;

use crate::runtime::{clock, executor::spawn_beside, mutex::Mutex};

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
    changes: Arc<Mutex<Changes>>,
    /// How many changes there had been when the connection was last known to be the session's.
    known: Mutex<u64>,
    /// The session's nodes.
    nodes: Mutex<BTreeSet<Arc<str>>>,
    /// When the crate said that the session is over, or a moment later.
    over: watch::Receiver<Option<Duration>>,
}

/// Counts the changes of the session's state.
///
/// One future does that, and it is not dropped while it waits: in asyncs-sync 0.4.0, which the
/// crate uses, a waiter that is dropped just as the state changes is taken out of a list that is no
/// more, and what happens to be in its place is written over. A process that crashed may have died
/// of that.
/// <https://docs.rs/asyncs-sync/0.4.0/src/asyncs_sync/notify.rs.html#434> looks for a notification
/// before it has the lock, and not again.
struct Changes {
    next: Pin<Box<dyn Future<Output = zk::StateWatcher> + Send>>,
    count: u64,
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("count", &self.count).finish_non_exhaustive()
    }
}

impl Changes {
    fn after(mut state: zk::StateWatcher, count: u64) -> Self {
        let next = Box::pin(async move {
            state.changed().await;
            state
        });
        Self { next, count }
    }

    /// How many there have been by now.
    fn count(&mut self) -> u64 {
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(state) = self.next.as_mut().poll(&mut context) {
            *self = Self::after(state, self.count + 1);
        }
        self.count
    }
}

impl Identity {
    pub(super) fn new(client: &zk::Client) -> Self {
        let changes = Arc::new(Mutex::new(Changes::after(client.state_watcher(), 0)));
        let (ended, over) = watch::channel(None);
        let (mut state, rest) = (client.state_watcher(), Arc::clone(&changes));
        spawn_beside(async move {
            while !state.peek_state().is_terminated() {
                state.changed().await;
            }
            // The last change is the last thing that it waits for: it may be dropped then.
            rest.lock().count();
            ended.send_replace(Some(clock::now()));
        });
        Self {
            session: client.session_id().0,
            changes,
            known: Mutex::new(0),
            nodes: Mutex::default(),
            over,
        }
    }

    /// Returns when the crate says that the session is over; tells when it said so.
    pub(super) async fn ended(&self) -> Duration {
        let over = self.over.clone().wait_for(Option::is_some).await.ok().and_then(|over| *over);
        match over {
            Some(at) => at,
            // The runtime ends, which says nothing of the session.
            None => std::future::pending().await,
        }
    }

    pub(super) fn owns(&self, stat: &zk::Stat) -> bool {
        stat.ephemeral_owner == self.session
    }

    /// What has to be found out: `None` while the connection is the known one, or nothing is there
    /// to be lost.
    pub(super) fn question(&self) -> Option<Question> {
        let changes = self.changes.lock().count();
        let changed = changes != *self.known.lock();
        let node = self.nodes.lock().first().cloned();
        node.filter(|_| changed).map(|node| Question { node, changes })
    }

    /// The node was found to be this session's: so is the connection.
    pub(super) fn confirmed(&self, question: Question) {
        let mut known = self.known.lock();
        *known = question.changes.max(*known);
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
    changes: u64,
}
