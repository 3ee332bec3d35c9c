//! One attempt to hold a lock, from the first write to the confirmed deletion.

use std::{sync::Arc, time::Duration};

use tokio::sync::{oneshot, watch};

use super::{deferred_release::DeferredRelease, pending_release::PendingRelease, release::Release};
use crate::{
    backend::{
        Join, Joined, Joiner, Standing,
        error::StoreError,
        name::{Queue, Ticket},
        signature,
    },
    error::Result as PublicResult,
    lost::LostReason,
    runtime::{
        carried::Carried,
        clock::{self, Instant, sleep},
    },
    session::{
        Session, Sessions, Tries,
        deadline::NotGranted,
        own_key::{End, OwnKey},
    },
    telemetry::Account,
};

/// One attempt to hold a lock. However the attempt ends, and whenever it is dropped, every key that
/// it wrote is deleted. The deletion is retried until it succeeds or the session is lost. If a late
/// request creates a key after that, the session finds and removes it: see `session/claims.rs`.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) session: Arc<Session>,
    pub(crate) ticket: Ticket,
    pub(crate) queue: Queue,
    /// The value to write into the key instead of the owner's signature.
    pub(crate) value: Option<Arc<[u8]>>,
    stage: Stage,
    /// The telemetry record of the hold that this attempt has become.
    pub(crate) account: Account,
}

/// How far an attempt has progressed.
#[derive(Debug)]
enum Stage {
    /// The store has no key of this attempt, and no request can still create one.
    Nothing,
    /// The store may have a key of this attempt, now or later.
    Sent,
    /// The store has this key, which these requests created.
    Joined { own: Arc<OwnKey>, joining: Tries },
    /// The key is being deleted.
    Left,
}

/// The result of a join.
#[derive(Debug)]
pub(crate) struct JoinOutcome {
    pub(crate) attempt: Attempt,
    pub(crate) standing: Standing,
    /// The queue was empty before this attempt joined it.
    pub(crate) alone: bool,
}

impl Attempt {
    /// Starts an attempt in a live session with room; opens a session if there is none.
    pub(crate) async fn new(sessions: &Sessions, queue: &Queue) -> PublicResult<Self> {
        sessions.in_session(|session| Self::in_session(session, queue)).await
    }

    /// Starts an attempt in this session, if it is alive and has room.
    pub(crate) fn in_session(session: &Arc<Session>, queue: &Queue) -> Option<Self> {
        let ticket = session.take_on(queue)?;
        Some(Self {
            session: Arc::clone(session),
            ticket,
            queue: queue.clone(),
            value: None,
            stage: Stage::Nothing,
            account: Account::default(),
        })
    }

    /// Returns the key in the queue, once the attempt has joined.
    pub(crate) fn own_key(&self) -> Option<&Arc<OwnKey>> {
        match &self.stage {
            Stage::Joined { own, .. } => Some(own),
            Stage::Nothing | Stage::Sent | Stage::Left => None,
        }
    }

    /// Joins the queue. Returns `None` if [`Join::IfFree`] found another entry there.
    ///
    /// Run this future in [`Carried::whole`], so that no write is cancelled in flight. A caller
    /// that no longer wants the result drops it, and the attempt with it. The request is retried
    /// until `give_up`, until the receiver of `interest` is dropped, or at the latest until the
    /// session ends. If the receiver is dropped while the request waits for a permit, nothing is
    /// sent.
    pub(crate) async fn join(
        mut self,
        join: Join,
        give_up: Option<Instant>,
        interest: oneshot::Sender<()>,
    ) -> Result<Option<JoinOutcome>, StoreError> {
        let session = Arc::clone(&self.session);
        let other = self.value.take();
        let signature = other.is_none().then(|| signature::write(&session.shared.owner));
        let value = other.as_deref().or(signature.as_deref()).unwrap_or_default();
        let queue = self.queue.clone();
        let late = || give_up.is_some_and(|at| Instant::now() >= at) || interest.is_closed();
        // The caller may hold the pool's last connection in a transaction, so a retry might never
        // end.
        let exhausted = |error: &StoreError| matches!(error, StoreError::Exhausted(_));
        let again = |error: &StoreError, _| error.is_transient() && !exhausted(error) && !late();
        self.stage = Stage::Sent;
        let request = || async {
            // The semaphore is never closed.
            let _permit = session.join_permits.acquire().await;
            if interest.is_closed() {
                return Err(StoreError::Unavailable("the caller has given up".into()));
            }
            let (sent, joining) = (clock::now(), session.own_keys.joins());
            let joiner = Joiner { queue: &queue, ticket: self.ticket };
            let joined = session.store.ask("join", |store| store.enqueue(joiner, value, join));
            Ok((joined.await?, sent, joining))
        };
        let (joined, tries) = session.ask_while(again, request).await;
        let entered = joined.map(|(joined, sent, _joining)| self.enter(joined, sent, tries));
        if !matches!(entered, Ok(Some(_))) && !tries.doubtful {
            self.stage = Stage::Nothing;
        }
        Ok(entered?.map(|(standing, alone)| JoinOutcome { attempt: self, standing, alone }))
    }

    /// Records the reply to a join request that was sent at `sent`.
    fn enter(
        &mut self,
        joined: Joined,
        sent: Duration,
        joining: Tries,
    ) -> Option<(Standing, bool)> {
        let Joined::Queued { entry, standing, at, alive, alone } = joined else { return None };
        if let Some(granted) = alive {
            self.session.deadline.renewed(sent, granted);
        }
        let own = self.session.own_keys.add(entry, at, sent, joining.doubtful);
        self.session.claims.settle(self.ticket, &own);
        self.stage = Stage::Joined { own, joining };
        Some((standing, alone))
    }

    /// Joins the queues of several attempts of one session in one request.
    ///
    /// Returns `None` if any of the queues is not empty, or if the store does not support this. Run
    /// this future in [`Carried::whole`], like [`join`](Self::join): dropping its result drops the
    /// attempts. The request is not retried.
    pub(crate) async fn join_all(
        mut attempts: Vec<Self>,
    ) -> Result<Option<Vec<JoinOutcome>>, StoreError> {
        let Some(session) = attempts.first().map(|attempt| Arc::clone(&attempt.session)) else {
            return Ok(None);
        };
        let value = signature::write(&session.shared.owner);
        let queues: Vec<_> =
            attempts.iter().map(|attempt| (attempt.queue.clone(), attempt.ticket)).collect();
        let joiners: Vec<_> =
            queues.iter().map(|(queue, ticket)| Joiner { queue, ticket: *ticket }).collect();
        attempts.iter_mut().for_each(|attempt| attempt.stage = Stage::Sent);
        let request = || async {
            // The semaphore is never closed.
            let _permit = session.join_permits.acquire().await;
            let (sent, joining) = (clock::now(), session.own_keys.joins());
            let joined = session.store.ask("join_all", |store| store.enqueue_all(&joiners, &value));
            Ok((joined.await?, sent, joining))
        };
        let (joined, tries) = session.ask_while(|_, _| false, request).await;
        if !matches!(joined, Ok((Some(_), ..))) && !tries.doubtful {
            attempts.iter_mut().for_each(|attempt| attempt.stage = Stage::Nothing);
        }
        let (Some(joined), sent, _joining) = joined? else { return Ok(None) };
        let entered = attempts.into_iter().zip(joined).map(|(mut attempt, joined)| {
            let (standing, alone) = attempt.enter(joined, sent, tries)?;
            Some(JoinOutcome { attempt, standing, alone })
        });
        // If one attempt has not joined, none has. Dropping the attempts cleans up.
        Ok(entered.collect())
    }

    /// Turns the waiter into a holder, if the session's deadline allows.
    pub(crate) fn grant(&mut self) -> Result<(), NotGranted> {
        self.session.deadline.grant()?;
        if let Stage::Joined { own, .. } = &self.stage {
            own.hold();
            self.session.granted.add(own);
        }
        Ok(())
    }

    /// Replaces a holder's key by one with another label.
    ///
    /// Run this future in [`Carried::whole`]: it continues until the store has confirmed or refused
    /// the change, or the session has ended. A request whose outcome is unknown is repeated even
    /// after a refusal.
    pub(crate) async fn relabel(mut self, label: &str, value: &[u8]) -> Result<Self, StoreError> {
        let session = Arc::clone(&self.session);
        let Stage::Joined { own: old, joining } = &self.stage else { return Ok(self) };
        let (old, mut joining) = (Arc::clone(old), *joining);
        if !old.replace() {
            // The hold expired a moment ago, and its key is being deleted.
            return Ok(self);
        }
        // The token in the label shows the key's place in the queue.
        let to = self.queue.labelled(&format!("{label}@{}", old.entry.token));
        let joiner = Joiner { queue: &to, ticket: self.ticket };
        let request = || {
            let store = &session.store;
            store.ask("relabel", |store| store.relabel(joiner, &old.entry, value))
        };
        // While it is unknown which of the two keys exists, no refusal may end the retries: the
        // other key would stay behind.
        let again = |error: &StoreError, tries: Tries| error.is_transient() || tries.doubtful;
        session.claims.open(self.ticket);
        let Some(entry) = session.ask_while(again, request).await.0? else {
            session.claims.settle(self.ticket, &old);
            old.lose(LostReason::Evicted);
            return Ok(self);
        };
        // A repeated request would find the old key gone and create nothing.
        let own = session.own_keys.add(entry, old.joined, old.sent, false);
        session.claims.settle(self.ticket, &own);
        own.hold();
        own.account.put(&self.account);
        session.granted.add(&own);
        self.queue = to;
        // Prevents reuse of the ticket.
        joining.count += 1;
        self.stage = Stage::Joined { own, joining };
        if joining.doubtful {
            // A join request may still create a key with the former label.
            session.claims.doubt();
        }
        old.leave();
        session.own_keys.end(&old, End::Unclear);
        Ok(self)
    }

    /// Deletes the key and waits up to `patience` for the store to confirm or deny it.
    ///
    /// After that, the release continues in the background.
    pub(crate) async fn release_within(mut self, patience: Duration) -> Release {
        let (progress, mut latest) = watch::channel(Release::Trying(None));
        let account = self.account.handle();
        let Some(pending) = self.end() else { return Release::Absent };
        let work = Carried::whole(&self.session.shared.runtime, pending.run(progress));
        let refused = async {
            let refused = latest.wait_for(|release| matches!(release, Release::Refused(_))).await;
            refused.map(|refused| refused.clone())
        };
        tokio::select! {
            biased;
            // Keep the sender: dropping it here would wake this task, which listens to it.
            (release, _progress) = work => release,
            Ok(refused) = refused => refused,
            () = sleep(patience) => {
                let release = latest.borrow().clone();
                account.unconfirmed(None, || release.trouble());
                release
            }
        }
    }

    /// Leaves the release to one of the user's transactions; `None` without a key.
    #[allow(dead_code)] // Used only by stores with transactions.
    pub(crate) fn defer_release(mut self) -> Option<DeferredRelease> {
        let pending = self.end()?;
        Some(DeferredRelease::new(PendingRelease { shared: true, ..pending }))
    }

    /// Ends the attempt, which invalidates the guard that holds the lock through it.
    ///
    /// The caller has to run or spawn the returned release, which deletes the key.
    fn end(&mut self) -> Option<PendingRelease> {
        let (session, ticket) = (Arc::clone(&self.session), self.ticket);
        let queue = self.queue.clone();
        let (own, joining) = match std::mem::replace(&mut self.stage, Stage::Left) {
            Stage::Left => return None,
            Stage::Sent => (None, Tries { doubtful: true, ..Tries::default() }),
            Stage::Nothing => {
                session.left(&queue, ticket);
                return None;
            }
            Stage::Joined { own, joining } => (Some(own), joining),
        };
        let held = own.as_ref().is_some_and(|own| own.leave());
        if held
            && session.deadline.leave()
            && let Some(own) = &own
        {
            own.released();
        }
        // After an expiry, another request that deletes the key of this ticket may be in flight.
        let expired = own
            .as_ref()
            .is_some_and(|own| !held && own.lost_reason() == Some(LostReason::HeldTooLong));
        let account = std::mem::take(&mut self.account);
        account.let_go();
        let shared = false;
        Some(PendingRelease {
            session,
            queue,
            ticket,
            own,
            joining,
            held,
            expired,
            shared,
            account,
        })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.session.deadline.is_inherited() {
            // The key belongs to the parent, and so does the connection that ending the session
            // would use.
            let account = std::mem::take(&mut self.account);
            std::mem::forget((Arc::clone(&self.session), account));
            return;
        }
        if matches!(self.stage, Stage::Left) {
            return;
        }
        if let Some(pending) = self.end() {
            pending.spawn();
        }
    }
}

#[cfg(test)]
mod tests;
