//! The sessions of a client: those in use and the one that is being opened.

use std::{
    io, mem,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::sync::watch;

use crate::{
    backend::{Entry, error::StoreError, name::Queue},
    error::{Error, Result},
    runtime::{
        carried::Carried,
        clock::{Instant, sleep, timeout_at},
        mutex::{Mutex, MutexGuard},
    },
    session::{Session, Shared, Visit, retry, store::SessionStore, timing::Timing},
    telemetry::Opened,
};

/// The sessions of a client and their shared state. Cheap to clone; all clones are the same. When
/// the last one is dropped, each session ends in the background once no guard or call uses it.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    shared: Arc<Shared>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The sessions in use and those that are about to end. After the client was closed, the
    /// sessions that it had.
    known: Vec<Arc<Session>>,
    /// A background task that opens a session for all waiting callers. None of them drives it.
    opening: Option<watch::Receiver<Option<Opening>>>,
    /// The client has had a session.
    opened: bool,
    closed: bool,
}

/// The result of opening a session.
type Opening = Result<(), Arc<StoreError>>;

impl Sessions {
    /// Opens the first session.
    pub(crate) async fn open(shared: Shared) -> Result<Self> {
        let shared = Arc::new(shared);
        let opening = async {
            let opened = open_session(Arc::clone(&shared), false).await;
            opened.map_err(|error| error.into_public(shared.backend.kind()))
        };
        let session = shared.runtime.within(opening).await?;
        shared.telemetry.opened(Opened::First);
        let state = State { known: vec![session], opened: true, ..State::default() };
        Ok(Self { pool: Arc::new(Pool { shared, state: Mutex::new(state) }) })
    }

    /// Creates the pool without opening a session.
    pub(crate) fn lazy(shared: Shared) -> Self {
        Self { pool: Arc::new(Pool { shared: Arc::new(shared), state: Mutex::default() }) }
    }

    /// Returns `true` if the client has had a session.
    pub(crate) fn is_opened(&self) -> bool {
        self.pool.state().map_or(true, |state| state.opened)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.pool.shared
    }

    /// Returns the timing of the latest session, or else the requested timing.
    pub(crate) fn timing(&self) -> Timing {
        let latest = self.pool.state().ok().and_then(|state| state.known.last().cloned());
        let asked = Timing { ttl: self.pool.shared.ttl, relayed: false };
        latest.map_or(asked, |session| session.deadline.timing)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pool.state().is_ok_and(|state| state.closed)
    }

    /// Returns the longest remaining time of a live session, if any.
    pub(crate) fn remaining(&self) -> Option<Duration> {
        let known = self.pool.state().ok()?.known.clone();
        let alive = known.iter().filter(|session| session.deadline.lost_reason().is_none());
        alive.map(|session| session.deadline.remaining()).max()
    }

    /// Renews a session, and returns how long that took.
    pub(crate) async fn ping(&self) -> Result<Duration> {
        let session = self.any().await?;
        sleep(session.deadline.until_proofs_count()).await;
        let began = Instant::now();
        let proved = session.ask_briefly(|| session.prove()).await;
        proved.map(|()| began.elapsed()).map_err(|error| session.public(error))
    }

    /// Returns when no session holds or is releasing a lock.
    pub(crate) async fn unheld(&self) {
        let known = self.pool.state().map(|state| state.known.clone()).unwrap_or_default();
        join_all(known.iter().map(|session| session.deadline.unheld())).await;
    }

    /// Ends all sessions and opens no more.
    ///
    /// Once the future has been polled, the work continues even if it is dropped.
    pub(crate) fn close(&self) -> impl Future<Output = Result<()>> + use<> {
        let sessions = self.pool.state().map(|mut state| {
            state.closed = true;
            state.known.retain(|session| !session.is_done_with());
            state.known.clone()
        });
        let shared = Arc::clone(&self.pool.shared);
        let patience = shared.connect_timeout;
        async move {
            let sessions = sessions?;
            // All sessions in parallel.
            let closing = async move {
                join_all(sessions.iter().map(|session| session.close(patience))).await
            };
            let closing = Carried::whole(&shared.runtime, closing);
            let closed = shared.runtime.within(async { Ok(closing.await) }).await?;
            let closed: Result<(), StoreError> = closed.into_iter().collect();
            closed.map_err(|error| error.into_public(shared.backend.kind()))
        }
    }

    /// Returns a live session for requests; opens one if there is none.
    pub(crate) async fn any(&self) -> Result<Arc<Session>> {
        self.in_session(|session| Some(Arc::clone(session))).await
    }

    /// Sends a request to the store, from any executor.
    pub(crate) async fn ask<T, F>(&self, request: impl Fn(&SessionStore) -> F) -> Result<T>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let asking = async {
            let session = self.any().await?;
            let answer = session.ask_briefly(|| request(&session.store)).await;
            answer.map_err(|error| session.public(error))
        };
        self.shared().runtime.within(asking).await
    }

    /// Returns a live session with room to watch a queue; opens one if there is none.
    pub(crate) async fn visit(&self, queue: &Queue) -> Result<Visit> {
        self.in_session(|session| Visit::new(session, queue)).await
    }

    /// Returns `true` if one of this client's sessions is known to own the key.
    pub(crate) fn owns(&self, entry: &Entry) -> bool {
        let owns = |session: &Arc<Session>| session.own_keys.find(entry).is_some();
        self.pool.state().is_ok_and(|state| state.known.iter().any(owns))
    }

    /// Returns the first result of `take` for a live session.
    ///
    /// If there is none, a session is opened.
    pub(crate) async fn in_session<T>(
        &self,
        take: impl Fn(&Arc<Session>) -> Option<T>,
    ) -> Result<T> {
        loop {
            let known = {
                let state = self.pool.state()?;
                if state.closed {
                    return Err(Error::Closed);
                }
                state.known.clone()
            };
            // Without the lock: querying a session may wake tasks that wait for its end.
            let alive = known.iter().filter(|session| session.deadline.lost_reason().is_none());
            if let Some(taken) = alive.into_iter().find_map(&take) {
                return Ok(taken);
            }
            let over = known.iter().map(|session| session.deadline.lost_reason());
            let why = over.fold(Opened::Replaced(None), |why, over| match (why, over) {
                (Opened::Replaced(_), Some(_)) => Opened::Replaced(over),
                _ => Opened::Full,
            });
            let mut opening = {
                let mut state = self.pool.state()?;
                if state.closed {
                    return Err(Error::Closed);
                }
                // Lost sessions that have not ended yet are kept, to be closed with the client.
                state.known.retain(|session| !session.is_done_with());
                let tried =
                    |session: &Arc<Session>| known.iter().any(|known| Arc::ptr_eq(known, session));
                if !state.known.iter().all(tried) {
                    continue;
                }
                let why = if state.opened { why } else { Opened::First };
                state.opening.get_or_insert_with(|| self.begin_to_open(why)).clone()
            };
            let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
            match opened {
                Ok(Some(Err(error))) => {
                    return Err(StoreError::again(&error).into_public(self.shared().backend.kind()));
                }
                Ok(_) => {}
                // The task was dropped with its runtime, or telemetry panicked.
                Err(_) => {
                    let mut state = self.pool.state.lock();
                    state.opening.take_if(|current| current.same_channel(&opening));
                    drop(state);
                    self.shared().runtime.check()?;
                    let why = io::Error::other("the task that opens a session has panicked");
                    return Err(Error::Runtime { source: why.into() });
                }
            }
        }
    }

    /// Starts a task that opens a session.
    ///
    /// It retries until the connect timeout, because the servers that lost the last session may
    /// come back soon.
    fn begin_to_open(&self, why: Opened) -> watch::Receiver<Option<Opening>> {
        let (outcome, opening) = watch::channel(None);
        let (pool, shared) = (Arc::downgrade(&self.pool), Arc::clone(&self.pool.shared));
        self.shared().runtime.spawn(async move {
            let telemetry = shared.telemetry;
            let opened = open_session(shared, true).await;
            if opened.is_ok() {
                telemetry.opened(why);
            }
            keep_open(&pool, opened.as_ref().ok());
            outcome.send_replace(Some(opened.map(drop).map_err(Arc::new)));
        });
        opening
    }
}

impl Pool {
    /// Locks the state. Fails in a forked child, in which the lock may be held forever by a thread
    /// that only the parent has.
    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let runtime = &self.shared.runtime;
        if runtime.is_inherited() {
            runtime.check()?;
        }
        Ok(self.state.lock())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.shared.runtime.is_inherited() {
            // The sessions and their connections belong to the parent.
            mem::forget((mem::take(self.state.get_mut()), Arc::clone(&self.shared)));
        }
    }
}

/// Keeps a new session in the pool.
///
/// Without a client, or after it was closed, the session ends when it is dropped.
fn keep_open(pool: &Weak<Pool>, session: Option<&Arc<Session>>) {
    let Some(pool) = pool.upgrade() else { return };
    let mut state = pool.state.lock();
    state.opening = None;
    let kept = session.filter(|_| !state.closed);
    state.opened |= kept.is_some();
    state.known.extend(kept.map(Arc::clone));
}

/// Opens a session. `insist`: retries until the connect timeout.
async fn open_session(shared: Arc<Shared>, insist: bool) -> Result<Arc<Session>, StoreError> {
    let limit = shared.connect_timeout;
    let give_up = Instant::now() + limit;
    let open = || async {
        timeout_at(give_up, Session::open(Arc::clone(&shared))).await.unwrap_or_else(|_| {
            let silence = format!("no session was opened within {limit:?}");
            Err(StoreError::Unavailable(silence.into()))
        })
    };
    let again = |error: &StoreError, _| insist && error.is_transient() && Instant::now() < give_up;
    retry(again, open).await.0
}

#[cfg(test)]
mod tests;
