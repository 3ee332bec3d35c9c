//! A session and the task that keeps it alive.

pub(crate) mod ask;
pub(crate) mod claims;
pub(crate) mod deadline;
pub(crate) mod eviction;
#[cfg(test)]
pub(crate) mod fake_store;
mod keeper;
pub(crate) mod own_key;
pub(crate) mod own_keys;
mod pool;
mod process_stall;
pub(crate) mod store;
pub(crate) mod timing;
pub(crate) mod watch_budget;

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, Semaphore, watch};

use crate::{
    backend::{
        Backend, Facts,
        error::{Result, StoreError},
        name::{Queue, Ticket},
    },
    error::Error,
    lost::LostReason,
    runtime::{
        self, Runtime, Throttle,
        clock::{self, sleep, timeout},
        mutex::Mutex,
    },
    session::{
        claims::Claims, deadline::Deadline, eviction::Granted, own_keys::OwnKeys,
        store::SessionStore, watch_budget::WatchBudget,
    },
    telemetry::Telemetry,
};

pub(crate) use ask::{Tries, retry};
pub(crate) use pool::Sessions;

/// How many joins may be in flight at the same time. Thousands would take many kilobytes each and
/// would not finish sooner.
const JOINING: usize = 128;

/// The same limit for stores that query several servers for each join. Each server has only a short
/// time to reply, however many requests it gets. With hundreds of waiters at once, no server would
/// reply in time. The waiters would give up, retry, and time out again.
const JOINING_BY_MAJORITY: usize = 16;

/// The state that all sessions of a client share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runtime: Runtime,
    pub(crate) namespace: String,
    /// The requested TTL.
    pub(crate) ttl: Duration,
    /// The owner that is written into each key, for operators.
    pub(crate) owner: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) recheck_interval: Duration,
    /// Set once the client no longer grants locks.
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) telemetry: Telemetry,
}

impl Shared {
    /// Returns once the client no longer grants locks.
    pub(crate) async fn drained(&self) {
        // The sender is a field of `self`, so it outlives this borrow.
        drop(self.draining.subscribe().wait_for(|draining| *draining).await);
    }

    /// Returns an error if the store has no queues and the operation needs one.
    ///
    /// No request is sent.
    pub(crate) fn must_queue(&self, operation: &'static str) -> Result<(), Error> {
        match self.backend.queues() {
            true => Ok(()),
            false => Err(Error::Unsupported { backend: self.backend.kind(), operation }),
        }
    }

    /// Returns the queue of a lock, for an operation that needs one.
    pub(crate) fn queue(&self, name: &str, operation: &'static str) -> Result<Queue, Error> {
        self.must_queue(operation)?;
        if self.backend.mutexes_alone() {
            let operation = "primitives other than mutexes with the option `bridge`";
            return Err(Error::Unsupported { backend: self.backend.kind(), operation });
        }
        Queue::new(&self.namespace, name)
    }

    /// Returns the queue of a mutex.
    pub(crate) fn mutex(&self, name: &str) -> Result<Queue, Error> {
        self.backend.check_mutex(name)?;
        Queue::new(&self.namespace, name)
    }

    /// Returns the duration limit of a call that does not wait for other clients.
    ///
    /// It is enough for one request without a reply and a second one.
    pub(crate) fn patience(&self) -> Duration {
        self.request_timeout * 2
    }
}

/// One lease or store session, shared by any number of locks. Dropping the last reference ends it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) facts: Facts,
    pub(crate) store: SessionStore,
    pub(crate) deadline: Arc<Deadline>,
    /// The store's reply to the request to end the session.
    end: watch::Receiver<Option<End>>,
    /// Notifies the keeper to close the session without waiting.
    hurry: Arc<Notify>,
    pub(crate) watch_budget: Arc<WatchBudget>,
    /// Limits how many joins are in flight.
    pub(crate) join_permits: Semaphore,
    pub(crate) own_keys: Arc<OwnKeys>,
    /// The granted keys, which are to be watched for evictions.
    pub(crate) granted: Arc<Granted>,
    /// The attempts that have not ended.
    pub(crate) claims: Arc<Claims>,
    /// Used tickets of which no request can still be applied.
    tickets: Mutex<Vec<Ticket>>,
    /// Limits reads of queues for the log.
    pub(crate) slow_waits: Throttle,
    /// Limits searches for obsolete notes.
    pub(crate) tidying: Throttle,
}

impl Session {
    pub(crate) async fn open(shared: Arc<Shared>) -> Result<Arc<Self>> {
        let sent = clock::now();
        let (facts, store) = SessionStore::open(&shared).await?;
        let deadline = Arc::new(Deadline::new(sent, facts.ttl, facts.relays_renewals));
        let own_keys = Arc::<OwnKeys>::default();
        let claims = Arc::new(Claims::new(&facts));
        let (known, attempts) = (Arc::downgrade(&own_keys), Arc::clone(&claims));
        store.on_loss(Box::new(move |key, reason| {
            // A key of no attempt, which a late join request may have created, has no holder. This
            // is checked first: an attempt's key is known before it is claimed.
            let is_stray = attempts.suspects(key);
            // Without a session there are no holders.
            known.upgrade().is_none_or(|known| known.lose(key, reason) || is_stray)
        }));
        let (ended, end) = watch::channel(None);
        let hurry = Arc::<Notify>::default();
        let keeping = keeper::keep(Arc::clone(&deadline), store.clone(), facts, Arc::clone(&hurry));
        let ends = keeper::ends_with(&deadline);
        shared.runtime.spawn(async move {
            let closed = keeping.await;
            drop(ends);
            ended.send_replace(Some(closed.map_err(Arc::new)));
        });
        let watch_budget = Arc::new(WatchBudget::new(facts.watch_budget, facts.key_budget));
        let granted = eviction::start(
            store.clone(),
            Arc::clone(&deadline),
            Arc::clone(&watch_budget),
            Arc::clone(&claims),
            shared.recheck_interval,
        );
        let joining = if shared.backend.queues() { JOINING } else { JOINING_BY_MAJORITY };
        Ok(Arc::new(Self {
            shared,
            facts,
            store,
            deadline,
            end,
            hurry,
            watch_budget,
            join_permits: Semaphore::new(joining),
            own_keys,
            granted,
            claims,
            tickets: Mutex::default(),
            slow_waits: Throttle::default(),
            tidying: Throttle::default(),
        }))
    }

    /// Adds an attempt and returns its ticket, if the session is alive and has room.
    pub(crate) fn take_on(&self, queue: &Queue) -> Option<Ticket> {
        if !self.watch_budget.enter(queue) {
            return None;
        }
        if !self.deadline.enter() {
            self.watch_budget.left(queue);
            return None;
        }
        // Where the names of deleted keys cost the store something, reuse a ticket.
        let ticket = self.tickets.lock().pop().unwrap_or_else(Ticket::random);
        self.claims.open(ticket);
        Some(ticket)
    }

    /// Takes back a ticket whose requests have all been answered.
    pub(crate) fn reuse(&self, ticket: Ticket) {
        if self.facts.keeps_old_names {
            self.tickets.lock().push(ticket);
        }
    }

    /// Ends an attempt, once the store has no key of it or the session has ended.
    ///
    /// Its ticket may be reused only after that.
    pub(crate) fn left(&self, queue: &Queue, ticket: Ticket) {
        self.claims.end(ticket);
        self.deadline.left();
        self.watch_budget.left(queue);
    }

    /// Returns the error of a call that was interrupted by the end of this session.
    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        match reason {
            LostReason::ClientClosed => Error::Closed,
            reason => Error::SessionLost { backend: self.shared.backend.kind(), reason },
        }
    }

    /// Converts a store's error into the public one.
    pub(crate) fn public(&self, error: StoreError) -> Error {
        match error {
            StoreError::SessionGone(reason) => {
                self.deadline.lose(reason);
                // If several causes race, the first one counts, as it does for guards.
                self.lost_error(self.deadline.lost_reason().unwrap_or(reason))
            }
            error => error.into_public(self.shared.backend.kind()),
        }
    }

    /// Returns the time until the next periodic recheck.
    pub(crate) fn recheck(&self) -> Duration {
        self.shared.recheck_interval.mul_f64(runtime::late())
    }

    /// Renews the session, as soon as a renewal counts.
    pub(crate) async fn prove(&self) -> Result<()> {
        sleep(self.deadline.until_proofs_count()).await;
        let sent = clock::now();
        // The request is in flight, so it must not depend on the caller's polling.
        self.deadline.renewed(sent, self.store.keep_alive().await?);
        Ok(())
    }

    /// Returns `true` if the session was lost and needs no further work.
    ///
    /// That is the case once it has ended, or once the keeper has given up ending it after two
    /// TTLs. A session that the client has closed does not count, because `close` may be called
    /// again. Neither does one that the store refused to end.
    pub(crate) fn is_done_with(&self) -> bool {
        let ended = match &*self.end.borrow() {
            Some(Ok(())) => true,
            Some(Err(error)) => error.is_transient(),
            // The keeper may have stopped without a notification.
            None => self.end.has_changed().is_err(),
        };
        ended
            && self.deadline.is_over()
            && self.deadline.lost_reason() != Some(LostReason::ClientClosed)
    }

    /// Ends the session: notifies its holders first, then removes its keys.
    ///
    /// Waits up to `patience` for the store's confirmation.
    pub(crate) async fn close(&self, patience: Duration) -> Result<()> {
        self.deadline.lose(LostReason::ClientClosed);
        self.hurry.notify_one();
        let mut end = self.end.clone();
        match timeout(patience, end.wait_for(Option::is_some)).await {
            Ok(Ok(_)) => {}
            Ok(Err(failed)) => return Err(StoreError::Unknown(failed.into())),
            Err(late) => return Err(StoreError::Unknown(late.into())),
        }
        if self.is_done_with() {
            return Ok(());
        }
        match &*end.borrow() {
            Some(Err(error)) => Err(StoreError::again(error)),
            _ => Ok(()),
        }
    }
}

/// The result of closing a session.
type End = Result<(), Arc<StoreError>>;

/// Room in a session to watch a queue without joining it. Unlike an attempt, a visit does not
/// require the session to be renewed.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) session: Arc<Session>,
    queue: Queue,
}

impl Visit {
    pub(crate) fn new(session: &Arc<Session>, queue: &Queue) -> Option<Self> {
        let (session, queue) = (Arc::clone(session), queue.clone());
        session.watch_budget.visit(&queue).then(|| Self { session, queue })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.session.watch_budget.unvisit(&self.queue);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.deadline.lose(LostReason::ClientClosed);
        // The keeper then closes the store's session.
    }
}
