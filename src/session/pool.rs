//! The sessions of a client: those in use, and the one that is being opened.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch,
    time::{Instant, timeout_at},
};

use crate::{
    backend::{Entry, error::StoreError, name::Queue},
    error::{Error, Result},
    runtime,
    session::{Session, Shared, Visit, retry},
};

/// The sessions of a client, and what all of them have in common. Cheap to clone; all clones are
/// the same. When the last one is gone, the sessions end in the background.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    namespace: String,
    connect_timeout: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those in use; after the client was closed, those that were.
    known: Vec<Arc<Session>>,
    /// A task of the library opens one, for all who wait for that: none of them carries it.
    opening: Option<watch::Receiver<Option<Opening>>>,
    closed: bool,
}

/// What came of opening a session.
type Opening = std::result::Result<(), Arc<StoreError>>;

impl Sessions {
    /// Opens the first session.
    pub(crate) async fn open(
        shared: Shared,
        namespace: String,
        connect_timeout: Duration,
    ) -> Result<Self> {
        let (runtime, shared) = (shared.runtime, Arc::new(shared));
        let opening = open_session(Arc::clone(&shared), connect_timeout, false);
        let session = runtime::within(runtime, opening).await;
        let session = session.map_err(|error| error.into_public(shared.backend.name()))?;
        let state = Mutex::new(State { known: vec![session], ..State::default() });
        Ok(Self { pool: Arc::new(Pool { shared, namespace, connect_timeout, state }) })
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.pool.namespace
    }

    pub(crate) fn runtime(&self) -> &'static Handle {
        self.pool.shared.runtime
    }

    pub(crate) fn backend_name(&self) -> &'static str {
        self.pool.shared.backend.name()
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.pool.shared.request_timeout
    }

    /// How long a call goes on that does not wait for others.
    pub(crate) fn patience(&self) -> Duration {
        self.pool.shared.patience()
    }

    /// What the server granted last.
    pub(crate) fn ttl(&self) -> Duration {
        let state = self.pool.state();
        state.known.last().map_or(self.pool.shared.ttl, |session| session.ttl())
    }

    /// Opens no other session, and ends all of them. That goes on once the future was polled.
    pub(crate) fn close(&self) -> impl Future<Output = Result<()>> + use<> {
        let sessions = {
            let mut state = self.pool.state();
            state.closed = true;
            state.known.clone()
        };
        let (patience, runtime) = (self.pool.connect_timeout, self.runtime());
        let backend = self.backend_name();
        async move {
            // All of them at once; dropping this future drops only the handles.
            let closing: Vec<_> = sessions
                .into_iter()
                .map(|session| runtime.spawn(async move { session.close(patience).await }))
                .collect();
            let mut outcome = Ok(());
            for closing in closing {
                match closing.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => outcome = Err(error.into_public(backend)),
                    Err(_) => outcome = Err(Error::Closed),
                }
            }
            outcome
        }
    }

    /// A session that lives, to ask the store something; opens one if there is none.
    pub(crate) async fn any(&self) -> Result<Arc<Session>> {
        self.in_session(|session| Some(Arc::clone(session))).await
    }

    /// A session that lives and has room to watch a queue; opens one if there is none.
    pub(crate) async fn visit(&self, queue: &Queue) -> Result<Visit<Arc<Session>>> {
        self.in_session(|session| Visit::new(Arc::clone(session), queue)).await
    }

    /// Whether a key is of one of this client's sessions, as far as these have been told.
    pub(crate) fn owns(&self, entry: &Entry) -> bool {
        self.pool.state().known.iter().any(|session| session.own_keys().find(entry).is_some())
    }

    /// What `take` makes of a session that lives; opens one if none of them serves.
    pub(crate) async fn in_session<T>(
        &self,
        take: impl Fn(&Arc<Session>) -> Option<T>,
    ) -> Result<T> {
        loop {
            let known = {
                let state = self.pool.state();
                if state.closed {
                    return Err(Error::Closed);
                }
                state.known.clone()
            };
            // Without the lock: to look at a session may wake those who want to know of its end.
            let alive = known.iter().filter(|session| session.deadline().lost_reason().is_none());
            if let Some(taken) = alive.into_iter().find_map(&take) {
                return Ok(taken);
            }
            let mut opening = {
                let mut state = self.pool.state();
                if state.closed {
                    return Err(Error::Closed);
                }
                state.known.retain(|session| !session.deadline().is_over());
                let tried =
                    |session: &Arc<Session>| known.iter().any(|known| Arc::ptr_eq(known, session));
                if !state.known.iter().all(tried) {
                    continue;
                }
                state.opening.get_or_insert_with(|| self.begin_to_open()).clone()
            };
            match opening.wait_for(Option::is_some).await.as_deref() {
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
        let (pool, shared) = (Arc::downgrade(&self.pool), Arc::clone(&self.pool.shared));
        let limit = self.pool.connect_timeout;
        self.runtime().spawn(async move {
            let opened = open_session(shared, limit, true).await;
            let outcome = match opened {
                Ok(session) => {
                    keep_open(&pool, Some(session));
                    Ok(())
                }
                Err(error) => {
                    keep_open(&pool, None);
                    Err(Arc::new(error))
                }
            };
            told.send_replace(Some(outcome));
        });
        opening
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The opening is over. Without a client, or after it was closed, the new session ends as it is
/// dropped.
fn keep_open(pool: &Weak<Pool>, session: Option<Arc<Session>>) {
    let Some(pool) = pool.upgrade() else { return };
    let mut state = pool.state();
    state.opening = None;
    let kept = session.filter(|_| !state.closed);
    state.known.extend(kept);
}

/// Opens a session. `insist`: again and again until the time is up.
async fn open_session(
    shared: Arc<Shared>,
    limit: Duration,
    insist: bool,
) -> std::result::Result<Arc<Session>, StoreError> {
    let give_up = Instant::now() + limit;
    let open = || async {
        timeout_at(give_up, Session::open(Arc::clone(&shared))).await.unwrap_or_else(|_| {
            let silence = format!("no server answered within {limit:?}");
            Err(StoreError::Unavailable(silence.into()))
        })
    };
    retry(|| !insist || Instant::now() >= give_up, open).await.0
}
