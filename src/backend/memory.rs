//! `memory://name`: a store within this process, for unit tests and documentation.
//!
//! It is a backend like the others: all clients of a process that name the same space share it, keys belong to sessions, and sessions end when
//! their time to live runs out unheard of. It does not exclude other processes. [`Space`] is the operator's side of it: a test can look at the keys, delete one,
//! end a session, or cut the store off.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::watch,
    task::yield_now,
    time::{sleep, timeout},
};

use super::{Ahead, Backend, Entry, Event, Join, Joined, Leave, Moment, Present, Standing, Store, Watch, Withdrawn};
use crate::{
    builder::Remote,
    clock,
    error::StoreError,
    guard::LostReason,
    name::{Queue, Ticket},
    rig::{Bug, planted},
};

/// The operator's view of the store behind `memory://name`.
///
/// ```
/// # use distlock::{Client, LostReason, memory::Space};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
/// let client = Client::connect("memory://docs-space").await?;
/// let guard = client.mutex("report").lock().await?;
///
/// let space = Space::named("docs-space");
/// assert_eq!(space.keys(), [guard.key()]);
/// space.expire_session(guard.key());
/// assert_eq!(guard.lost().await, LostReason::SessionExpired);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Space {
    state: Arc<Mutex<State>>,
    /// Whether the store answers.
    reachable: watch::Sender<bool>,
}

/// What the store has been asked so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requests {
    /// Attempts to join a queue.
    pub joins: u64,
    /// Looks at a queue.
    pub reads: u64,
    /// Deletes.
    pub deletes: u64,
    /// Proofs of life.
    pub keepalives: u64,
    /// Waiters told that a key is gone.
    pub events: u64,
}

#[derive(Default)]
struct State {
    /// How far this store's clock is ahead of the machine's.
    ahead: Duration,
    sessions: HashMap<u64, SessionRecord>,
    /// By revision: the order of every queue.
    keys: BTreeMap<u64, KeyRecord>,
    requests: Requests,
}

struct SessionRecord {
    ttl: Duration,
    expires: Duration,
    /// Hears nothing and is not heard.
    cut: bool,
}

struct KeyRecord {
    key: String,
    queue: Queue,
    session: u64,
    /// Dropped with the key: that is how its watchers learn.
    alive: watch::Sender<()>,
}

/// Rises for ever, over all spaces, so that a token never comes back.
static REVISION: AtomicU64 = AtomicU64::new(1);

impl Space {
    /// The space of this name; made on first use, it lasts as long as the process.
    #[must_use]
    pub fn named(name: &str) -> Self {
        static SPACES: OnceLock<Mutex<HashMap<String, Space>>> = OnceLock::new();
        let mut spaces = SPACES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Self { state: Arc::default(), reachable: watch::Sender::new(true) };
        spaces.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// All keys, oldest first.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.state().keys.values().map(|record| record.key.clone()).collect()
    }

    /// How many sessions are open.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.state().sessions.len()
    }

    /// Deletes a key as an operator might. Tells whether it was there.
    pub fn delete(&self, key: &str) -> bool {
        let mut state = self.state();
        state.revision_of(key).is_some_and(|revision| state.remove(revision))
    }

    /// Ends the session that a key belongs to, as if its time to live had run out. Tells whether the key was there.
    pub fn expire_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let session = state.session_of(key);
        session.is_some_and(|session| state.end_session(session))
    }

    /// Cuts the session that a key belongs to off from the store: neither is heard by the other any more, until the time to live ends the session.
    /// Tells whether the key was there.
    pub fn disconnect_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let session = state.session_of(key).and_then(|session| state.sessions.get_mut(&session));
        session.map(|session| session.cut = true).is_some()
    }

    /// Whether the store answers: with `false` every request goes unheard until it is set to `true` again.
    pub fn set_reachable(&self, reachable: bool) {
        self.reachable.send_replace(reachable);
    }

    /// Sets the store's clock forward: sessions that are not heard of in time end.
    pub fn advance(&self, time: Duration) {
        self.state().ahead += time;
        drop(self.state());
    }

    /// What the store has been asked so far.
    #[must_use]
    pub fn requests(&self) -> Requests {
        self.state().requests
    }

    /// The state as of now: what has run out is gone.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = state.now();
        let over = |(id, session): (&u64, &SessionRecord)| (session.expires <= now).then_some(*id);
        for session in state.sessions.iter().filter_map(over).collect::<Vec<_>>() {
            state.end_session(session);
        }
        state
    }
}

impl fmt::Debug for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space").field("keys", &self.keys()).finish()
    }
}

impl State {
    fn now(&self) -> Duration {
        clock::now() + self.ahead
    }

    fn revision_of(&self, key: &str) -> Option<u64> {
        self.keys.iter().find_map(|(revision, record)| (record.key == key).then_some(*revision))
    }

    fn session_of(&self, key: &str) -> Option<u64> {
        self.keys.values().find_map(|record| (record.key == key).then_some(record.session))
    }

    fn remove(&mut self, revision: u64) -> bool {
        let removed = self.keys.remove(&revision);
        self.requests.events += removed.as_ref().map_or(0, |record| record.alive.receiver_count() as u64);
        removed.is_some()
    }

    fn end_session(&mut self, session: u64) -> bool {
        let owned = |(revision, record): (&u64, &KeyRecord)| (record.session == session).then_some(*revision);
        for revision in self.keys.iter().filter_map(owned).collect::<Vec<_>>() {
            self.remove(revision);
        }
        self.sessions.remove(&session).is_some()
    }

    fn standing(&self, queue: &Queue, revision: u64) -> Standing {
        if !self.keys.contains_key(&revision) {
            return Standing::Evicted;
        }
        let mut ahead = self.keys.range(..revision).rev().filter(|(_, record)| record.queue == *queue);
        let Some((revision, record)) = ahead.next() else { return Standing::First };
        let entry = Entry { key: record.key.as_str().into(), revision: *revision, crowded: false };
        Standing::Behind(Ahead { entry, first: ahead.next().is_none(), seen: true })
    }

    fn there(&self, entry: &Entry) -> bool {
        self.keys.get(&entry.revision).is_some_and(|record| *record.key == *entry.key)
    }
}

/// The backend of `memory://`.
#[derive(Debug)]
pub(crate) struct Memory {
    space: Space,
    request_timeout: Duration,
}

impl Memory {
    pub(crate) fn new(remote: &Remote) -> Self {
        Self { space: Space::named(&remote.endpoints.concat()), request_timeout: remote.request_timeout }
    }
}

#[async_trait]
impl Backend for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    async fn open(&self, ttl: Duration) -> Result<Arc<dyn Store>, StoreError> {
        answered(&self.space, self.request_timeout).await?;
        let mut state = self.space.state();
        let id = REVISION.fetch_add(1, Ordering::Relaxed);
        let expires = state.now() + ttl;
        state.sessions.insert(id, SessionRecord { ttl, expires, cut: false });
        drop(state);
        Ok(Arc::new(MemoryStore { space: self.space.clone(), id, ttl, request_timeout: self.request_timeout }))
    }
}

/// Returns when the store hears a request; an error if it does not in time.
async fn answered(space: &Space, within: Duration) -> Result<(), StoreError> {
    // As every store does: others get their turn.
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
    ttl: Duration,
    request_timeout: Duration,
}

impl MemoryStore {
    /// The store's state, once it has heard this session's request.
    async fn request(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        answered(&self.space, self.request_timeout).await?;
        if self.space.state().sessions.get(&self.id).is_some_and(|session| session.cut) {
            sleep(self.request_timeout).await;
            return Err(StoreError::Unknown("no answer: the session is cut off".into()));
        }
        let state = self.space.state();
        if state.sessions.contains_key(&self.id) {
            Ok(state)
        } else {
            Err(StoreError::SessionGone(LostReason::SessionExpired))
        }
    }

    fn key(&self, queue: &Queue, ticket: Ticket) -> String {
        format!("{}/{:x}-{ticket}", queue.dir(), self.id)
    }

    async fn deleted(&self, revision: u64) -> Result<Event, StoreError> {
        loop {
            let (mut alive, expires) = {
                let state = self.space.state();
                let Some(record) = state.keys.get(&revision) else { return Ok(Event::Deleted) };
                let expires = state.sessions.get(&record.session).map_or(Duration::ZERO, |session| session.expires);
                (record.alive.subscribe(), expires.saturating_sub(state.now()))
            };
            tokio::select! {
                _ = alive.changed() => {}
                // Nobody else sweeps: whoever waits for a key looks when its session may be over.
                () = sleep(expires) => {}
            }
            // A session that is cut off does not hear of it.
            drop(self.request().await?);
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn needs_keepalive_when_idle(&self) -> bool {
        true
    }

    fn watch_budget(&self) -> usize {
        usize::MAX
    }

    async fn keep_alive(&self) -> Result<Duration, StoreError> {
        let mut state = self.request().await?;
        state.requests.keepalives += 1;
        let now = state.now();
        let Some(session) = state.sessions.get_mut(&self.id) else {
            return Err(StoreError::SessionGone(LostReason::SessionExpired));
        };
        session.expires = now + session.ttl;
        Ok(session.ttl)
    }

    async fn enqueue(&self, queue: &Queue, ticket: Ticket, _: &[u8], join: Join) -> Result<Joined, StoreError> {
        let mut state = self.request().await?;
        state.requests.joins += 1;
        let key = self.key(queue, ticket);
        let revision = match state.revision_of(&key) {
            Some(revision) => revision,
            None if join == Join::IfFree && state.keys.values().any(|record| record.queue == *queue) => {
                return Ok(Joined::Occupied);
            }
            None => {
                let revision = REVISION.fetch_add(1, Ordering::Relaxed);
                let record = KeyRecord {
                    key: key.clone(),
                    queue: queue.clone(),
                    session: self.id,
                    alive: watch::Sender::new(()),
                };
                state.keys.insert(revision, record);
                revision
            }
        };
        let standing = state.standing(queue, revision);
        let entry = Entry { key: key.into(), revision, crowded: false };
        Ok(Joined::Queued { entry, standing, at: Moment(revision), alive: None })
    }

    async fn standing(&self, entry: &Entry) -> Result<Standing, StoreError> {
        let mut state = self.request().await?;
        state.requests.reads += 1;
        let queue = state.keys.get(&entry.revision).map(|record| record.queue.clone());
        Ok(queue.map_or(Standing::Evicted, |queue| state.standing(&queue, entry.revision)))
    }

    async fn present(&self, entry: &Entry, ahead: &Entry) -> Result<Present, StoreError> {
        let mut state = self.request().await?;
        state.requests.reads += 1;
        Ok(Present { own: state.there(entry), ahead: state.there(ahead) })
    }

    async fn watch(&self, entry: &Entry, _: bool) -> Result<Option<Watch>, StoreError> {
        let revision = entry.revision;
        if !self.space.state().keys.contains_key(&revision) {
            return Ok(None);
        }
        let store = self.clone();
        Ok(Some(Box::pin(async move { store.deleted(revision).await })))
    }

    async fn withdraw(&self, queue: &Queue, ticket: Ticket, leave: Leave<'_>) -> Result<Withdrawn, StoreError> {
        let mut state = self.request().await?;
        state.requests.deletes += 1;
        let mut revision = state.revision_of(&self.key(queue, ticket));
        if planted(Bug::ReleaseByName) {
            revision = state.keys.iter().find_map(|(revision, record)| (record.queue == *queue).then_some(*revision));
        }
        Ok(Withdrawn {
            existed: revision.is_some_and(|revision| state.remove(revision)),
            heir: leave.heir.is_some_and(|heir| state.there(heir)),
            at: Moment(REVISION.fetch_add(1, Ordering::Relaxed)),
        })
    }

    async fn ended(&self) -> LostReason {
        std::future::pending().await
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.request().await?.end_session(self.id);
        Ok(())
    }

    async fn followed(&self, entry: &Entry) -> Result<bool, StoreError> {
        let mut state = self.request().await?;
        state.requests.reads += 1;
        let Some(own) = state.keys.get(&entry.revision) else { return Ok(true) };
        Ok(state.keys.range(entry.revision + 1..).any(|(_, record)| record.queue == own.queue))
    }
}
