//! One attempt to hold a lock, from the first write to the confirmed delete.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep, timeout_at},
};

use crate::{
    backend::{Entry, Join, Joined},
    clock,
    error::{BoxError, StoreError},
    guard::LostReason,
    life::Grant,
    name::{Queue, Ticket},
    rig::{Bug, planted},
    runtime::backoff,
    session::Session,
};

/// When to look again for a key whose creation was in doubt: a request that timed out here may still wait in a server, for as long as that
/// server lets it (etcd: 5 s and two elections), and be applied after the delete.
const DOUBT: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(8)];

/// A ticket in a queue. It is armed before the first write: whenever it is dropped, its key is deleted, however long that takes,
/// by a task of the session.
#[derive(Debug)]
pub(crate) struct Claim {
    session: Arc<Session>,
    queue: Queue,
    ticket: Ticket,
    weight: usize,
    entry: Option<Entry>,
    /// A write was sent.
    written: bool,
    /// A write was sent whose outcome nobody knows.
    doubtful: bool,
    held: bool,
    /// Not released yet.
    armed: bool,
}

/// What became of a release.
#[derive(Debug, Clone)]
pub(crate) enum Release {
    Trying(Option<Arc<BoxError>>),
    /// This release deleted the key.
    Released,
    /// The key was not there any more, though nobody but this guard should have deleted it.
    Absent,
    SessionOver(LostReason),
}

impl Claim {
    pub(crate) fn new(session: Arc<Session>, queue: Queue, weight: usize) -> Self {
        Self {
            session,
            queue,
            ticket: Ticket::random(),
            weight,
            entry: None,
            written: false,
            doubtful: false,
            held: false,
            armed: true,
        }
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Joins the queue. Meant to run in a task of its own, so that no write is cancelled in flight: when the task's result is not wanted any
    /// more, dropping it drops the claim. Retries until `give_up`, while the other end of `interest` is there, and until the session is over at the latest.
    pub(crate) async fn join(
        mut self,
        join: Join,
        give_up: Option<Instant>,
        interest: oneshot::Sender<()>,
    ) -> Result<(Self, Joined), StoreError> {
        let mut attempt = 0;
        loop {
            let sent = clock::now();
            self.written = true;
            let session = Arc::clone(&self.session);
            let value = session.shared().owner.as_bytes();
            let outcome = tokio::select! {
                reason = session.life().lost() => Err(StoreError::SessionGone(reason)),
                outcome = session.store().enqueue(&self.queue, self.ticket, value, join) => outcome,
            };
            match outcome {
                Ok(Joined::Queued { entry, standing, alive }) => {
                    if let Some(granted) = alive {
                        session.life().renewed(sent, granted);
                    }
                    self.entry = Some(entry.clone());
                    return Ok((self, Joined::Queued { entry, standing, alive }));
                }
                Ok(Joined::Occupied) => {
                    self.written = self.doubtful;
                    return Ok((self, Joined::Occupied));
                }
                Err(StoreError::SessionGone(reason)) => {
                    session.life().lose(reason);
                    return Err(StoreError::SessionGone(reason));
                }
                Err(error) => {
                    self.doubtful |= matches!(error, StoreError::Unknown(_));
                    let late = give_up.is_some_and(|at| Instant::now() >= at) || interest.is_closed();
                    if !error.is_transient() || late {
                        self.written = self.doubtful;
                        return Err(error);
                    }
                }
            }
            if planted(Bug::NewTicketOnRetry) {
                self.ticket = Ticket::random();
            }
            sleep(backoff(attempt)).await;
            attempt += 1;
        }
    }

    /// Turns the waiter into a holder, if the session's deadline allows.
    pub(crate) fn grant(&mut self) -> Grant {
        let grant = self.session.life().grant();
        self.held = grant == Grant::Granted;
        grant
    }

    /// Starts to delete the key; the task goes on whether or not anybody listens.
    pub(crate) fn release(mut self) -> watch::Receiver<Release> {
        self.start_release()
    }

    /// Deletes the key and waits up to `patience` for the store's word.
    pub(crate) async fn release_within(self, patience: Duration) -> Release {
        let mut progress = self.release();
        let done = progress.wait_for(|release| !matches!(release, Release::Trying(_)));
        if let Ok(Ok(release)) = timeout_at(Instant::now() + patience, done).await {
            return release.clone();
        }
        progress.borrow().clone()
    }

    fn start_release(&mut self) -> watch::Receiver<Release> {
        let (progress, listener) = watch::channel(Release::Trying(None));
        if !std::mem::take(&mut self.armed) {
            return listener;
        }
        let (session, weight) = (Arc::clone(&self.session), self.weight);
        if self.held {
            session.life().retire();
        }
        if !self.written || planted(Bug::JoinDiesWithCaller) && self.entry.is_none() {
            session.unclaim(weight);
            progress.send_replace(Release::Absent);
            return listener;
        }
        let (queue, ticket, entry, doubtful) = (self.queue.clone(), self.ticket, self.entry.take(), self.doubtful);
        self.session.shared().runtime.spawn(async move {
            release(&session, &queue, ticket, entry.as_ref(), &progress).await;
            session.unclaim(weight);
            // Only a session that lives on has to look again: with its end the key is gone in any case.
            let weak = Arc::downgrade(&session);
            drop(session);
            for pause in DOUBT.iter().filter(|_| doubtful && !planted(Bug::DoubtForgotten)) {
                sleep(*pause).await;
                let Some(session) = weak.upgrade() else { return };
                release(&session, &queue, ticket, None, &watch::Sender::new(Release::Trying(None))).await;
            }
        });
        listener
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        drop(self.start_release());
    }
}

/// Deletes the key: retries until the store confirms that it is gone, or the session is over and its keys with it.
async fn release(
    session: &Session,
    queue: &Queue,
    ticket: Ticket,
    entry: Option<&Entry>,
    progress: &watch::Sender<Release>,
) {
    let mut attempt = 0;
    let outcome = loop {
        let outcome = tokio::select! {
            biased;
            reason = session.life().lost() => Err(StoreError::SessionGone(reason)),
            outcome = session.store().withdraw(queue, ticket, entry) => outcome,
        };
        match outcome {
            // After a reply was lost, an absent key is most likely this release's own work.
            Ok(existed) => break if existed || attempt > 0 { Release::Released } else { Release::Absent },
            Err(StoreError::SessionGone(reason)) => {
                session.life().lose(reason);
                break Release::SessionOver(reason);
            }
            Err(error) => progress.send_replace(Release::Trying(Some(Arc::new(error.into_source())))),
        };
        if planted(Bug::WithdrawOnce) {
            return;
        }
        sleep(backoff(attempt)).await;
        attempt += 1;
    };
    progress.send_replace(outcome);
}
