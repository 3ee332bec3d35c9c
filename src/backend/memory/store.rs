//! The backend of `memory://`, and its sessions.

use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::watch;

use super::{KeyRecord, Locked, REVISION, Requests, SessionRecord, Space, State};
use crate::{
    backend::{
        Ask, Backend, Detail, Durability, Entry, Event, Extras, Facts, FailoverBehavior, Fate,
        Join, Joined, Joiner, LeaveOutcome, LeaveRequest, Listing, LockStore, Member, Present,
        Queue, Result, Rewrite, Rewritten, SequencePoint, Specifics, Standing, Store, StoreError,
        Watch, Write, remote::Remote,
    },
    lost::LostReason,
    runtime::{
        clock::{sleep, timeout},
        yield_now,
    },
    store_kind::StoreKind,
};

/// The version of a new key.
const FIRST_VERSION: u64 = 1;

/// The backend of `memory://`.
#[derive(Debug)]
pub(crate) struct Memory {
    space: Space,
    request_timeout: Duration,
}

impl Memory {
    pub(crate) fn new(remote: &Remote) -> Self {
        Self {
            space: Space::named(&remote.endpoints.concat()),
            request_timeout: remote.request_timeout,
        }
    }
}

#[async_trait]
impl Backend for Memory {
    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    async fn open(&self, ttl: Duration) -> Result<(Facts, Arc<dyn Store>)> {
        answered(&self.space, self.request_timeout).await?;
        let mut state = self.space.state();
        let id = REVISION.fetch_add(1, Ordering::Relaxed);
        let expires = state.now() + ttl;
        state.sessions.insert(id, SessionRecord { ttl, expires, cut: false });
        drop(state);
        let store =
            MemoryStore { space: self.space.clone(), id, request_timeout: self.request_timeout };
        Ok((Facts::new(ttl), Arc::new(store)))
    }
}

/// Waits until the store replies, and fails if it does not in time.
async fn answered(space: &Space, within: Duration) -> Result<()> {
    // Yields once, as every store does, so that other tasks run.
    yield_now().await;
    let mut reachable = space.reachable.subscribe();
    match timeout(within, reachable.wait_for(|reachable| *reachable)).await {
        Ok(_) => Ok(()),
        Err(late) => Err(StoreError::Unknown(late.into())),
    }
}

#[derive(Clone, Debug)]
struct MemoryStore {
    space: Space,
    id: u64,
    request_timeout: Duration,
}

impl MemoryStore {
    /// Returns the store's state once it has received this session's request.
    async fn request(&self) -> Result<Locked<'_>> {
        answered(&self.space, self.request_timeout).await?;
        if self.space.state().sessions.get(&self.id).is_some_and(|session| session.cut) {
            sleep(self.request_timeout).await;
            return Err(StoreError::Unknown("no reply: the session is cut off".into()));
        }
        let state = self.space.state();
        if state.sessions.contains_key(&self.id) {
            Ok(state)
        } else {
            Err(StoreError::SessionGone(LostReason::SessionExpired))
        }
    }

    /// Sends a request and counts it.
    async fn counted(&self, count: fn(&mut Requests) -> &mut u64) -> Result<Locked<'_>> {
        let mut state = self.request().await?;
        *count(&mut state.requests) += 1;
        Ok(state)
    }

    fn key(&self, Joiner { queue, ticket }: Joiner<'_>) -> String {
        let mark = if queue.label().is_empty() { "" } else { "." };
        format!("{}/{:x}-{ticket}{mark}{}", queue.dir(), self.id, queue.label())
    }

    fn add(&self, state: &mut State, queue: &Queue, key: &str, value: &[u8]) -> u64 {
        let revision = REVISION.fetch_add(1, Ordering::Relaxed);
        let record = KeyRecord {
            key: key.to_owned(),
            queue: queue.clone(),
            session: self.id,
            value: value.to_owned(),
            version: FIRST_VERSION,
            alive: watch::Sender::new(()),
        };
        state.keys.insert(revision, record);
        state.tell(queue.dir());
        revision
    }

    async fn deleted(&self, key: Arc<str>, revision: u64) -> Result<Event> {
        loop {
            let (mut alive, expires) = {
                let state = self.space.state();
                let Some(record) = state.keys.get(&revision).filter(|record| *record.key == *key)
                else {
                    return Ok(Event::Deleted);
                };
                let expires = state
                    .sessions
                    .get(&record.session)
                    .map_or(Duration::ZERO, |session| session.expires);
                (record.alive.subscribe(), expires.saturating_sub(state.now()))
            };
            tokio::select! {
                biased;
                _ = alive.changed() => {}
                // No background task removes expired sessions, so each waiter checks when the
                // session that it waits for may have expired.
                () = sleep(expires) => {}
            }
            // A session that is cut off is not notified.
            drop(self.request().await?);
        }
    }
}

#[async_trait]
impl LockStore for MemoryStore {
    async fn keep_alive(&self) -> Result<Duration> {
        let mut state = self.counted(|requests| &mut requests.keepalives).await?;
        let now = state.now();
        let Some(session) = state.sessions.get_mut(&self.id) else {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        };
        session.expires = now + session.ttl;
        Ok(session.ttl)
    }

    async fn enqueue(&self, joiner: Joiner<'_>, value: &[u8], join: Join) -> Result<Joined> {
        let mut state = self.counted(|requests| &mut requests.joins).await?;
        let (queue, key) = (joiner.queue, self.key(joiner));
        let revision = match state.revision_of(&key) {
            Some(revision) => revision,
            None if join == Join::IfFree
                && state.keys.values().any(|record| record.queue == *queue) =>
            {
                return Ok(Joined::Occupied);
            }
            None => self.add(&mut state, queue, &key, value),
        };
        Ok(state.joined(queue, key, revision))
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing> {
        let state = self.counted(|requests| &mut requests.reads).await?;
        let own = state.keys.get(&entry.revision).filter(|record| *record.key == *entry.key);
        let queue = own.map(|record| record.queue.clone());
        Ok(queue.map_or(Standing::Evicted, |queue| state.standing(&queue, entry.revision)))
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present> {
        let state = self.counted(|requests| &mut requests.reads).await?;
        Ok(Present { own: state.there(entry), ahead: Fate::of(state.there(ahead)) })
    }

    async fn own_keys(&self) -> Result<Vec<Arc<str>>> {
        let state = self.counted(|requests| &mut requests.reads).await?;
        let own = state.keys.values().filter(|record| record.session == self.id);
        Ok(own.map(|record| record.key.as_str().into()).collect())
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>> {
        if !self.space.state().there(entry) {
            return Ok(None);
        }
        let (store, key, revision) = (self.clone(), Arc::clone(&entry.key), entry.revision);
        Ok(Some(Box::pin(async move { store.deleted(key, revision).await })))
    }

    async fn leave(&self, joiner: Joiner<'_>, leave: LeaveRequest<'_>) -> Result<LeaveOutcome> {
        let mut state = self.counted(|requests| &mut requests.deletes).await?;
        let revision = state.revision_of(&self.key(joiner));
        Ok(LeaveOutcome {
            existed: revision.is_some_and(|revision| state.remove(revision)),
            successor: leave.successor.is_some_and(|successor| state.there(successor)),
            at: SequencePoint(REVISION.fetch_add(1, Ordering::Relaxed)),
        })
    }

    async fn list(&self, queue: &Queue, ask: Ask) -> Result<Listing> {
        let mut state = self.counted(|requests| &mut requests.reads).await?;
        let watch = ask.watch.then(|| {
            let (store, mut changes) = (self.clone(), state.watch(queue.dir()));
            Box::pin(async move {
                let _ = changes.changed().await;
                // A session that is cut off is not notified.
                store.request().await.map(|_| Event::Touched)
            }) as Watch
        });
        let members = state.keys.iter().filter(|(_, record)| record.queue == *queue).map(
            |(revision, record)| Member {
                entry: Entry::new(record.key.as_str(), *revision),
                label: record.queue.label().split('@').next().map(Into::into),
                detail: ask.values.then(|| Detail {
                    value: record.value.clone(),
                    version: record.version,
                    since: None,
                    own: record.session == self.id,
                }),
            },
        );
        Ok(Listing {
            members: members.collect(),
            notes: state.notes(queue).map(Into::into).collect(),
            watch,
            ..Listing::default()
        })
    }

    async fn close(&self) -> Result<()> {
        self.request().await?.end_session(self.id);
        Ok(())
    }
}

impl Specifics for MemoryStore {}

#[async_trait]
impl Extras for MemoryStore {
    async fn enqueue_all(&self, all: &[Joiner<'_>], value: &[u8]) -> Result<Option<Vec<Joined>>> {
        let mut state = self.counted(|requests| &mut requests.joins).await?;
        let wanted = |queue: &Queue| all.iter().any(|joiner| joiner.queue == queue);
        if state.keys.values().any(|record| wanted(&record.queue)) {
            return Ok(None);
        }
        let join = |joiner: &Joiner<'_>| {
            let key = self.key(*joiner);
            let revision = self.add(&mut state, joiner.queue, &key, value);
            state.joined(joiner.queue, key, revision)
        };
        Ok(Some(all.iter().map(join).collect()))
    }

    async fn rewrite(&self, rewrite: Rewrite<'_>) -> Result<Rewritten> {
        let Rewrite { entry, value, version, .. } = rewrite;
        let mut state = self.counted(|requests| &mut requests.writes).await?;
        let Some(record) = state.keys.get_mut(&entry.revision) else { return Ok(Rewritten::Gone) };
        if record.version != version.unwrap_or(FIRST_VERSION) {
            return Ok(Rewritten::Not(record.version));
        }
        record.value = value.to_owned();
        record.version += 1;
        let (version, dir) = (record.version, record.queue.shared_dir());
        state.tell(&dir);
        Ok(Rewritten::Done(version))
    }

    async fn relabel(&self, to: Joiner<'_>, entry: &Entry, value: &[u8]) -> Result<Option<Entry>> {
        let key = self.key(to);
        let mut state = self.counted(|requests| &mut requests.writes).await?;
        let Some(record) = state.keys.get_mut(&entry.revision) else { return Ok(None) };
        let watchers = if record.key == key { 0 } else { record.alive.receiver_count() as u64 };
        // For its waiters, the old key is deleted.
        let ended = (watchers > 0).then(|| mem::take(&mut record.alive));
        record.key.clone_from(&key);
        record.queue = to.queue.clone();
        record.value = value.to_owned();
        state.requests.events += watchers;
        state.ended.extend(ended);
        state.tell(to.queue.dir());
        Ok(Some(Entry { key: key.into(), ..entry.clone() }))
    }

    async fn commit(&self, guards: &[Entry], writes: &[Write]) -> Result<bool> {
        let mut state = match self.request().await {
            // The session's keys were deleted with it.
            Err(StoreError::SessionGone(_)) if !guards.is_empty() => return Ok(false),
            state => state?,
        };
        state.requests.writes += 1;
        if !guards.iter().all(|guard| state.there(guard)) {
            return Ok(false);
        }
        for write in writes {
            match write {
                Write::Put { key, value } => state.put(key, value),
                Write::Delete { key } => {
                    state.delete(key);
                }
            }
        }
        Ok(true)
    }

    async fn read(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let state = self.counted(|requests| &mut requests.reads).await?;
        Ok(state.data.get(key).cloned())
    }

    async fn queues(&self, namespace: &str) -> Result<Vec<String>> {
        let state = self.counted(|requests| &mut requests.reads).await?;
        let dirs = state.keys.values().map(|record| record.queue.dir());
        let names = dirs.filter_map(|dir| dir.strip_prefix(namespace)?.strip_prefix('/'));
        let names: BTreeSet<_> = names.filter(|name| !name.contains('/')).collect();
        Ok(names.into_iter().map(Into::into).collect())
    }

    async fn durability(&self) -> Result<Durability> {
        drop(self.request().await?);
        let reasons = vec![
            "the store exists only in this process: all locks end with the process".to_owned(),
        ];
        Ok(Durability { exclusive: true, failover: FailoverBehavior::MayLoseGrants, reasons })
    }
}

impl State {
    /// Returns the outcome of joining for a key.
    fn joined(&self, queue: &Queue, key: String, revision: u64) -> Joined {
        let standing = self.standing(queue, revision);
        let entry = Entry::new(key, revision);
        let others =
            self.keys.iter().any(|(other, record)| *other != revision && record.queue == *queue);
        let alone = !others && self.notes(queue).next().is_none();
        Joined::Queued { entry, standing, at: SequencePoint(revision), alive: None, alone }
    }

    /// Returns the names of a queue's keys that belong to no session.
    fn notes<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = &'a str> {
        let name = |key: &'a str| {
            key.strip_prefix(queue.dir())?.strip_prefix('/').filter(|name| !name.contains('/'))
        };
        self.data.keys().filter_map(move |key| name(key))
    }
}

#[cfg(test)]
mod tests;
