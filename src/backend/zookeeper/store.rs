//! One ZooKeeper session.

mod directory;

use std::{
    collections::HashSet,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use tokio::{sync::watch, time::timeout};
use zookeeper_client::{self as zk, CreateMode, EventType, MultiWriteError, SessionState};

use super::{error, identity::Identity, node};
use crate::{
    backend::{Entry, Join, Joined, Standing, Store},
    error::StoreError,
    guard::LostReason,
    name::{Queue, Ticket},
    rig::{Bug, planted},
};

/// How much a session can watch. After a reconnect the crate restores watches in batches of 128 KiB of paths that all have one xid, so that the replies
/// to a second batch kill the session:
/// <https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/watch.rs#L425>. A little room is left for foreign names that are longer than ours.
const WATCH_BUDGET: usize = 120 * 1024;

/// How often to try to create a node whose directory comes and goes: it is a container, which the server removes when it is empty.
const CREATE_ATTEMPTS: usize = 8;

/// What a write that came back proves: how long the leader keeps the session, counted from when the write was sent.
///
/// Not the whole timeout T. A write sent to a follower is checked against the session at the leader (`PrepRequestProcessor`, `SessionTrackerImpl.checkSession`)
/// but does not renew it there: `LeaderZooKeeperServer.submitLearnerRequest` skips the `touch` of `ZooKeeperServer.submitRequestNow`. What a follower has heard of
/// its sessions it tells in its answers to the leader's pings, every half tick (`Leader.lead`, `LearnerHandler` case `PING`). Should it be cut off right after our
/// write, the leader last heard of what we sent up to half a tick and one pause between our requests before: at most T/4 (the servers grant no less than
/// two ticks) and T/8 (`ZooKeeper::patience`). So 5/8 T are certain; distlock takes off a tenth of what is said here, and 9/10 of 2/3 is less.
fn granted(ttl: Duration) -> Duration {
    if planted(Bug::WholeTimeout) { ttl } else { ttl * 2 / 3 }
}

#[derive(Debug)]
pub(super) struct ZooKeeperStore {
    /// `None` once closed. The crate ends the session when the last clone is dropped.
    client: Mutex<Option<zk::Client>>,
    closed: watch::Sender<bool>,
    /// The state it was first closed in.
    closed_in: OnceLock<SessionState>,
    /// Does not keep the session open.
    state: zk::StateWatcher,
    identity: Identity,
    ttl: Duration,
    request_timeout: Duration,
    acls: zk::Acls<'static>,
    /// Tickets whose node may have been created although no reply said so.
    doubtful: Mutex<HashSet<Ticket>>,
}

impl ZooKeeperStore {
    pub(super) fn new(client: zk::Client, acls: zk::Acls<'static>, request_timeout: Duration) -> Self {
        let (state, ttl) = (client.state_watcher(), client.session_timeout());
        let identity = Identity::new(&client);
        let (client, closed) = (Mutex::new(Some(client)), watch::Sender::new(false));
        Self {
            client,
            closed,
            closed_in: OnceLock::new(),
            state,
            identity,
            ttl,
            request_timeout,
            acls,
            doubtful: Mutex::default(),
        }
    }

    /// For one call: none may keep it longer, or the session could not be closed.
    fn client(&self) -> Result<zk::Client, StoreError> {
        lock(&self.client).clone().ok_or_else(|| StoreError::SessionGone(self.over()))
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<Ticket>> {
        lock(&self.doubtful)
    }

    /// Awaits the reply to a request, or to several in one flight. The crate sends a request when its method is called, whether or not the future is ever
    /// polled, and waits without a limit.
    async fn reply<T>(&self, limit: Duration, reply: impl Future<Output = T>) -> Result<T, StoreError> {
        let mut closed = self.closed.subscribe();
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Err(StoreError::SessionGone(self.over())),
            reply = timeout(limit, reply) => {
                reply.map_err(|_| StoreError::Unknown(format!("no answer within {limit:?}").into()))
            }
        }
    }

    /// Why the session is over. A session that ended by itself is closed as well, while calls may still be under way.
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
            let listed = self.reply(self.request_timeout, client.list_ephemerals(&question.node)).await?;
            match listed {
                Ok(own) if own.contains(&question.node) => self.identity.confirmed(question),
                Ok(_) => match self.reply(self.request_timeout, client.check_stat(&question.node)).await? {
                    Ok(Some(stat)) if self.identity.owns(&stat) => {
                        return Err(StoreError::SessionGone(LostReason::SessionExpired));
                    }
                    // Deleted meanwhile: it tells nothing.
                    Ok(_) => self.identity.gone(&question.node),
                    Err(error) => return Err(self.failed("get", error)),
                },
                // Older than 3.6, and ZooKeeper: that refuses sessions, it does not exchange them.
                Err(zk::Error::Unimplemented) => self.identity.confirmed(question),
                Err(error) => return Err(self.failed("list", error)),
            }
        }
        Ok(())
    }

    /// Ends a wait for an event. The crate panics when its session task is no more
    /// (<https://github.com/kezhuw/zookeeper-client-rust/blob/v0.11.2/src/session/watch.rs#L120>); that is `None` here.
    async fn event(watcher: zk::OneshotWatcher) -> Option<zk::WatchedEvent> {
        let mut changed = pin!(watcher.changed());
        poll_fn(move |context| {
            let poll = catch_unwind(AssertUnwindSafe(|| changed.as_mut().poll(context)));
            poll.map_or(Poll::Ready(None), |poll| poll.map(Some))
        })
        .await
    }
}

#[async_trait]
impl Store for ZooKeeperStore {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn needs_keepalive_when_idle(&self) -> bool {
        // The crate pings. That keeps the session but proves nothing: a follower that is cut off answers too.
        false
    }

    fn watch_budget(&self) -> usize {
        WATCH_BUDGET
    }

    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        let client = self.client()?;
        // A `multi` goes through the leader's session check and the quorum's log even when nothing in it changes anything, and needs no node of ours. Whatever its
        // one `check` finds, it was found there.
        let mut writer = client.new_multi_writer();
        if planted(Bug::ReadIsProof) {
            let read = self.reply(self.ttl, client.check_stat("/")).await?;
            return read.map(|_| granted(self.ttl)).map_err(|error| self.failed("keep alive", error));
        }
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

    async fn enqueue(&self, queue: &Queue, ticket: Ticket, value: &[u8], join: Join) -> Result<Joined, StoreError> {
        let client = self.client()?;
        if self.doubtful().contains(&ticket) {
            let joined = self.rejoin(&client, queue, ticket).await?;
            self.doubtful().remove(&ticket);
            if let Some(joined) = joined {
                return Ok(joined);
            }
        }
        // That a queue is free is put to the test by joining it. That it is not may be old news of a server that lags behind.
        if join == Join::IfFree
            && node::any_waiter(&self.list(&client, queue).await?)
            && node::any_waiter(&self.list_now(&client, queue).await?)
        {
            return Ok(Joined::Occupied);
        }
        let prefix = node::prefix(queue.dir(), ticket);
        let mut with_directory = false;
        for _ in 0..CREATE_ATTEMPTS {
            self.doubtful().insert(ticket);
            let sent = self.create_and_list(&client, queue.dir(), &prefix, value, with_directory);
            let (created, listed) = sent.await?;
            match created {
                Ok(key) => {
                    let standing = async {
                        let children = listed.map_err(|error| self.failed("list", error))?;
                        let entry = Entry { revision: self.revision_of(&client, &key).await?, key: key.path };
                        self.identity.created(&entry.key);
                        Ok((self.place(&client, &entry.key, &children).await?, entry))
                    };
                    return match standing.await {
                        Ok((standing, entry)) => {
                            self.doubtful().remove(&ticket);
                            Ok(Joined::Queued { entry, standing, alive: Some(granted(self.ttl)) })
                        }
                        Err(error @ StoreError::SessionGone(_)) => Err(error),
                        // The node is there: the next attempt finds it, or whoever withdraws the ticket.
                        Err(error) => Err(StoreError::Unknown(error.into_source())),
                    };
                }
                Err(zk::Error::NoNode) if !with_directory => with_directory = true,
                // The namespace is missing as well.
                Err(zk::Error::NoNode) => {
                    let (namespace, _) = node::split(queue.dir());
                    let directory = CreateMode::Container.with_acls(self.acls);
                    let made = self.reply(self.request_timeout, client.mkdir(namespace, &directory)).await?;
                    made.map_err(|error| self.failed("mkdir", error))?;
                }
                // Somebody else has made the directory.
                Err(zk::Error::NodeExists) if with_directory => with_directory = false,
                Err(error) => {
                    let error = self.failed("create", error);
                    if !matches!(error, StoreError::Unknown(_)) {
                        self.doubtful().remove(&ticket);
                    }
                    return Err(error);
                }
            }
            self.doubtful().remove(&ticket);
        }
        Err(StoreError::Unavailable(format!("{} comes and goes", queue.dir()).into()))
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        let client = self.client()?;
        // Any server may answer. It knows of the own node (a session never goes back to an older state), so also of all that joined before it;
        // some of those may be gone already, which the next look will show.
        match self.reply(self.request_timeout, client.list_children(node::split(&entry.key).0)).await? {
            Ok(children) => self.place(&client, &entry.key, &children).await,
            Err(zk::Error::NoNode) => Ok(Standing::Evicted),
            Err(error) => Err(self.failed("list", error)),
        }
    }

    async fn gone(&self, entry: &Entry) -> Result<(), StoreError> {
        loop {
            let client = self.client()?;
            // By reading the node: a watch for its existence would stay behind on a node that is gone already.
            let (_, _, watcher) = match self.reply(self.request_timeout, client.get_and_watch_data(&entry.key)).await? {
                Ok(watched) => watched,
                Err(zk::Error::NoNode) => return Ok(()),
                Err(error) => return Err(self.failed("watch", error)),
            };
            drop(client);
            // Dropping the watcher, by dropping this future, takes the watch back.
            match Self::event(watcher).await.map(|event| (event.event_type, event.session_state)) {
                Some((EventType::NodeDeleted, _)) => return Ok(()),
                Some((EventType::Session, _)) => return Err(StoreError::SessionGone(self.over())),
                // Its data changed.
                Some(_) => {}
                None => return Err(StoreError::Unknown("the session's task is gone".into())),
            }
        }
    }

    async fn withdraw(&self, queue: &Queue, ticket: Ticket, entry: Option<&Entry>) -> Result<bool, StoreError> {
        let client = self.client()?;
        let keys = match entry {
            Some(entry) => vec![entry.key.clone()],
            None => node::of(ticket, queue.dir(), &self.list_now(&client, queue).await?).collect(),
        };
        let mut existed = false;
        for key in keys {
            match self.reply(self.request_timeout, client.delete(&key, None)).await? {
                Ok(()) => existed = true,
                Err(zk::Error::NoNode) if planted(Bug::ReleaseByName) => {
                    let children = self.list_now(&client, queue).await?;
                    let first = children.iter().min_by_key(|child| node::sequence(child)).cloned().unwrap_or_default();
                    let _ = client.delete(&format!("{}/{first}", queue.dir()), None).await;
                }
                Err(zk::Error::NoNode) => {}
                Err(error) => return Err(self.failed("delete", error)),
            }
            self.identity.gone(&key);
        }
        self.doubtful().remove(&ticket);
        Ok(existed)
    }

    /// Told by the server when it refuses the session, or else by the crate's own count, long after the deadline.
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
