//! Checks that the session in use is still the one that was opened.

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

/// The identity of the session.
///
/// The crate reconnects by itself, and accepts whatever session it is given, even another one than
/// it requested:
/// <https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/mod.rs#L453>.
/// ZooKeeper never gives another session; ClickHouse Keeper has done so
/// (<https://github.com/ClickHouse/ClickHouse/issues/116690>). The nodes belong to the old session,
/// and a write in the new session keeps none of them.
///
/// The crate's client returns the first session's ID for ever. But each new connection shows in its
/// state, so the server must be queried only after a new connection.
#[derive(Debug)]
pub(super) struct Identity {
    session: i64,
    changes: Arc<Mutex<Changes>>,
    /// The number of changes when the connection was last known to be the session's.
    known: Mutex<u64>,
    /// The session's nodes.
    nodes: Mutex<BTreeSet<Arc<str>>>,
    /// When the crate reported the end of the session, or a moment later.
    over: watch::Receiver<Option<Duration>>,
}

/// Counts the changes of the session's state.
///
/// One future does that, and it is never dropped while it waits. In asyncs-sync 0.4.0, which the
/// crate uses, a waiter that is dropped just as the state changes is removed from a list that no
/// longer exists. That overwrites whatever is in the list's place, and may have crashed a process.
/// The code checks for a notification before it has the lock, and not again:
/// <https://docs.rs/asyncs-sync/0.4.0/src/asyncs_sync/notify.rs.html#434>.
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

    /// Returns the number of changes so far.
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
            // The future waits for no change after the last one, so it may be dropped then.
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

    /// Waits until the crate reports the end of the session, and returns when it did.
    pub(super) async fn ended(&self) -> Duration {
        let over = self.over.clone().wait_for(Option::is_some).await.ok().and_then(|over| *over);
        match over {
            Some(at) => at,
            // The runtime ends, which says nothing about the session.
            None => std::future::pending().await,
        }
    }

    pub(super) fn owns(&self, stat: &zk::Stat) -> bool {
        stat.ephemeral_owner == self.session
    }

    /// Returns what must be verified; `None` while the connection is the known one, or there is no
    /// node to lose.
    pub(super) fn question(&self) -> Option<Question> {
        let changes = self.changes.lock().count();
        let changed = changes != *self.known.lock();
        let node = self.nodes.lock().first().cloned();
        node.filter(|_| changed).map(|node| Question { node, changes })
    }

    /// Records that the node, and so the connection, is this session's.
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

/// A question: does the session own this node?
#[derive(Debug)]
pub(super) struct Question {
    pub(super) node: Arc<str>,
    changes: u64,
}
