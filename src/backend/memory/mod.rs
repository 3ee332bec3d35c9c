//! `memory://name`: a store within this process, for unit tests and documentation.
//!
//! It is a backend like the others: all clients of a process that name the same space share it,
//! keys belong to sessions, and sessions end when their time to live runs out unheard of. It does
//! not exclude other processes. [`Space`] is the operator's side of it: a test can look at the
//! keys, delete one, end a session, or cut the store off.
//!
//! A test may stop tokio's clock, so that hours go by in no time. Sessions do not end by that: they
//! are counted on the machine's clock, which [`Space::advance`] sets forward.
//!
//! ```
//! use std::time::Duration;
//!
//! #[tokio::main(flavor = "current_thread", start_paused = true)] // or tokio::test
//! async fn main() -> distlock::Result<()> {
//!     let client = distlock::Client::connect("memory://docs-paused").await?;
//!     let guard = client.mutex("report").lock().await?;
//!     let hour = Duration::from_secs(3600);
//!     assert!(client.mutex("report").lock_timeout(hour).await?.is_none());
//!     drop(guard);
//!     assert!(client.mutex("report").lock_timeout(hour).await?.is_some());
//!     Ok(())
//! }
//! ```

mod store;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use tokio::sync::watch;

use super::{Entry, Predecessor, Standing};
use crate::{
    backend::Queue,
    runtime::{
        clock,
        mutex::{Mutex, MutexGuard},
    },
};

pub(crate) use store::Memory;

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
#[doc(hidden)] // for the tests of this repository
pub struct Requests {
    /// Attempts to join a queue.
    pub joins: u64,
    /// Looks at a queue.
    pub reads: u64,
    /// Deletes.
    pub deletes: u64,
    /// Other writes.
    pub writes: u64,
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
    /// What belongs to no session.
    data: BTreeMap<String, Vec<u8>>,
    /// By their directories, the queues that somebody watches as a whole.
    watched: HashMap<String, watch::Sender<()>>,
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
    value: Vec<u8>,
    version: u64,
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
        let mut spaces = SPACES.get_or_init(Mutex::default).lock();
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

    /// Deletes a key as an operator might, be it a lock's or data. Tells whether it was there.
    pub fn delete(&self, key: &str) -> bool {
        self.state().delete(key)
    }

    /// What a [guarded write](crate::LockGuard::put) or [`set`](Self::set) has put there.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.state().data.get(key).cloned()
    }

    /// Writes data as an operator might.
    pub fn set(&self, key: &str, value: &[u8]) {
        self.state().put(key, value);
    }

    /// Ends the session that a key belongs to, as if its time to live had run out. Tells whether
    /// the key was there.
    pub fn expire_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let session = state.session_of(key);
        session.is_some_and(|session| state.end_session(session))
    }

    /// Cuts the session that a key belongs to off from the store: neither is heard by the other any
    /// more, until the time to live ends the session. Tells whether the key was there.
    pub fn disconnect_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let session = state.session_of(key).and_then(|session| state.sessions.get_mut(&session));
        session.map(|session| session.cut = true).is_some()
    }

    /// Whether the store answers: with `false` every request goes unheard until it is set to `true`
    /// again.
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
    #[doc(hidden)] // for the tests of this repository
    pub fn requests(&self) -> Requests {
        self.state().requests
    }

    /// The state as of now: what has run out is gone.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
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
        let Some(removed) = self.keys.remove(&revision) else { return false };
        self.requests.events += removed.alive.receiver_count() as u64;
        self.tell(removed.queue.dir());
        true
    }

    /// Something has happened in this directory.
    fn tell(&mut self, dir: &str) {
        if let Some(watched) = self.watched.remove(dir) {
            self.requests.events += watched.receiver_count() as u64;
        }
    }

    fn watch(&mut self, dir: &str) -> watch::Receiver<()> {
        self.watched.entry(dir.to_owned()).or_default().subscribe()
    }

    fn put(&mut self, key: &str, value: &[u8]) {
        self.data.insert(key.to_owned(), value.to_owned());
        self.tell_parent(key);
    }

    /// Whatever it is.
    fn delete(&mut self, key: &str) -> bool {
        match self.revision_of(key) {
            Some(revision) => self.remove(revision),
            None => {
                let existed = self.data.remove(key).is_some();
                self.tell_parent(key);
                existed
            }
        }
    }

    fn tell_parent(&mut self, key: &str) {
        if let Some((dir, _)) = key.rsplit_once('/') {
            self.tell(dir);
        }
    }

    fn end_session(&mut self, session: u64) -> bool {
        let owned = |(revision, record): (&u64, &KeyRecord)| {
            (record.session == session).then_some(*revision)
        };
        for revision in self.keys.iter().filter_map(owned).collect::<Vec<_>>() {
            self.remove(revision);
        }
        self.sessions.remove(&session).is_some()
    }

    fn standing(&self, queue: &Queue, revision: u64) -> Standing {
        if !self.keys.contains_key(&revision) {
            return Standing::Evicted;
        }
        let mut ahead =
            self.keys.range(..revision).rev().filter(|(_, record)| record.queue == *queue);
        let Some((revision, record)) = ahead.next() else { return Standing::First };
        let entry = Entry::new(record.key.as_str(), *revision);
        Standing::Behind(Predecessor { entry, first: ahead.next().is_none(), seen: true })
    }

    fn there(&self, entry: &Entry) -> bool {
        self.keys.get(&entry.revision).is_some_and(|record| *record.key == *entry.key)
    }
}
