//! The client: what a program makes once and takes its locks from.

use std::{
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    backend::Entry,
    builder::{Builder, Settings},
    claim::Claim,
    election::Election,
    error::{Error, Result, StoreError},
    handover::Handover,
    mutex::Mutex,
    name::Queue,
    queue::Wait,
    rig::{Bug, planted},
    runtime::{self, backoff},
    rwlock::RwLock,
    semaphore::Semaphore,
    session::{Session, Shared, Visit},
};

/// A connection to a store, and the session that its locks live in. Cheap to clone; all clones are
/// one client.
///
/// However many locks it holds or waits for, it keeps one session alive (on ZooKeeper another one
/// for each 100 KiB of watched keys: the servers' clients cannot restore more after a reconnect).
/// It runs on a small runtime of the library's own, so that a blocked or ended runtime of the
/// caller's stops no keepalive. When its session is lost, every guard is told, and the next lock
/// opens a new session.
///
/// When the last clone, guard and waiter are gone the session is ended in the background;
/// [`close`](Self::close) does it at once and tells how it went.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    namespace: String,
    connect_timeout: Duration,
    sessions: StdMutex<Sessions>,
    /// If it is on.
    handover: Option<Arc<Handover>>,
}

/// The sessions of a client.
#[derive(Debug, Default)]
struct Sessions {
    /// Those in use; after the client was closed, those that were.
    known: Vec<Arc<Session>>,
    /// A task of the library opens one, for all who wait for that: none of them carries it.
    opening: Option<watch::Receiver<Option<Opening>>>,
    closed: bool,
}

/// What came of opening a session.
type Opening = std::result::Result<(), Arc<StoreError>>;

impl Client {
    /// Connects with the defaults: [`Client::builder`]`(url).connect()`.
    ///
    /// # Errors
    ///
    /// As [`Builder::connect`].
    ///
    /// # Cancel safety
    ///
    /// Safe. A session whose opening was under way ends with its TTL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-connect").await?;
    /// # client.close().await }
    /// ```
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Starts to describe a client. The URL is `etcd://host:2379`, `zk://host:2181` (several hosts
    /// of one cluster separated by commas) or `memory://name`, a store within this process.
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        let runtime = runtime::handle()?;
        let runtime = if planted(Bug::CallersRuntime) {
            Box::leak(Box::new(Handle::current()))
        } else {
            runtime
        };
        let Settings {
            backend,
            namespace,
            ttl,
            owner,
            connect_timeout,
            request_timeout,
            recheck_interval,
            local_handover,
        } = settings;
        let shared =
            Arc::new(Shared { backend, runtime, ttl, owner, request_timeout, recheck_interval });
        let handover = local_handover.map(|max| Arc::new(Handover::new(max, runtime)));
        let opening = open_session(Arc::clone(&shared), connect_timeout, false);
        let session = runtime::within(runtime, opening).await;
        let session = session.map_err(|error| error.into_public(shared.backend.name()))?;
        let sessions = StdMutex::new(Sessions { known: vec![session], ..Sessions::default() });
        Ok(Self {
            inner: Arc::new(Inner { shared, namespace, connect_timeout, sessions, handover }),
        })
    }

    /// The lock of this name. No I/O: the name is checked when it is first locked.
    ///
    /// Any non-empty string will do, of up to 255 bytes once percent-escaped (`/` too, so that no
    /// name lies inside another).
    #[must_use]
    pub fn mutex(&self, name: impl AsRef<str>) -> Mutex {
        Mutex::new(self.clone(), name.as_ref().to_owned())
    }

    /// The read-write lock of this name. No I/O: the name is checked when it is first locked. It
    /// has nothing to do with a mutex of the same name.
    #[must_use]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.clone(), name.as_ref().to_owned())
    }

    /// The semaphore of this name, with so many permits for all clients together: all have to name
    /// the same number. No I/O: name and number are checked at the first acquisition.
    #[must_use]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u32) -> Semaphore {
        Semaphore::new(self.clone(), name.as_ref().to_owned(), permits)
    }

    /// The election of this name. No I/O: the name is checked when it is first used. It has nothing
    /// to do with a mutex of the same name.
    #[must_use]
    pub fn election(&self, name: impl AsRef<str>) -> Election {
        Election::new(self.clone(), name.as_ref().to_owned())
    }

    /// What the server granted as the session's time to live: how long a crashed holder's lock
    /// stays taken. It may differ from what the builder asked for: etcd grants whole seconds and at
    /// least one and a half election timeouts, ZooKeeper between 2 and 20 of its ticks.
    #[must_use]
    pub fn session_ttl(&self) -> Duration {
        let sessions = self.sessions();
        sessions.known.last().map_or(self.inner.shared.ttl, |session| session.store().ttl())
    }

    /// Releases everything and ends the session. `Ok` when the store has confirmed it.
    ///
    /// All clones are closed. Guards are told [`ClientClosed`](crate::LostReason::ClientClosed)
    /// before the store lets go of their keys; waiters and later calls get [`Error::Closed`].
    /// Closing again tells the same, or that it was confirmed since.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the store does not confirm within the
    /// [`connect_timeout`](Builder::connect_timeout): the client is closed all the same, and its
    /// keys go when the session's TTL ends.
    ///
    /// # Cancel safety
    ///
    /// Once polled, the closing goes on in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-close").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// client.close().await?;
    /// assert!(!guard.is_valid());
    /// # Ok(()) }
    /// ```
    pub async fn close(&self) -> Result<()> {
        let sessions = {
            let mut sessions = self.sessions();
            if sessions.closed && planted(Bug::ClosedIsClosed) {
                return Ok(());
            }
            sessions.closed = true;
            sessions.known.clone()
        };
        if let Some(handover) = self.handover() {
            handover.close();
        }
        let patience = self.inner.connect_timeout;
        let closing = sessions
            .into_iter()
            .map(|session| self.runtime().spawn(async move { session.close(patience).await }));
        // All of them at once; dropping this future drops only the handles.
        let mut outcome = Ok(());
        for closing in closing.collect::<Vec<_>>() {
            match closing.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    outcome = Err(error.into_public(self.inner.shared.backend.name()))
                }
                Err(_) => outcome = Err(Error::Closed),
            }
        }
        outcome
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    pub(crate) fn runtime(&self) -> &'static Handle {
        self.inner.shared.runtime
    }

    pub(crate) fn backend_name(&self) -> &'static str {
        self.inner.shared.backend.name()
    }

    pub(crate) fn handover(&self) -> Option<&Arc<Handover>> {
        self.inner.handover.as_ref()
    }

    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.inner.sessions()
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.inner.shared.request_timeout
    }

    /// A claim in a session that lives and has room; opens one if there is none.
    pub(crate) async fn claim(&self, queue: &Queue) -> Result<Claim> {
        self.in_session(|session| session.claim(queue)).await
    }

    /// A session that lives, to ask the store something; opens one if there is none.
    pub(crate) async fn session(&self) -> Result<Arc<Session>> {
        self.in_session(|session| Some(Arc::clone(session))).await
    }

    /// A session that lives and has room to watch a queue; opens one if there is none.
    pub(crate) async fn visit(&self, queue: &Queue) -> Result<Visit<Arc<Session>>> {
        self.in_session(|session| Visit::new(Arc::clone(session), queue)).await
    }

    /// Whether a key is of one of this client's sessions, as far as these have been told.
    pub(crate) fn owns(&self, entry: &Entry) -> bool {
        self.sessions().known.iter().any(|session| session.places().find(entry).is_some())
    }

    /// Does what ends soon in any case if it is a try: within twice the request timeout, and the
    /// connect timeout before that if there is no session.
    pub(crate) async fn bounded<T>(
        &self,
        wait: Wait,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if !matches!(wait, Wait::No) || planted(Bug::TriesUnbounded) {
            return work.await;
        }
        drop(self.session().await?);
        let limit = self.request_timeout() * 2;
        timeout(limit, work).await.unwrap_or_else(|_| {
            let source = format!("no answer within {limit:?}").into();
            Err(Error::Unavailable { backend: self.backend_name(), source })
        })
    }

    async fn in_session<T>(&self, take: impl Fn(&Arc<Session>) -> Option<T>) -> Result<T> {
        loop {
            let known = {
                let sessions = self.sessions();
                if sessions.closed {
                    return Err(Error::Closed);
                }
                sessions.known.clone()
            };
            // Without the lock: to look at a session may wake those who want to know of its end.
            let alive = known.iter().filter(|session| session.life().lost_reason().is_none());
            if let Some(taken) = alive.into_iter().find_map(&take) {
                return Ok(taken);
            }
            let mut opening = {
                let mut sessions = self.sessions();
                if sessions.closed {
                    return Err(Error::Closed);
                }
                sessions.known.retain(|session| !session.life().is_over());
                let tried =
                    |session: &Arc<Session>| known.iter().any(|known| Arc::ptr_eq(known, session));
                if !sessions.known.iter().all(tried) {
                    continue;
                }
                sessions.opening.get_or_insert_with(|| self.begin_to_open()).clone()
            };
            match opening.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(Err(_))) if planted(Bug::OpeningsUnshared) => {}
                Ok(Some(Err(error))) => {
                    return Err(StoreError::again(error).into_public(self.backend_name()));
                }
                Ok(_) => {}
                Err(_) => return Err(Error::Closed),
            }
        }
    }

    /// With retries until the connect timeout, as servers that have just lost a session may be
    /// about to come back.
    fn begin_to_open(&self) -> watch::Receiver<Option<Opening>> {
        let (told, opening) = watch::channel(None);
        let (inner, shared) = (Arc::downgrade(&self.inner), Arc::clone(&self.inner.shared));
        let limit = self.inner.connect_timeout;
        self.runtime().spawn(async move {
            let opened = open_session(shared, limit, true).await;
            let outcome = match opened {
                Ok(session) => {
                    keep_open(&inner, Some(session));
                    Ok(())
                }
                Err(error) => {
                    keep_open(&inner, None);
                    Err(Arc::new(error))
                }
            };
            told.send_replace(Some(outcome));
        });
        opening
    }
}

impl Inner {
    fn sessions(&self) -> MutexGuard<'_, Sessions> {
        // Nothing panics while it is locked.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The opening is over. Without a client, or after it was closed, the new session ends as it is
/// dropped.
fn keep_open(inner: &Weak<Inner>, session: Option<Arc<Session>>) {
    let Some(inner) = inner.upgrade() else { return };
    let mut sessions = inner.sessions();
    sessions.opening = None;
    let kept = session.filter(|_| !sessions.closed);
    sessions.known.extend(kept);
}

/// Opens a session. `insist`: again and again until the time is up.
async fn open_session(
    shared: Arc<Shared>,
    limit: Duration,
    insist: bool,
) -> std::result::Result<Arc<Session>, StoreError> {
    let give_up = Instant::now() + limit;
    let mut attempt = 0;
    loop {
        let error = match timeout_at(give_up, Session::open(Arc::clone(&shared))).await {
            Ok(Ok(session)) => return Ok(session),
            Ok(Err(error)) => error,
            Err(_) => {
                return Err(StoreError::Unavailable(
                    format!("no server answered within {limit:?}").into(),
                ));
            }
        };
        let pause = backoff(attempt);
        if !insist || !error.is_transient() || Instant::now() + pause >= give_up {
            return Err(error);
        }
        sleep(pause).await;
        attempt += 1;
    }
}
