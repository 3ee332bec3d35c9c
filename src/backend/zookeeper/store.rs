//! One ZooKeeper session.

mod commit;
mod created;
mod directory;
mod extras;
mod join;
mod leave;
mod list;
mod search;
mod together;
mod watch;

use std::{
    collections::HashSet,
    future::Future,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync;
use zookeeper_client::{self as zk, MultiWriteError, SessionState};

use self::{search::Search, together::Lists};
use super::{ZooKeeper, error, identity::Identity, names, renewal::renewed_for, tags::Tags};
use crate::{
    backend::{
        Ask, Entry, Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore, Present,
        Queue, Result, SequencePoint, Specifics, Standing, StoreError, Ticket, Watch,
    },
    lost::LostReason,
    runtime::{
        clock::{self, timeout},
        mutex::{Mutex, MutexGuard},
    },
};

/// How many bytes of paths a session can watch. After a reconnect the crate restores watches in
/// batches of 128 KiB of paths. All batches have the same xid, so the replies to a second batch
/// kill the session:
/// <https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/watch.rs#L425>. The
/// rest is left for foreign names that are longer than ours.
pub(super) const WATCH_BUDGET: usize = 120 * 1024;

/// How many bytes of paths a session's nodes may have. The server writes all of them into the one
/// transaction that ends the session. No server can read a transaction of more than twice its
/// `jute.maxbuffer` (2 MiB by default). Then the whole ensemble stops, and does not start again
/// (<https://issues.apache.org/jira/browse/ZOOKEEPER-4306>). A quarter of that leaves room for
/// ensembles whose limit was lowered.
pub(super) const KEY_BUDGET: usize = 512 * 1024;

#[derive(Debug)]
pub(super) struct ZooKeeperStore {
    /// This store, for requests that outlive the call that sent them.
    this: Weak<Self>,
    /// `None` once closed. The crate ends the session when the last clone is dropped.
    client: Mutex<Option<zk::Client>>,
    closed: sync::watch::Sender<bool>,
    /// The session's state when it was first closed.
    closed_in: OnceLock<SessionState>,
    /// The session's state. It does not keep the session open.
    state: zk::StateWatcher,
    identity: Identity,
    ttl: Duration,
    request_timeout: Duration,
    acls: Arc<[zk::Acl]>,
    tags: Arc<Tags>,
    /// When the latest answered request was sent.
    answered: Mutex<Duration>,
    /// The number of requests so far whose order matters.
    sent: Mutex<u64>,
    /// Tickets whose node may have been created although the reply was lost.
    doubtful: Mutex<HashSet<Ticket>>,
    /// Tickets whose node may have another name than its owner knows.
    renamed: Mutex<HashSet<Ticket>>,
    /// The last search for such nodes.
    search: sync::Mutex<Search>,
    lists: Lists,
    /// Nodes that are named like waiters', but were found to belong to no session.
    junk: Mutex<HashSet<Box<str>>>,
}

/// A request's future, as the crate returns it.
trait Request<T>: Future<Output = Result<T, zk::Error>> {}

impl<T, F: Future<Output = Result<T, zk::Error>>> Request<T> for F {}

/// The outcome of a transaction, if it is known.
type Committed = Result<Vec<zk::MultiWriteResult>, Refusal>;

/// The index of the operation that failed, unless the whole request failed, and the error.
type Refusal = (Option<usize>, zk::Error);

impl ZooKeeperStore {
    /// Creates the store of a session that was requested at `sent`.
    pub(super) fn new(backend: &ZooKeeper, client: zk::Client, sent: Duration) -> Arc<Self> {
        let (state, ttl) = (client.state_watcher(), client.session_timeout());
        let identity = Identity::new(&client);
        let (client, closed) = (Mutex::new(Some(client)), sync::watch::Sender::new(false));
        Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            client,
            closed,
            closed_in: OnceLock::new(),
            state,
            identity,
            ttl,
            request_timeout: backend.remote.request_timeout,
            acls: Arc::clone(&backend.acls),
            tags: Arc::clone(&backend.tags),
            answered: Mutex::new(sent),
            sent: Mutex::default(),
            doubtful: Mutex::default(),
            renamed: Mutex::default(),
            search: sync::Mutex::default(),
            lists: Lists::default(),
            junk: Mutex::default(),
        })
    }

    pub(super) fn acls(&self) -> zk::Acls<'_> {
        zk::Acls::new(&self.acls)
    }

    /// Returns the client for one call. No call may keep it longer, or the session could not be
    /// closed.
    fn client(&self) -> Result<zk::Client> {
        self.client.lock().clone().ok_or_else(|| StoreError::SessionGone(self.over()))
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<Ticket>> {
        self.doubtful.lock()
    }

    /// Sends a request, or several without waiting in between, and returns the request's place in
    /// the session's order.
    ///
    /// The crate sends a request when its method is called, through one channel to one task
    /// (<https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/client/mod.rs#L213>).
    /// That task has one connection at a time, and a server serves a connection's requests in the
    /// order of their arrival. A request without a reply when the connection is lost, written or
    /// not, fails and is never sent again (`Depot::error`, `Depot::reset`). So of two *answered*
    /// requests, the one that was sent first was served first, on one connection or on two. This
    /// proves nothing about a request whose reply was lost.
    fn send<T>(&self, send: impl FnOnce() -> T) -> (SequencePoint, T) {
        let mut sent = self.sent.lock();
        *sent += 1;
        (SequencePoint(*sent), send())
    }

    /// Awaits the reply to a request, or to several that were sent together. The crate sends a
    /// request when its method is called, even if the future is never polled, and waits without a
    /// limit.
    async fn reply<T>(&self, reply: impl Future<Output = T>) -> Result<T> {
        self.reply_within(self.request_timeout, reply).await
    }

    async fn reply_within<T>(&self, limit: Duration, reply: impl Future<Output = T>) -> Result<T> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(StoreError::SessionGone(self.over())),
            reply = timeout(limit, reply) => {
                reply.map_err(|_| StoreError::Unknown(format!("no reply within {limit:?}").into()))
            }
        }
    }

    /// Awaits the server's reply to a request.
    async fn ask<T>(&self, operation: &'static str, request: impl Request<T>) -> Result<T> {
        self.reply(request).await?.map_err(|error| self.failed(operation, error))
    }

    /// Awaits the reply to a request about a node; `None` if the node does not exist.
    async fn seek<T>(
        &self,
        operation: &'static str,
        request: impl Request<T>,
    ) -> Result<Option<T>> {
        self.found(operation, self.reply(request).await?)
    }

    fn found<T>(&self, operation: &'static str, answer: Result<T, zk::Error>) -> Result<Option<T>> {
        match answer {
            Err(zk::Error::NoNode) => Ok(None),
            answer => answer.map(Some).map_err(|error| self.failed(operation, error)),
        }
    }

    /// Awaits the reply to a request that was sent just after a `sync`, so that it is from a server
    /// that has caught up.
    async fn synced<T>(
        &self,
        sync: impl Request<()>,
        request: impl Future<Output = T>,
    ) -> Result<T> {
        let (synced, answer) = self.reply(async { tokio::join!(sync, request) }).await?;
        synced.map_err(|error| self.failed("syncing with the leader", error))?;
        Ok(answer)
    }

    /// Commits a transaction. Also returns its place in the order of this session's requests.
    async fn transact(
        &self,
        mut writer: zk::MultiWriter<'_>,
    ) -> Result<(SequencePoint, Committed)> {
        let (at, committed) = self.send(|| writer.commit());
        let committed = self.reply(committed).await?.map_err(|error| match error {
            MultiWriteError::OperationFailed { index, source } => (Some(index), source),
            MultiWriteError::RequestFailed { source } => (None, source),
        });
        Ok((at, committed))
    }

    /// Records that a request of this time was answered.
    fn answered(&self, sent: Duration) {
        let mut answered = self.answered.lock();
        *answered = sent.max(*answered);
    }

    /// Returns `true` if the server has confirmed the end of the session, which was reported at
    /// `at`.
    ///
    /// [`SessionState::Closed`] is the reply to our request. That reply may be lost, because the
    /// server closes the connection after it. Then the crate reconnects, and the server replies
    /// that there is no such session ([`SessionState::Expired`]). The crate reports the same state
    /// by its own clock, but no sooner than 7/5 of the timeout after the last packet
    /// (<https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/mod.rs#L433>).
    fn is_servers_word(&self, at: Duration) -> bool {
        match self.state.peek_state() {
            SessionState::Closed => true,
            SessionState::Expired => at < *self.answered.lock() + self.ttl * 7 / 5,
            _ => false,
        }
    }

    /// Returns why the session has ended. A session that ended by itself is also closed, while
    /// calls may still be pending.
    fn over(&self) -> LostReason {
        match self.closed_in.get() {
            Some(state) if !state.is_terminated() => LostReason::ClientClosed,
            _ => LostReason::SessionExpired,
        }
    }

    fn failed(&self, operation: &'static str, error: zk::Error) -> StoreError {
        error::judge(operation, error, || self.over())
    }

    /// Checks that the last confirmation was for the session that owns our nodes.
    async fn identify(&self) -> Result<()> {
        // Repeated if there was another new connection in the meantime.
        while let Some(question) = self.identity.question() {
            let client = self.client()?;
            let own = self.ask("listing nodes", client.list_ephemerals(&question.node)).await?;
            if own.iter().any(|own| **own == *question.node) {
                self.identity.confirmed(question);
                continue;
            }
            match self.ask("reading a node", client.check_stat(&question.node)).await? {
                Some(stat) if self.identity.owns(&stat) => {
                    return Err(StoreError::SessionGone(LostReason::SessionExpired));
                }
                // The node was deleted in the meantime, so it proves nothing.
                _ => self.identity.gone(&question.node),
            }
        }
        Ok(())
    }
}

#[async_trait]
impl LockStore for ZooKeeperStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let (client, sent) = (self.client()?, clock::now());
        // A `multi` passes the leader's session check and the quorum's log even if it changes
        // nothing, and needs no node of ours. Whatever the result of its one `check` is, the quorum
        // has produced it.
        let mut writer = client.new_multi_writer();
        writer
            .add_check_version("/", -1)
            .map_err(|error| self.failed("renewing a session", error))?;
        let commit = self.reply_within(self.ttl, writer.commit());
        // Sent together: connections on a slow network may not live long enough for one after the
        // other.
        let (committed, identified) = tokio::join!(commit, self.identify());
        match committed? {
            Ok(_)
            | Err(MultiWriteError::OperationFailed {
                source: zk::Error::NoNode | zk::Error::NoAuth | zk::Error::BadVersion,
                ..
            }) => {}
            Err(error) => return Err(self.failed("renewing a session", error.into())),
        }
        self.answered(sent);
        identified?;
        // The reply may have come on another connection.
        self.identify().await?;
        Ok(renewed_for(self.ttl))
    }

    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined> {
        let sent = clock::now();
        let joined = self.join(joiner, value, join).await;
        joined.inspect(|_| self.answered(sent))
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        self.stands(&entry.key).await
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        self.look(entry, ahead).await
    }

    /// Any server may answer, because a session never returns to a state older than its own writes.
    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let keys = self.ask("listing nodes", self.client()?.list_ephemerals("/")).await?;
        let keys: Vec<Arc<str>> = keys.into_iter().map(Into::into).collect();
        match self.remove_strays(&keys).await {
            Err(gone @ StoreError::SessionGone(_)) => Err(gone),
            // The next call tries again. The state of the other keys must not depend on this read:
            // a node that the user may not read would hide it from each list.
            _ => Ok(keys),
        }
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        // This reads the node, because a watch for its existence would remain on a node that is
        // already gone.
        let read =
            self.seek("watching a node", self.client()?.get_and_watch_data(&entry.key)).await?;
        let Some((_, stat, watcher)) = read else { return Ok(None) };
        if names::is_nobodys(&stat) {
            self.remember_junk(&entry.key);
            return Ok(None);
        }
        Ok(Some(watch::watch(watcher)))
    }

    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        let sent = clock::now();
        self.leave(joiner, leave).await.inspect(|_| self.answered(sent))
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        match ask {
            Ask { values: false, watch: false, fresh: false, .. } => self.listed(queue.dir()).await,
            ask => self.listing(queue.dir(), ask).await,
        }
    }

    async fn close(&self) -> Result<()> {
        let was = *self.closed_in.get_or_init(|| self.state.peek_state());
        // Pending calls are notified and drop their clones.
        self.closed.send_replace(true);
        drop(self.client.lock().take());
        // The servers keep the session of a client whose credentials they refuse.
        let ended = was.is_terminated() && was != SessionState::AuthFailed;
        match timeout(self.request_timeout, self.identity.ended()).await {
            Ok(at) if ended || self.is_servers_word(at) => Ok(()),
            _ => {
                let reason = "no server has confirmed the end of the session";
                Err(StoreError::Unknown(reason.into()))
            }
        }
    }
}

#[async_trait]
impl Specifics for ZooKeeperStore {
    fn marks_releases(&self, ahead: &Entry) -> bool {
        names::is_marked(&ahead.key)
    }

    /// Returns when the server rejects the session, or otherwise by the crate's own clock, long
    /// after the deadline.
    async fn ended(&self) -> LostReason {
        self.identity.ended().await;
        self.over()
    }
}
