//! One ZooKeeper session.

mod commit;
mod directory;
mod join;
mod leave;
mod list;
mod relabel;
mod search;
mod watch;

use std::{
    collections::HashSet,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync, time::timeout};
use zookeeper_client::{self as zk, MultiWriteError, SessionState};

use self::search::Search;
use super::{error, identity::Identity, node, tags::Tags};
use crate::{
    backend::{
        Ask, Entry, Extras, Join, Joined, Leaving, Left, Listing, Moment, Present, Rewritten,
        Standing, Store, Watch, Write,
        error::StoreError,
        name::{Queue, Ticket},
    },
    lost::LostReason,
};

/// How much a session can watch. After a reconnect the crate restores watches in batches of 128 KiB
/// of paths that all have one xid, so that the replies to a second batch kill the session:
/// <https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/watch.rs#L425>. A
/// little room is left for foreign names that are longer than ours.
pub(super) const WATCH_BUDGET: usize = 120 * 1024;

/// What a write that came back proves: how long the leader keeps the session, counted from when the
/// write was sent.
///
/// Not the whole timeout T. A write sent to a follower is checked against the session at the leader
/// (`PrepRequestProcessor`, `SessionTrackerImpl.checkSession`) but does not renew it there:
/// `LeaderZooKeeperServer.submitLearnerRequest` skips the `touch` of
/// `ZooKeeperServer.submitRequestNow`. What a follower has heard of its sessions it tells in its
/// answers to the leader's pings, every half tick (`Leader.lead`, `LearnerHandler` case `PING`).
/// Should it be cut off right after our write, the leader last heard of what we sent up to half a
/// tick and one pause between our requests before: at most T/4 (the servers grant no less than two
/// ticks) and T/8 (`ZooKeeper::patience`). So 5/8 T are certain; distlock takes off a tenth of what
/// is said here, and 9/10 of 2/3 is less. A process that stood still has made a longer pause:
/// `silence.rs` tells what its writes prove.
fn granted(ttl: Duration) -> Duration {
    ttl * 2 / 3
}

#[derive(Debug)]
pub(super) struct ZooKeeperStore {
    /// `None` once closed. The crate ends the session when the last clone is dropped.
    client: Mutex<Option<zk::Client>>,
    closed: sync::watch::Sender<bool>,
    /// The state it was first closed in.
    closed_in: OnceLock<SessionState>,
    /// Does not keep the session open.
    state: zk::StateWatcher,
    identity: Identity,
    ttl: Duration,
    request_timeout: Duration,
    acls: zk::Acls<'static>,
    tags: Arc<Tags>,
    /// How many requests have been sent whose order is of interest.
    sent: Mutex<u64>,
    /// Tickets whose node may have been created although no reply said so, or may have another name
    /// than its owner knows.
    doubtful: Mutex<HashSet<Ticket>>,
    /// The last search for such nodes.
    search: sync::Mutex<Search>,
    /// Nodes that are named like waiters' and were seen to be nobody's.
    junk: Mutex<HashSet<Box<str>>>,
}

impl ZooKeeperStore {
    pub(super) fn new(
        client: zk::Client,
        acls: zk::Acls<'static>,
        tags: Arc<Tags>,
        request_timeout: Duration,
    ) -> Self {
        let (state, ttl) = (client.state_watcher(), client.session_timeout());
        let identity = Identity::new(&client);
        let (client, closed) = (Mutex::new(Some(client)), sync::watch::Sender::new(false));
        Self {
            client,
            closed,
            closed_in: OnceLock::new(),
            state,
            identity,
            ttl,
            request_timeout,
            acls,
            tags,
            sent: Mutex::default(),
            doubtful: Mutex::default(),
            search: sync::Mutex::default(),
            junk: Mutex::default(),
        }
    }

    /// For one call: none may keep it longer, or the session could not be closed.
    fn client(&self) -> Result<zk::Client, StoreError> {
        lock(&self.client).clone().ok_or_else(|| StoreError::SessionGone(self.over()))
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<Ticket>> {
        lock(&self.doubtful)
    }

    /// Sends a request, or several in one flight, and tells its place in the order of this
    /// session's.
    ///
    /// The crate sends when its method is called, by one channel to one task
    /// (<https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/client/mod.rs#L213>), and
    /// that has one connection at a time. A server serves a connection's requests in the order in
    /// which they came. What has no reply when the connection is lost, written or not, fails and is
    /// never sent again (`Depot::error`, `Depot::reset`); so of two requests that were *answered*,
    /// the one sent first was served first, be they of one connection or of two. That is no word on
    /// a request whose reply was lost.
    fn send<T>(&self, send: impl FnOnce() -> T) -> (Moment, T) {
        let mut sent = lock(&self.sent);
        *sent += 1;
        (Moment(*sent), send())
    }

    /// Awaits the reply to a request, or to several in one flight. The crate sends a request when
    /// its method is called, whether or not the future is ever polled, and waits without a limit.
    async fn reply<T>(
        &self,
        limit: Duration,
        reply: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(StoreError::SessionGone(self.over())),
            reply = timeout(limit, reply) => {
                reply.map_err(|_| StoreError::Unknown(format!("no answer within {limit:?}").into()))
            }
        }
    }

    /// Why the session is over. A session that ended by itself is closed as well, while calls may
    /// still be under way.
    fn over(&self) -> LostReason {
        match self.closed_in.get() {
            Some(state) if !state.is_terminated() => LostReason::ClientClosed,
            _ => LostReason::SessionExpired,
        }
    }

    fn failed(&self, operation: &'static str, error: zk::Error) -> StoreError {
        error::judge(operation, error, || self.over())
    }

    /// Makes sure that what was just confirmed was confirmed to the session whose nodes ours are.
    async fn identify(&self, client: &zk::Client) -> Result<(), StoreError> {
        // Once more if there was yet another connection meanwhile.
        while let Some(question) = self.identity.question().await {
            let listed =
                self.reply(self.request_timeout, client.list_ephemerals(&question.node)).await?;
            match listed {
                Ok(own) if own.iter().any(|own| **own == *question.node) => {
                    self.identity.confirmed(question)
                }
                Ok(_) => match self
                    .reply(self.request_timeout, client.check_stat(&question.node))
                    .await?
                {
                    Ok(Some(stat)) if self.identity.owns(&stat) => {
                        return Err(StoreError::SessionGone(LostReason::SessionExpired));
                    }
                    // Deleted meanwhile: it tells nothing.
                    Ok(_) => self.identity.gone(&question.node),
                    Err(error) => return Err(self.failed("get", error)),
                },
                Err(error) => return Err(self.failed("list", error)),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for ZooKeeperStore {
    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        let client = self.client()?;
        // A `multi` goes through the leader's session check and the quorum's log even when nothing
        // in it changes anything, and needs no node of ours. Whatever its one `check` finds, it was
        // found there.
        let mut writer = client.new_multi_writer();
        writer.add_check_version("/", -1).map_err(|error| self.failed("keep alive", error))?;
        let commit = self.reply(self.ttl, writer.commit());
        // In one flight: connections on a slow network may not last for two.
        let (committed, identified) = tokio::join!(commit, self.identify(&client));
        match committed? {
            Ok(_)
            | Err(MultiWriteError::OperationFailed {
                source: zk::Error::NoNode | zk::Error::NoAuth | zk::Error::BadVersion,
                ..
            }) => {}
            Err(error) => return Err(self.failed("keep alive", error.into())),
        }
        identified?;
        // The answer may have come by another connection yet.
        self.identify(&client).await?;
        Ok(granted(self.ttl))
    }

    async fn enqueue(
        &self,
        queue: &Queue,
        ticket: Ticket,
        value: &[u8],
        join: Join,
    ) -> Result<Joined, StoreError> {
        self.join(queue, ticket, value, join).await
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        self.stands(&self.client()?, &entry.key).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError> {
        self.look(&self.client()?, entry, ahead).await
    }

    fn tells_releases(&self, ahead: &Entry) -> bool {
        node::is_marked(&ahead.key)
    }

    /// Any server may answer: a session never goes back to an older state than its own writes had.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>, StoreError> {
        let client = self.client()?;
        let listed = self.reply(self.request_timeout, client.list_ephemerals("/")).await?;
        let keys = listed.map_err(|error| self.failed("list", error))?;
        Ok(keys.into_iter().map(Into::into).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>, StoreError> {
        let client = self.client()?;
        // By reading the node: a watch for its existence would stay behind on a node that is gone
        // already.
        match self.reply(self.request_timeout, client.get_and_watch_data(&entry.key)).await? {
            Ok((_, stat, _)) if node::is_nobodys(&stat) => {
                self.remember_junk(&entry.key);
                Ok(None)
            }
            Ok((.., watcher)) => Ok(Some(watch::watch(watcher))),
            Err(zk::Error::NoNode) => Ok(None),
            Err(error) => Err(self.failed("watch", error)),
        }
    }

    async fn leave(
        &self,
        queue: &Queue,
        ticket: Ticket,
        leave: Leaving<'_>,
    ) -> Result<Left, StoreError> {
        self.leave(queue, ticket, leave).await
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing, StoreError> {
        self.listing(&self.client()?, queue.dir(), ask).await
    }

    /// Told by the server when it refuses the session, or else by the crate's own count, long after
    /// the deadline.
    async fn ended(&self) -> LostReason {
        let mut state = self.state.clone();
        while !state.peek_state().is_terminated() {
            state.changed().await;
        }
        self.over()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let mut state = self.state.clone();
        let was = *self.closed_in.get_or_init(|| state.peek_state());
        // Calls under way see it and let go of their clones.
        self.closed.send_replace(true);
        drop(lock(&self.client).take());
        let over = async {
            while !state.peek_state().is_terminated() {
                state.changed().await;
            }
        };
        let ended = timeout(self.request_timeout, over).await.is_ok();
        // An expiry that comes only now is the crate's own count more often than the server's word.
        if ended && (was.is_terminated() || self.state.peek_state() == SessionState::Closed) {
            return Ok(());
        }
        Err(StoreError::Unknown("no server has confirmed the end of the session".into()))
    }
}

#[async_trait]
impl Extras for ZooKeeperStore {
    async fn rewrite(
        &self,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
        version: Option<u64>,
    ) -> Result<Rewritten, StoreError> {
        self.overwrite(
            &self.client()?,
            &entry.key,
            &node::data(ticket, value),
            version.unwrap_or(0),
        )
        .await
    }

    async fn relabel(
        &self,
        _: &Queue,
        to: &Queue,
        ticket: Ticket,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, StoreError> {
        self.exchange(to.label(), ticket, entry, value).await
    }

    async fn commit(&self, guard: Option<&Entry>, writes: &[Write]) -> Result<bool, StoreError> {
        self.write(&self.client()?, guard.map(|guard| &*guard.key), writes).await
    }

    /// All others in the directory joined later.
    async fn followed(&self, entry: &Entry) -> Result<bool, StoreError> {
        let client = self.client()?;
        let stat =
            self.reply(self.request_timeout, client.check_stat(node::split(&entry.key).0)).await?;
        let stat = stat.map_err(|error| self.failed("exists", error))?;
        Ok(stat.is_none_or(|stat| stat.num_children > 1))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while one is locked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_ends_before_the_leader_can_free_the_session() {
        let ttl = Duration::from_secs(40);
        assert!(granted(ttl) * 9 / 10 + ttl / 4 + ttl / 8 < ttl);
    }
}
