//! One attempt to hold a lock, from the first write to the confirmed delete.

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep},
};

use crate::{
    backend::{
        Join, Joined, Leaving, Standing,
        error::StoreError,
        name::{Queue, Ticket},
        signature,
    },
    error::{BoxError, Result as PublicResult},
    lost::LostReason,
    rig::{Bug, planted},
    runtime::{backoff, carried::Carried, clock},
    session::{
        Session, Sessions,
        deadline::Grant,
        own_keys::{End, OwnKey},
    },
};

/// When to look again for a key whose creation was in doubt: a request that timed out here may
/// still wait in a server, for as long as that server lets it (etcd: 5 s and two elections), and be
/// applied after the delete.
const DOUBT: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(8)];

/// A ticket in a queue. It is armed before the first write: whenever it is dropped, its key is
/// deleted, however long that takes, by a task of the session.
#[derive(Debug)]
pub(crate) struct Attempt {
    session: Arc<Session>,
    queue: Queue,
    ticket: Ticket,
    /// What to write into the key, if not who owns it.
    value: Option<Arc<[u8]>>,
    /// Nobody will be told of its loss.
    passing: bool,
    own_key: Option<Arc<OwnKey>>,
    /// A write was sent.
    written: bool,
    /// Every request so far was answered.
    clean: bool,
    /// A write was sent whose outcome nobody knows.
    doubtful: bool,
    /// Its former queues, which differ in the label: where such a write may yet put a key.
    former: Vec<Queue>,
    /// Not released yet.
    armed: bool,
}

/// What came of joining.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) attempt: Attempt,
    pub(crate) standing: Standing,
    /// Nothing else was in the queue.
    pub(crate) alone: bool,
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
    /// The store does not let this user delete it. It is tried on, as rights may come back.
    Refused(Arc<BoxError>),
}

/// Why the last attempt to release failed.
#[derive(Debug, Default)]
struct Trouble {
    last: Mutex<Option<Arc<BoxError>>>,
    refused: Notify,
}

impl Trouble {
    fn set(&self, error: StoreError) {
        let refused = matches!(error, StoreError::Denied(_)) && !planted(Bug::RefusalsUntold);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Arc::new(error.into_source()));
        if refused {
            self.refused.notify_one();
        }
    }

    fn last(&self) -> Option<Arc<BoxError>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
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
            queue: queue.clone(),
            ticket,
            value: None,
            passing: false,
            own_key: None,
            written: false,
            clean: true,
            doubtful: false,
            former: Vec::new(),
            armed: true,
        })
    }

    /// It is only a way to something else, and nobody is to be told of its loss: the key need not
    /// be watched.
    pub(crate) fn set_passing(&mut self, passing: bool) {
        self.passing = passing;
    }

    /// What to write into the key, if not who owns it.
    pub(crate) fn set_value(&mut self, value: Option<Arc<[u8]>>) {
        self.value = value;
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The place in the queue, once it has joined.
    pub(crate) fn own_key(&self) -> Option<&Arc<OwnKey>> {
        self.own_key.as_ref()
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
    ) -> Result<Option<Entered>, StoreError> {
        let value = self
            .value
            .take()
            .unwrap_or_else(|| signature::write(&self.session.shared().owner).into());
        let mut attempt = 0;
        loop {
            let session = Arc::clone(&self.session);
            let permit = tokio::select! {
                biased;
                _ = session.deadline().lost() => None,
                // Never closed.
                permit = session.join_permits().acquire() => permit.ok(),
            };
            if interest.is_closed() && !planted(Bug::GoneCallersJoin) {
                return Err(StoreError::Unavailable("its caller has gone".into()));
            }
            let sent = clock::now();
            self.written |= permit.is_some();
            let _joining = session.own_keys().joins();
            let enqueue = session.bare_store().enqueue(&self.queue, self.ticket, &value, join);
            let outcome = tokio::select! {
                reason = session.deadline().lost() => Err(StoreError::SessionGone(reason)),
                outcome = enqueue => outcome,
            };
            match outcome {
                Ok(Joined::Queued { entry, standing, at, alive, alone }) => {
                    if let Some(granted) = alive {
                        session.deadline().renewed(sent, granted);
                    }
                    self.own_key = Some(session.own_keys().add(entry, at, sent));
                    return Ok(Some(Entered { attempt: self, standing, alone }));
                }
                Ok(Joined::Occupied) => {
                    self.written = self.doubtful;
                    return Ok(None);
                }
                Err(StoreError::SessionGone(reason)) => {
                    session.deadline().lose(reason);
                    return Err(StoreError::SessionGone(reason));
                }
                Err(error) => {
                    self.clean = false;
                    self.doubtful |= matches!(error, StoreError::Unknown(_));
                    let late =
                        give_up.is_some_and(|at| Instant::now() >= at) || interest.is_closed();
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

    /// Joins the queues of several attempts of one session in one request, if nobody is in any of
    /// them; `None` if somebody is, or the store can't. Meant to be carried whole, as
    /// [`join`](Self::join): when the result is not wanted any more, dropping that drops the
    /// attempts. One attempt.
    pub(crate) async fn join_all(
        mut attempts: Vec<Self>,
    ) -> Result<Option<Vec<Entered>>, StoreError> {
        let Some(session) = attempts.first().map(|attempt| Arc::clone(&attempt.session)) else {
            return Ok(None);
        };
        let value = signature::write(&session.shared().owner);
        let queues: Vec<_> =
            attempts.iter().map(|attempt| (attempt.queue.clone(), attempt.ticket)).collect();
        let permit = tokio::select! {
            biased;
            _ = session.deadline().lost() => None,
            // Never closed.
            permit = session.join_permits().acquire() => permit.ok(),
        };
        let sent = clock::now();
        for attempt in &mut attempts {
            attempt.written = permit.is_some();
        }
        let _joining = session.own_keys().joins();
        let outcome = tokio::select! {
            reason = session.deadline().lost() => Err(StoreError::SessionGone(reason)),
            outcome = session.bare_store().enqueue_all(&queues, &value) => outcome,
        };
        let joined = match outcome {
            Ok(Some(joined)) => joined,
            Ok(None) => {
                attempts.iter_mut().for_each(|attempt| attempt.written = false);
                return Ok(None);
            }
            Err(error) => {
                let doubtful = matches!(error, StoreError::Unknown(_));
                for attempt in &mut attempts {
                    (attempt.clean, attempt.written, attempt.doubtful) =
                        (false, doubtful, doubtful);
                }
                if let StoreError::SessionGone(reason) = error {
                    // And its keys with it.
                    session.deadline().lose(reason);
                }
                return Err(error);
            }
        };
        let mut entered = Vec::with_capacity(attempts.len());
        for (mut attempt, joined) in attempts.into_iter().zip(joined) {
            // Whoever is not in is out, and with it, by the drop of the attempts, all are.
            let Joined::Queued { entry, standing, at, alive, alone } = joined else {
                return Ok(None);
            };
            if let Some(granted) = alive {
                session.deadline().renewed(sent, granted);
            }
            attempt.own_key = Some(session.own_keys().add(entry, at, sent));
            entered.push(Entered { attempt, standing, alone });
        }
        Ok(Some(entered))
    }

    /// Turns the waiter into a holder, if the session's deadline allows.
    pub(crate) fn grant(&mut self) -> Grant {
        let grant = self.session.deadline().grant();
        if let Some(own_key) = self.own_key.as_ref().filter(|_| grant == Grant::Granted) {
            own_key.hold();
            if !self.passing {
                self.session.evictions().watch(own_key);
            }
        }
        grant
    }

    /// Puts a key with another label into the place of a holder's own. Meant to be carried whole:
    /// goes on until the store has confirmed it or the session is over.
    pub(crate) async fn relabel(mut self, label: &str, value: &[u8]) -> Result<Self, StoreError> {
        let Some(old) = self.own_key.clone() else { return Ok(self) };
        // Its number makes it known where it stands.
        let own_key = if planted(Bug::DowngradeLosesPlace) {
            String::new()
        } else {
            format!("@{}", old.entry.token)
        };
        let to = self.queue.labelled(&format!("{label}{own_key}"));
        self.clean = false;
        let (mut attempt, mut doubtful) = (0, false);
        let moved = loop {
            let session = &self.session;
            let store = session.bare_store();
            let relabel = store.relabel(&self.queue, &to, self.ticket, &old.entry, value);
            let outcome = tokio::select! {
                biased;
                reason = session.deadline().lost() => Err(StoreError::SessionGone(reason)),
                outcome = relabel => outcome,
            };
            doubtful |= matches!(outcome, Err(StoreError::Unknown(_)));
            match outcome {
                Err(StoreError::SessionGone(reason)) => {
                    return Err(StoreError::SessionGone(reason));
                }
                // As long as nobody knows which of the two keys is there, no refusal ends it: the
                // other one would be left behind.
                Err(error) if error.is_transient() || doubtful => {}
                outcome => break outcome?,
            }
            sleep(backoff(attempt)).await;
            attempt += 1;
        };
        let Some(entry) = moved else {
            old.lose(LostReason::KeyDeleted);
            return Ok(self);
        };
        let new = self.session.own_keys().add(entry, old.joined, old.sent);
        new.hold();
        self.session.evictions().watch(&new);
        self.own_key = Some(new);
        let former = std::mem::replace(&mut self.queue, to);
        if self.doubtful && !planted(Bug::LabelForgotten) {
            // An earlier attempt to join may yet put a key with the former label.
            let runtime = self.session.shared().runtime;
            runtime.spawn(look_again(Arc::downgrade(&self.session), former.clone(), self.ticket));
            self.former.push(former);
        }
        old.leave();
        self.session.own_keys().end(&old, End::Unclear);
        Ok(self)
    }

    /// Deletes the key and waits up to `patience` for the store's word; what is left to do then is
    /// done in the background.
    pub(crate) async fn release_within(mut self, patience: Duration) -> Release {
        let trouble = Arc::<Trouble>::default();
        let Some(work) = self.start_release(Arc::clone(&trouble)) else { return Release::Absent };
        let work = Carried::whole(self.session.shared().runtime, work);
        tokio::select! {
            biased;
            release = work => release,
            () = trouble.refused.notified() => match trouble.last() {
                Some(refusal) => Release::Refused(refusal),
                None => Release::Trying(None),
            },
            () = sleep(patience) => Release::Trying(trouble.last()),
        }
    }

    /// What there is to do to delete the key.
    fn start_release(
        &mut self,
        trouble: Arc<Trouble>,
    ) -> Option<impl Future<Output = Release> + Send + use<>> {
        if !std::mem::take(&mut self.armed) {
            return None;
        }
        let session = Arc::clone(&self.session);
        let held = self.own_key.as_ref().is_some_and(|own_key| own_key.leave());
        if held {
            session.deadline().leave();
        }
        if !self.written || planted(Bug::JoinDiesWithCaller) && self.own_key.is_none() {
            session.left(&self.queue);
            return None;
        }
        let (queue, ticket, own_key, doubtful) =
            (self.queue.clone(), self.ticket, self.own_key.take(), self.doubtful);
        let former = std::mem::take(&mut self.former);
        let clean = self.clean && own_key.is_some();
        Some(async move {
            let (release, attempts) =
                release(&session, &queue, ticket, own_key.as_ref(), held, &trouble).await;
            if clean && attempts == 1 {
                session.reuse(ticket);
            }
            session.left(&queue);
            if doubtful && !planted(Bug::DoubtForgotten) {
                for queue in former.into_iter().chain([queue]) {
                    session.shared().runtime.spawn(look_again(
                        Arc::downgrade(&session),
                        queue,
                        ticket,
                    ));
                }
            }
            release
        })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(work) = self.start_release(Arc::default()) {
            self.session.shared().runtime.spawn(work);
        }
    }
}

/// Deletes what a join in doubt may have written after its key was deleted.
async fn look_again(session: Weak<Session>, queue: Queue, ticket: Ticket) {
    for pause in DOUBT {
        sleep(pause).await;
        // Only a session that lives on has to look again: with its end the key is gone in any case.
        let Some(session) = session.upgrade() else { return };
        release(&session, &queue, ticket, None, false, &Trouble::default()).await;
    }
}

/// Deletes the key: retries until the store confirms that it is gone, or the session is over and
/// its keys with it. Tells how many attempts that took.
async fn release(
    session: &Session,
    queue: &Queue,
    ticket: Ticket,
    own_key: Option<&Arc<OwnKey>>,
    held: bool,
    trouble: &Trouble,
) -> (Release, u32) {
    let (mut attempt, mut unknown) = (0, false);
    let (outcome, end) = loop {
        let successor = own_key.and_then(|own_key| own_key.successor());
        let leave = Leaving {
            entry: own_key.map(|own_key| &own_key.entry),
            held,
            successor: successor.as_deref().map(|successor| &successor.entry),
        };
        let outcome = tokio::select! {
            biased;
            reason = session.deadline().lost() => Err(StoreError::SessionGone(reason)),
            outcome = session.bare_store().leave(queue, ticket, leave) => outcome,
        };
        match outcome {
            Ok(left) => {
                // Only an attempt that may have been applied explains an absent key.
                let released =
                    left.existed || unknown || attempt > 0 && planted(Bug::AbsentIsReleased);
                let release = if released { Release::Released } else { Release::Absent };
                let end = own_key.map(|own_key| own_key.end(held, left, successor.as_ref()));
                break (release, end);
            }
            Err(StoreError::SessionGone(reason)) => {
                session.deadline().lose(reason);
                break (Release::SessionOver(reason), None);
            }
            Err(error) => {
                unknown |= matches!(error, StoreError::Unknown(_));
                trouble.set(error);
            }
        }
        if planted(Bug::WithdrawOnce) {
            return (Release::Trying(None), 0);
        }
        sleep(backoff(attempt)).await;
        attempt += 1;
    };
    if let Some(own_key) = own_key {
        session.own_keys().end(own_key, end.unwrap_or(End::Unclear));
    }
    (outcome, attempt + 1)
}
