//! `memory://name`: a store within this process, for unit tests and documentation.
//!
//! It behaves like the other stores: all clients of a process that name the same space share it,
//! keys belong to sessions, and a session that is not renewed expires after its TTL. It does not
//! exclude other processes. [`Space`] is the operator's side: a test can read and delete keys,
//! expire a session, or make the store unreachable.
//!
//! A test may pause tokio's clock, so that hours pass in no time. Sessions do not expire during
//! those hours: the store measures their TTLs on the machine's clock. [`Space::advance`] moves the
//! store's clock forward.
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
    fmt, mem,
    ops::{Deref, DerefMut},
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

/// Lets tests inspect and change the store behind `memory://name`.
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
    /// Whether the store replies to requests.
    reachable: watch::Sender<bool>,
}

/// Counts the requests to the store so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[doc(hidden)] // for the tests of this repository
pub struct Requests {
    /// Attempts to join a queue.
    pub joins: u64,
    /// Reads of a queue or of data.
    pub reads: u64,
    /// Deletes.
    pub deletes: u64,
    /// Other writes.
    pub writes: u64,
    /// Keepalives.
    pub keepalives: u64,
    /// Notifications of deleted keys and changed queues.
    pub events: u64,
}

#[derive(Default)]
struct State {
    /// How far this store's clock is ahead of the machine's.
    ahead: Duration,
    sessions: HashMap<u64, SessionRecord>,
    /// Keys by revision, which is the order of every queue.
    keys: BTreeMap<u64, KeyRecord>,
    /// Data, which belongs to no session.
    data: BTreeMap<String, Vec<u8>>,
    /// The queues that are watched as a whole, by directory.
    watched: HashMap<String, watch::Sender<()>>,
    /// Dropped once the state is unlocked, which notifies the watchers.
    ended: Vec<watch::Sender<()>>,
    requests: Requests,
}

/// The locked state of a space.
///
/// Watchers are notified after the state is unlocked. Their wakers are the caller's code, which may
/// use the space.
struct Locked<'a> {
    // The fields are dropped in this order.
    state: MutexGuard<'a, State>,
    to_notify: Vec<watch::Sender<()>>,
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.to_notify = mem::take(&mut self.state.ended);
    }
}

struct SessionRecord {
    ttl: Duration,
    expires: Duration,
    /// Cut off from the store: its requests get no reply.
    cut: bool,
}

struct KeyRecord {
    key: String,
    queue: Queue,
    session: u64,
    value: Vec<u8>,
    version: u64,
    /// Ends with the key, which notifies its watchers.
    alive: watch::Sender<()>,
}

/// Increases across all spaces, so that no token is ever repeated.
static REVISION: AtomicU64 = AtomicU64::new(1);

impl Space {
    /// Returns the space of this name.
    ///
    /// The space is created when it is first used, and exists until the process ends.
    #[must_use]
    pub fn named(name: &str) -> Self {
        static SPACES: OnceLock<Mutex<HashMap<String, Space>>> = OnceLock::new();
        let mut spaces = SPACES.get_or_init(Mutex::default).lock();
        let new = || Self { state: Arc::default(), reachable: watch::Sender::new(true) };
        spaces.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Returns the keys of all holders, waiters and release requests, oldest first.
    ///
    /// The keys of data are not included.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        self.state().keys.values().map(|record| record.key.clone()).collect()
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.state().sessions.len()
    }

    /// Deletes the key of a lock or of data, as an operator might.
    ///
    /// Returns `true` if the key existed.
    pub fn delete(&self, key: &str) -> bool {
        self.state().delete(key)
    }

    /// Returns the data that a [guarded write](crate::LockGuard::put) or [`set`](Self::set) stored.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.state().data.get(key).cloned()
    }

    /// Writes data as an operator might.
    pub fn set(&self, key: &str, value: &[u8]) {
        self.state().put(key, value);
    }

    /// Expires the session that a key belongs to, as if its TTL had passed.
    ///
    /// Returns `true` if the key existed.
    pub fn expire_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let session = state.session_of(key);
        session.is_some_and(|session| state.end_session(session))
    }

    /// Cuts off the session that a key belongs to.
    ///
    /// The store sends the session neither replies nor notifications until the session's TTL has
    /// passed and the session expires. Returns `true` if the key existed.
    pub fn disconnect_session(&self, key: &str) -> bool {
        let mut state = self.state();
        let session = state.session_of(key).and_then(|session| state.sessions.get_mut(&session));
        session.map(|session| session.cut = true).is_some()
    }

    /// Sets whether the store replies to requests.
    ///
    /// After a call with `false`, requests get no reply until the next call with `true`.
    pub fn set_reachable(&self, reachable: bool) {
        self.reachable.send_replace(reachable);
    }

    /// Moves the store's clock forward.
    ///
    /// Sessions whose TTLs have then passed expire at once.
    pub fn advance(&self, time: Duration) {
        self.state().ahead += time;
        drop(self.state());
    }

    /// Returns the number of requests to the store so far.
    #[must_use]
    #[doc(hidden)] // for the tests of this repository
    pub fn requests(&self) -> Requests {
        self.state().requests
    }

    /// Returns the state as of now, without expired sessions.
    fn state(&self) -> Locked<'_> {
        let mut state = Locked { state: self.state.lock(), to_notify: Vec::new() };
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
        self.ended.push(removed.alive);
        true
    }

    /// Notifies the watchers of a directory once the state is unlocked.
    fn tell(&mut self, dir: &str) {
        if let Some(watched) = self.watched.remove(dir) {
            self.requests.events += watched.receiver_count() as u64;
            self.ended.push(watched);
        }
    }

    fn watch(&mut self, dir: &str) -> watch::Receiver<()> {
        self.watched.entry(dir.to_owned()).or_default().subscribe()
    }

    fn put(&mut self, key: &str, value: &[u8]) {
        self.data.insert(key.to_owned(), value.to_owned());
        self.tell_parent(key);
    }

    /// Deletes a key of a lock or of data.
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
