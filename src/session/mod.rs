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

/// How many joins may be under way at once: thousands would take many kilobytes each, and be done
/// no sooner.
const JOINING: usize = 128;

/// The same where several servers are asked for each, which have a short time to answer whether
/// they are asked one thing or a thousand: hundreds of waiters at once would find all of them
/// silent, give up what they may have got, ask again, and find them silent again.
const JOINING_BY_MAJORITY: usize = 16;

/// What all sessions of a client have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) runtime: Runtime,
    pub(crate) namespace: String,
    /// The TTL to ask for.
    pub(crate) ttl: Duration,
    /// Written into each key, for operators.
    pub(crate) owner: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) recheck_interval: Duration,
    /// Nothing is granted any more.
    pub(crate) draining: watch::Sender<bool>,
    pub(crate) telemetry: Telemetry,
}

impl Shared {
    /// Returns when nothing is granted any more.
    pub(crate) async fn drained(&self) {
        // The sender is a field of `self`, so it outlives this borrow.
        drop(self.draining.subscribe().wait_for(|draining| *draining).await);
    }

    /// Refuses what takes a queue where the store has none, before anything is sent.
    pub(crate) fn must_queue(&self, operation: &'static str) -> Result<(), Error> {
        match self.backend.queues() {
            true => Ok(()),
            false => Err(Error::Unsupported { backend: self.backend.kind(), operation }),
        }
    }

    /// The queue of a lock of this name, for what takes one.
    pub(crate) fn queue(&self, name: &str, operation: &'static str) -> Result<Queue, Error> {
        self.must_queue(operation)?;
        if self.backend.mutexes_alone() {
            return Err(Error::Unsupported { backend: self.backend.kind(), operation });
        }
        Queue::new(&self.namespace, name)
    }

    /// The queue of the mutex of this name.
    pub(crate) fn mutex(&self, name: &str) -> Result<Queue, Error> {
        self.backend.check_mutex(name)?;
        Queue::new(&self.namespace, name)
    }

    /// How long a call goes on that does not wait for others: for one request without an answer,
    /// and another one.
    pub(crate) fn patience(&self) -> Duration {
        self.request_timeout * 2
    }
}

/// One lease or store session, shared by any number of locks. The last reference to go ends it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) facts: Facts,
    pub(crate) store: SessionStore,
    pub(crate) deadline: Arc<Deadline>,
    /// The store's word on the end of the session, once it was asked for that.
    end: watch::Receiver<Option<End>>,
    /// Nothing is to be waited for any more before it is closed.
    hurry: Arc<Notify>,
    pub(crate) watch_budget: Arc<WatchBudget>,
    /// Turns at joining.
    pub(crate) join_permits: Semaphore,
    pub(crate) own_keys: Arc<OwnKeys>,
    /// What was granted, to be looked after.
    pub(crate) granted: Arc<Granted>,
    /// The attempts that are not over.
    pub(crate) claims: Arc<Claims>,
    /// Tickets that were used and of which nothing can come any more.
    tickets: Mutex<Vec<Ticket>>,
    /// Looks at queues for the log.
    pub(crate) slow_waits: Throttle,
    /// Looks for notes that are no longer of use.
    pub(crate) tidying: Throttle,
}

impl Session {
    pub(crate) async fn open(shared: Arc<Shared>) -> Result<Arc<Self>> {
        let sent = clock::now();
        let (facts, store) = SessionStore::open(&shared).await?;
        let deadline = Arc::new(Deadline::new(sent, facts.ttl, facts.relays_renewals));
        let own_keys = Arc::<OwnKeys>::default();
        let known = Arc::downgrade(&own_keys);
        store.on_loss(Box::new(move |key, reason| {
            // Without a session there are no holders.
            known.upgrade().is_none_or(|known| known.lose(key, reason))
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
        let claims = Arc::new(Claims::new(&facts));
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

    /// Takes on one more attempt, if the session lives and has room: the ticket is for it.
    pub(crate) fn take_on(&self, queue: &Queue) -> Option<Ticket> {
        if !self.watch_budget.enter(queue) {
            return None;
        }
        if !self.deadline.enter() {
            self.watch_budget.left(queue);
            return None;
        }
        // A used ticket rather than a new one, where the names of old keys cost the store
        // something.
        let ticket = self.tickets.lock().pop().unwrap_or_else(Ticket::random);
        self.claims.open(ticket);
        Some(ticket)
    }

    /// Takes a ticket back. All requests that were made with it have been answered.
    pub(crate) fn reuse(&self, ticket: Ticket) {
        if self.facts.keeps_old_names {
            self.tickets.lock().push(ticket);
        }
    }

    /// Ends an attempt, once its keys are no longer in the store or the session has ended. Only
    /// then may its ticket be used again.
    pub(crate) fn left(&self, queue: &Queue, ticket: Ticket) {
        self.claims.end(ticket);
        self.deadline.left();
        self.watch_budget.left(queue);
    }

    /// The error of a call that the end of this session cut short.
    pub(crate) fn lost_error(&self, reason: LostReason) -> Error {
        match reason {
            LostReason::ClientClosed => Error::Closed,
            reason => Error::SessionLost { backend: self.shared.backend.kind(), reason },
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
            error => error.into_public(self.shared.backend.kind()),
        }
    }

    /// When to look again in any case.
    pub(crate) fn recheck(&self) -> Duration {
        self.shared.recheck_interval.mul_f64(runtime::late())
    }

    /// Asks the store for a proof of life, as soon as it counts.
    pub(crate) async fn prove(&self) -> Result<()> {
        sleep(self.deadline.until_proofs_count()).await;
        let sent = clock::now();
        // It has a request under way: not the caller's to leave unpolled.
        self.deadline.renewed(sent, self.store.keep_alive().await?);
        Ok(())
    }

    /// Whether it was lost, and then ended or, after more than a TTL, given up. What a client has
    /// closed is not: that is asked for again. Nor is what the store refused to end.
    pub(crate) fn is_done_with(&self) -> bool {
        let ended = match &*self.end.borrow() {
            Some(Ok(())) => true,
            Some(Err(error)) => error.is_transient(),
            // Its keeper may have stopped without a notification.
            None => self.end.has_changed().is_err(),
        };
        ended
            && self.deadline.is_over()
            && self.deadline.lost_reason() != Some(LostReason::ClientClosed)
    }

    /// Ends the session: its holders learn of it first, then the store lets go of its keys. Waits
    /// for the store's word as long as `patience`.
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

/// What came of closing a session.
type End = Result<(), Arc<StoreError>>;

/// Room in a session to watch a queue in which one does not stand. Unlike an attempt it does not
/// make the session one that somebody depends on.
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
        // The keeper sees it and closes the store's session.
    }
}
