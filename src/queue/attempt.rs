//! One attempt to hold a lock, from the first write to the confirmed delete.

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

/// One try to hold a lock. However it ends, and whenever it is dropped, each key that it ever wrote
/// is deleted, however long that takes, by a task of the session. A key that a request puts after
/// that is found by its session: see `session/claims.rs`.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) session: Arc<Session>,
    pub(crate) ticket: Ticket,
    pub(crate) queue: Queue,
    /// What to write into the key, if not who owns it.
    pub(crate) value: Option<Arc<[u8]>>,
    /// It is only a way to something else, and nobody is to be told of its loss: the key need not
    /// be watched.
    pub(crate) passing: bool,
    stage: Stage,
    /// Of the hold that it has become, for those who listen.
    pub(crate) account: Account,
}

/// How far an attempt has come.
#[derive(Debug)]
enum Stage {
    /// It has nothing in the store, and nothing can come.
    Nothing,
    /// It may have a key in the store, now or later.
    Sent,
    /// It has this key, which these requests made.
    Joined { own: Arc<OwnKey>, joining: Tries },
    /// It is being deleted.
    Left,
}

/// What came of joining.
#[derive(Debug)]
pub(crate) struct JoinOutcome {
    pub(crate) attempt: Attempt,
    pub(crate) standing: Standing,
    /// Nothing else was in the queue.
    pub(crate) alone: bool,
}

impl Attempt {
    /// In a session that lives and has room; opens one if there is none.
    pub(crate) async fn new(sessions: &Sessions, queue: &Queue) -> PublicResult<Self> {
        sessions.in_session(|session| Self::in_session(session, queue)).await
    }

    /// In this session, if it lives and has room.
    pub(crate) fn in_session(session: &Arc<Session>, queue: &Queue) -> Option<Self> {
        let ticket = session.take_on(queue)?;
        Some(Self {
            session: Arc::clone(session),
            ticket,
            queue: queue.clone(),
            value: None,
            passing: false,
            stage: Stage::Nothing,
            account: Account::default(),
        })
    }

    /// The key in the queue, once it has joined.
    pub(crate) fn own_key(&self) -> Option<&Arc<OwnKey>> {
        match &self.stage {
            Stage::Joined { own, .. } => Some(own),
            Stage::Nothing | Stage::Sent | Stage::Left => None,
        }
    }

    /// Joins the queue; `None` if somebody is there already. Meant to be carried
    /// [whole](Carried::whole), so that no write is cancelled in flight: when its result is not
    /// wanted any more, dropping that drops the attempt. Retries until `give_up`, while the other
    /// end of `interest` is there, and until the session is over at the latest. Nothing is sent for
    /// a caller that has gone while others had their turn.
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
        // Its caller may keep the pool's last connection in a transaction, which would never end.
        let exhausted = |error: &StoreError| matches!(error, StoreError::Exhausted(_));
        let again = |error: &StoreError, _| error.is_transient() && !exhausted(error) && !late();
        self.stage = Stage::Sent;
        let request = || async {
            // Never closed.
            let _permit = session.join_permits.acquire().await;
            if interest.is_closed() {
                return Err(StoreError::Unavailable("its caller has gone".into()));
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

    /// Takes note of the answer to a request to join that was sent at `sent`.
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

    /// Joins the queues of several attempts of one session in one request, if nobody is in any of
    /// them; `None` if somebody is, or the store can't. Meant to be carried whole, as
    /// [`join`](Self::join): when the result is not wanted any more, dropping that drops the
    /// attempts. It is not tried again.
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
            // Never closed.
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
        // If one of them is not in, none is: the drop of the attempts takes them out.
        Ok(entered.collect())
    }

    /// Turns the waiter into a holder, if the session's deadline allows.
    pub(crate) fn grant(&mut self) -> Result<(), NotGranted> {
        self.session.deadline.grant()?;
        if let Stage::Joined { own, .. } = &self.stage {
            own.hold();
            if !self.passing {
                self.session.granted.add(own);
            }
        }
        Ok(())
    }

    /// Puts a key with another label into the place of a holder's own. Meant to be carried whole:
    /// goes on until the store has confirmed it or the session is over.
    pub(crate) async fn relabel(mut self, label: &str, value: &[u8]) -> Result<Self, StoreError> {
        let session = Arc::clone(&self.session);
        let Stage::Joined { own: old, joining } = &self.stage else { return Ok(self) };
        let (old, mut joining) = (Arc::clone(old), *joining);
        if !old.replace() {
            // Its time was over a moment ago: it is being deleted.
            return Ok(self);
        }
        // Its number makes it known where it stands.
        let to = self.queue.labelled(&format!("{label}@{}", old.entry.token));
        let joiner = Joiner { queue: &to, ticket: self.ticket };
        let request = || {
            let store = &session.store;
            store.ask("relabel", |store| store.relabel(joiner, &old.entry, value))
        };
        // As long as nobody knows which of the two keys is there, no refusal ends it: the other one
        // would be left behind.
        let again = |error: &StoreError, tries: Tries| error.is_transient() || tries.doubtful;
        session.claims.open(self.ticket);
        let Some(entry) = session.ask_while(again, request).await.0? else {
            session.claims.settle(self.ticket, &old);
            old.lose(LostReason::Evicted);
            return Ok(self);
        };
        // Repeated, it would find the old key gone, and put nothing.
        let own = session.own_keys.add(entry, old.joined, old.sent, false);
        session.claims.settle(self.ticket, &own);
        own.hold();
        own.account.put(&self.account);
        session.granted.add(&own);
        self.queue = to;
        // So that its ticket is not used again.
        joining.count += 1;
        self.stage = Stage::Joined { own, joining };
        if joining.doubtful {
            // An earlier request to join may yet put a key with the former label.
            session.claims.doubt();
        }
        old.leave();
        session.own_keys.end(&old, End::Unclear);
        Ok(self)
    }

    /// Deletes the key and waits up to `patience` for the store's word; what is left to do then is
    /// done in the background.
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
            // Dropped at once, the sender would wake this task, which listens to it.
            (release, _progress) = work => release,
            Ok(refused) = refused => refused,
            () = sleep(patience) => {
                let release = latest.borrow().clone();
                account.unconfirmed(None, || release.trouble());
                release
            }
        }
    }

    /// Leaves the release to a transaction of the user's own. `None` without a key.
    #[allow(dead_code)] // Without a store that has transactions of its own.
    pub(crate) fn defer_release(mut self) -> Option<DeferredRelease> {
        let pending = self.end()?;
        Some(DeferredRelease::new(PendingRelease { shared: true, ..pending }))
    }

    /// Ends the attempt: a guard that holds the lock by it is not valid any more. What is returned
    /// has to delete the key.
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
        if held {
            session.deadline.leave();
        }
        // Else another request may be under way that deletes what has this ticket.
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
            // The key is the parent's, and so is the connection that the session's end would use.
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
