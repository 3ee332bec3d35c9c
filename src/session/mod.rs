//! A session and the task that keeps it alive.

pub(crate) mod ask;
pub(crate) mod deadline;
mod driven;
pub(crate) mod eviction;
mod keeper;
pub(crate) mod own_keys;
mod pool;
mod silence;
mod timing;
pub(crate) mod watch_budget;

use std::{
    ops::Deref,
    sync::{Arc, Mutex as SyncMutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore, watch},
    time::{sleep, timeout},
};

use crate::{
    backend::{
        Backend, Facts, Store,
        error::StoreError,
        name::{Queue, Ticket},
    },
    error::Error,
    lost::LostReason,
    runtime::{self, clock},
    session::{
        deadline::Deadline, driven::Driven, eviction::EvictionWatch, own_keys::OwnKeys,
        watch_budget::WatchBudget,
    },
};

pub(crate) use ask::{Tries, retry};
pub(crate) use pool::Sessions;

/// How many joins may be under way at once: thousands would take many kilobytes each, and be done
/// no sooner.
const JOINING: usize = 128;

/// What all sessions of a client have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runtime: &'static Handle,
    /// The TTL to ask for.
    pub(crate) ttl: Duration,
    /// Written into each key, for operators.
    pub(crate) owner: String,
    pub(crate) request_timeout: Duration,
    pub(crate) recheck_interval: Duration,
}

impl Shared {
    /// How long a call goes on that does not wait for others: for one request without an answer,
    /// and another one.
    pub(crate) fn patience(&self) -> Duration {
        self.request_timeout * 2
    }
}

/// One lease or store session, shared by any number of locks. The last reference to go ends it.
#[derive(Debug)]
pub(crate) struct Session {
    shared: Arc<Shared>,
    facts: Facts,
    store: Arc<dyn Store>,
    /// The same, for what callers ask it.
    driven: Driven,
    deadline: Arc<Deadline>,
    /// The store's word on the end of the session, once it was asked for that.
    end: watch::Receiver<Option<End>>,
    /// Nothing is to be waited for any more before it is closed.
    hurry: Arc<Notify>,
    watch_budget: Arc<WatchBudget>,
    /// Turns at joining.
    join_permits: Semaphore,
    own_keys: OwnKeys,
    evictions: EvictionWatch,
    /// Tickets that were used and of which nothing can come any more.
    tickets: SyncMutex<Vec<Ticket>>,
}

impl Session {
    pub(crate) async fn open(shared: Arc<Shared>) -> Result<Arc<Self>, StoreError> {
        let sent = clock::now();
        let (facts, store) = shared.backend.open(shared.ttl).await?;
        let deadline = Arc::new(Deadline::new(sent, facts.ttl, facts.relays_renewals));
        let (ended, end) = watch::channel(None);
        let hurry = Arc::<Notify>::default();
        let keeping = keeper::keep(
            Arc::clone(&deadline),
            Arc::clone(&store),
            facts.renewed_when_idle,
            Arc::clone(&hurry),
        );
        shared.runtime.spawn(async move {
            let closed = keeping.await;
            ended.send_replace(Some(closed.map_err(Arc::new)));
        });
        let driven = Driven::new(Arc::clone(&store), shared.runtime);
        let (watch_budget, join_permits) =
            (Arc::new(WatchBudget::new(facts.watch_budget)), Semaphore::new(JOINING));
        let recheck = shared.recheck_interval;
        let evictions = EvictionWatch::start(
            shared.runtime,
            Arc::clone(&store),
            Arc::clone(&deadline),
            Arc::clone(&watch_budget),
            recheck,
        );
        let (own_keys, tickets) = (OwnKeys::default(), SyncMutex::default());
        Ok(Arc::new(Self {
            shared,
            facts,
            store,
            driven,
            deadline,
            end,
            hurry,
            watch_budget,
            join_permits,
            own_keys,
            evictions,
            tickets,
        }))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The store, for callers: what they ask of it does not depend on their asking on.
    pub(crate) fn store(&self) -> &dyn Store {
        &self.driven
    }

    /// The store itself, for what the library carries on in any case.
    pub(crate) fn bare_store(&self) -> &dyn Store {
        &*self.store
    }

    /// What the server granted.
    pub(crate) fn ttl(&self) -> Duration {
        self.facts.ttl
    }

    pub(crate) fn deadline(&self) -> &Deadline {
        &self.deadline
    }

    pub(crate) fn own_keys(&self) -> &OwnKeys {
        &self.own_keys
    }

    pub(crate) fn join_permits(&self) -> &Semaphore {
        &self.join_permits
    }

    pub(crate) fn watch_budget(&self) -> &WatchBudget {
        &self.watch_budget
    }

    pub(crate) fn evictions(&self) -> &EvictionWatch {
        &self.evictions
    }

    /// Takes on one more attempt, if the session lives and has room: the ticket is for it.
    pub(crate) fn take_on(&self, queue: &Queue) -> Option<Ticket> {
        if !self.watch_budget.enter(queue) {
            return None;
        }
        if !self.deadline.enter() {
            self.watch_budget.left(queue);
            return None;
        }
        Some(self.ticket())
    }

    /// A used ticket rather than a new one, where the names of old keys cost the store something.
    fn ticket(&self) -> Ticket {
        self.tickets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop()
            .unwrap_or_else(Ticket::random)
    }

    /// Takes a ticket back. All requests that were made with it have been answered.
    pub(crate) fn reuse(&self, ticket: Ticket) {
        if !self.facts.keeps_old_names {
            return;
        }
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner).push(ticket);
    }

    /// An attempt is done with: nothing of it is left in the store, or the session is over.
    pub(crate) fn left(&self, queue: &Queue) {
        self.deadline.left();
        self.watch_budget.left(queue);
    }

    /// The error of a call that the end of this session cut short.
    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        match reason {
            LostReason::ClientClosed => Error::Closed,
            reason => Error::SessionLost { backend: self.shared.backend.name(), reason },
        }
    }

    /// The user's view of a store's error.
    pub(crate) fn public(&self, error: StoreError) -> Error {
        match error {
            StoreError::SessionGone(reason) => {
                self.deadline.lose(reason);
                // Where several causes race, the first one counts, as it does for the guards.
                self.lost_error(self.deadline.lost_reason().unwrap_or(reason))
            }
            error => error.into_public(self.shared.backend.name()),
        }
    }

    /// When to look again in any case.
    pub(crate) fn recheck(&self) -> Duration {
        let interval = self.shared.recheck_interval;
        interval.mul_f64(runtime::late())
    }

    /// Asks the store for a proof of life, as soon as it counts.
    pub(crate) async fn prove(&self) -> Result<(), StoreError> {
        sleep(self.deadline.until_proofs_count()).await;
        let sent = clock::now();
        self.deadline.renewed(sent, self.store.keep_alive().await?);
        Ok(())
    }

    /// Ends the session: its holders learn of it first, then the store lets go of its keys. Waits
    /// for the store's word as long as `patience`.
    pub(crate) async fn close(&self, patience: Duration) -> Result<(), StoreError> {
        self.deadline.lose(LostReason::ClientClosed);
        self.hurry.notify_one();
        let mut end = self.end.clone();
        match timeout(patience, end.wait_for(Option::is_some)).await {
            Ok(Ok(end)) => match &*end {
                Some(Err(error)) => Err(StoreError::again(error)),
                _ => Ok(()),
            },
            Ok(Err(failed)) => Err(StoreError::Unknown(failed.into())),
            Err(late) => Err(StoreError::Unknown(late.into())),
        }
    }
}

/// What came of closing a session.
type End = Result<(), Arc<StoreError>>;

/// Room in a session to watch a queue in which one does not stand. Unlike an attempt it does not
/// make the session one that somebody depends on.
#[derive(Debug)]
pub(crate) struct Visit<S: Deref<Target = Session>> {
    session: S,
    queue: Queue,
}

impl<S: Deref<Target = Session>> Visit<S> {
    pub(crate) fn new(session: S, queue: &Queue) -> Option<Self> {
        session.watch_budget.visit(queue).then(|| Self { session, queue: queue.clone() })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

impl<S: Deref<Target = Session>> Drop for Visit<S> {
    fn drop(&mut self) {
        self.session.watch_budget.unvisit(&self.queue);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.deadline.lose(LostReason::ClientClosed);
        // The keeper sees it and closes the store's session.
    }
}
