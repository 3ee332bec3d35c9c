//! One attempt to hold a lock, from the first write to the confirmed delete.

use std::{sync::Arc, time::Duration};

use tokio::sync::{oneshot, watch};

use super::release::{Release, Trouble};
use crate::{
    backend::{
        Join, Joined, Leaving, Standing,
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
        own_keys::{End, OwnKey},
    },
    telemetry::{Account, Handle},
};

/// When to look again for a key whose creation was in doubt: a request that timed out here may
/// still wait in a server, for as long as that server lets it (etcd: 5 s and two elections), and be
/// applied after the delete.
const DOUBT: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(4), Duration::from_secs(8)];

/// One try to hold a lock. However it ends, and whenever it is dropped, each key that it ever wrote
/// is deleted, however long that takes, by a task of the session.
#[derive(Debug)]
pub(crate) struct Attempt {
    session: Arc<Session>,
    ticket: Ticket,
    /// The names that its key ever had: the present one is the last.
    names: Names,
    /// What to write into the key, if not who owns it.
    pub(crate) value: Option<Arc<[u8]>>,
    /// It is only a way to something else, and nobody is to be told of its loss: the key need not
    /// be watched.
    pub(crate) passing: bool,
    stage: Stage,
    /// Of the hold that it has become, for those who listen.
    pub(crate) account: Account,
}

/// The queues, which differ in the label, that name an attempt's key.
#[derive(Debug)]
struct Names {
    now: Queue,
    /// Where a request of unknown outcome may yet put a key.
    former: Vec<Queue>,
}

/// How far an attempt has come.
#[derive(Debug)]
enum Stage {
    /// It has nothing in the store, and nothing can come.
    Nothing,
    /// It may have a key in the store, now or later.
    Sent,
    /// It has this key.
    Joined { own: Arc<OwnKey>, requests: Requests },
    /// It is being deleted.
    Left,
}

/// What is known of the requests that made a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Requests {
    /// One, which was answered.
    One,
    /// Several, each of them answered.
    Answered,
    /// One of them may be applied yet.
    Doubtful,
}

impl Requests {
    fn of(tries: Tries) -> Self {
        match tries {
            Tries { doubtful: true, .. } => Self::Doubtful,
            Tries { count: 0 | 1, .. } => Self::One,
            Tries { .. } => Self::Answered,
        }
    }
}

/// What came of joining.
#[derive(Debug)]
pub(crate) struct Entered {
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
            names: Names { now: queue.clone(), former: Vec::new() },
            value: None,
            passing: false,
            stage: Stage::Nothing,
            account: Account::default(),
        })
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.names.now
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
    ) -> Result<Option<Entered>, StoreError> {
        let session = Arc::clone(&self.session);
        let other = self.value.take();
        let signature = other.is_none().then(|| signature::write(&session.shared.owner));
        let value = other.as_deref().or(signature.as_deref()).unwrap_or_default();
        let queue = self.names.now.clone();
        let late = || give_up.is_some_and(|at| Instant::now() >= at) || interest.is_closed();
        let again = |error: &StoreError, _| error.is_transient() && !late();
        self.stage = Stage::Sent;
        let request = || async {
            // Never closed.
            let _permit = session.join_permits.acquire().await;
            if interest.is_closed() {
                return Err(StoreError::Unavailable("its caller has gone".into()));
            }
            let (sent, joining) = (clock::now(), session.own_keys.joins());
            let joined = session.bare_store().enqueue(&queue, self.ticket, value, join).await?;
            Ok((joined, sent, joining))
        };
        let (joined, tries) = session.ask_while(again, request).await;
        let entered = match joined {
            Ok((joined, sent, _joining)) => Ok(self.enter(joined, sent, Requests::of(tries))),
            Err(error) => Err(error),
        };
        if !matches!(entered, Ok(Some(_))) && !tries.doubtful {
            self.stage = Stage::Nothing;
        }
        Ok(entered?.map(|(standing, alone)| Entered { attempt: self, standing, alone }))
    }

    /// Takes note of the answer to a request to join that was sent at `sent`.
    fn enter(
        &mut self,
        joined: Joined,
        sent: Duration,
        requests: Requests,
    ) -> Option<(Standing, bool)> {
        let Joined::Queued { entry, standing, at, alive, alone } = joined else { return None };
        if let Some(granted) = alive {
            self.session.deadline.renewed(sent, granted);
        }
        let repeats = requests == Requests::Doubtful;
        let own = self.session.own_keys.add(entry, at, sent, repeats);
        self.stage = Stage::Joined { own, requests };
        Some((standing, alone))
    }

    /// Joins the queues of several attempts of one session in one request, if nobody is in any of
    /// them; `None` if somebody is, or the store can't. Meant to be carried whole, as
    /// [`join`](Self::join): when the result is not wanted any more, dropping that drops the
    /// attempts. It is not tried again.
    pub(crate) async fn join_all(
        mut attempts: Vec<Self>,
    ) -> Result<Option<Vec<Entered>>, StoreError> {
        let Some(session) = attempts.first().map(|attempt| Arc::clone(&attempt.session)) else {
            return Ok(None);
        };
        let value = signature::write(&session.shared.owner);
        let queues: Vec<_> =
            attempts.iter().map(|attempt| (attempt.names.now.clone(), attempt.ticket)).collect();
        attempts.iter_mut().for_each(|attempt| attempt.stage = Stage::Sent);
        let request = || async {
            // Never closed.
            let _permit = session.join_permits.acquire().await;
            let (sent, joining) = (clock::now(), session.own_keys.joins());
            let joined = session.bare_store().enqueue_all(&queues, &value).await?;
            Ok((joined, sent, joining))
        };
        let (joined, tries) = session.ask_while(|_, _| false, request).await;
        if !matches!(joined, Ok((Some(_), ..))) && !tries.doubtful {
            attempts.iter_mut().for_each(|attempt| attempt.stage = Stage::Nothing);
        }
        let (Some(joined), sent, _joining) = joined? else { return Ok(None) };
        let entered = attempts.into_iter().zip(joined).map(|(mut attempt, joined)| {
            let (standing, alone) = attempt.enter(joined, sent, Requests::One)?;
            Some(Entered { attempt, standing, alone })
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
                self.session.evictions.watch(own);
            }
        }
        Ok(())
    }

    /// Puts a key with another label into the place of a holder's own. Meant to be carried whole:
    /// goes on until the store has confirmed it or the session is over.
    pub(crate) async fn relabel(mut self, label: &str, value: &[u8]) -> Result<Self, StoreError> {
        let session = Arc::clone(&self.session);
        let Stage::Joined { own: old, requests } = &self.stage else { return Ok(self) };
        let (old, requests) = (Arc::clone(old), *requests);
        // Its number makes it known where it stands.
        let to = self.names.now.labelled(&format!("{label}@{}", old.entry.token));
        let request = || {
            let store = session.bare_store();
            store.relabel(&to, self.ticket, &old.entry, value)
        };
        // As long as nobody knows which of the two keys is there, no refusal ends it: the other one
        // would be left behind.
        let again = |error: &StoreError, tries: Tries| error.is_transient() || tries.doubtful;
        let Some(entry) = session.ask_while(again, request).await.0? else {
            old.lose(LostReason::KeyDeleted);
            return Ok(self);
        };
        // Repeated, it would find the old key gone, and put nothing.
        let own = session.own_keys.add(entry, old.joined, old.sent, false);
        own.hold();
        own.account.put(&self.account);
        session.evictions.watch(&own);
        let former = std::mem::replace(&mut self.names.now, to);
        let requests = requests.max(Requests::Answered);
        self.stage = Stage::Joined { own, requests };
        if requests == Requests::Doubtful {
            // An earlier request to join may yet put a key with the former label.
            look_again(&session, &former, self.ticket);
            self.names.former.push(former);
        }
        old.leave();
        session.own_keys.end(&old, End::Unclear);
        Ok(self)
    }

    /// Deletes the key and waits up to `patience` for the store's word; what is left to do then is
    /// done in the background.
    pub(crate) async fn release_within(mut self, patience: Duration) -> Release {
        let (trouble, mut told) = watch::channel(Release::Trying(None));
        let account = self.account.handle();
        let Some(work) = self.start_release(trouble) else { return Release::Absent };
        let work = Carried::whole(&self.session.shared.runtime, work);
        let refused = async {
            let refused = told.wait_for(|release| matches!(release, Release::Refused(_))).await;
            refused.map(|refused| refused.clone())
        };
        tokio::select! {
            biased;
            release = work => release,
            Ok(refused) = refused => refused,
            () = sleep(patience) => {
                let release = told.borrow().clone();
                account.unconfirmed(None, || release.trouble());
                release
            }
        }
    }

    /// What there is to do to delete the key.
    fn start_release(
        &mut self,
        trouble: watch::Sender<Release>,
    ) -> Option<impl Future<Output = Release> + Send + use<>> {
        let (session, ticket) = (Arc::clone(&self.session), self.ticket);
        let queue = self.names.now.clone();
        let (own, requests) = match std::mem::replace(&mut self.stage, Stage::Left) {
            Stage::Left => return None,
            Stage::Sent => (None, Requests::Doubtful),
            Stage::Nothing => {
                session.left(&queue);
                return None;
            }
            Stage::Joined { own, requests } => (Some(own), requests),
        };
        let held = own.as_ref().is_some_and(|own| own.leave());
        if held {
            session.deadline.leave();
        }
        let former = std::mem::take(&mut self.names.former);
        let account = std::mem::take(&mut self.account);
        account.let_go();
        let releasing = session.shared.telemetry.releasing();
        Some(async move {
            let trouble = Trouble { told: trouble, account: account.handle() };
            let (release, tries) =
                release(&session, &queue, ticket, own.as_ref(), held, &trouble).await;
            releasing.done();
            account.ended(release.end());
            if requests == Requests::One && tries.count == 1 {
                session.reuse(ticket);
            }
            session.left(&queue);
            if requests == Requests::Doubtful {
                former.iter().chain([&queue]).for_each(|name| look_again(&session, name, ticket));
            }
            release
        })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Left) {
            return;
        }
        if let Some(work) = self.start_release(watch::Sender::new(Release::Trying(None))) {
            self.session.shared.runtime.spawn(async move { drop(work.await) });
        }
    }
}

/// Deletes, in the background, what a request in doubt may yet write after its key was deleted.
fn look_again(session: &Arc<Session>, queue: &Queue, ticket: Ticket) {
    let (runtime, session, queue) =
        (session.shared.runtime.clone(), Arc::downgrade(session), queue.clone());
    runtime.spawn(async move {
        for pause in DOUBT {
            sleep(pause).await;
            // Only a session that lives on has to look again: with its end the key is gone in any
            // case.
            let Some(session) = session.upgrade() else { return };
            let told = watch::Sender::new(Release::Trying(None));
            let trouble = Trouble { told, account: Handle::default() };
            release(&session, &queue, ticket, None, false, &trouble).await;
        }
    });
}

/// Deletes the key: retries until the store confirms that it is gone, or the session is over and
/// its keys with it. Tells how many requests that took.
async fn release(
    session: &Session,
    queue: &Queue,
    ticket: Ticket,
    own: Option<&Arc<OwnKey>>,
    held: bool,
    trouble: &Trouble,
) -> (Release, Tries) {
    let request = || async {
        let successor = own.and_then(|own| own.successor());
        let leaving = Leaving {
            entry: own.map(|own| &own.entry),
            held,
            successor: successor.as_deref().map(|successor| &successor.entry),
        };
        let left = session.bare_store().leave(queue, ticket, leaving).await?;
        Ok((left, successor))
    };
    let again = |error: &StoreError, _| {
        trouble.note(error, session.shared.patience());
        true
    };
    let (left, tries) = session.ask_while(again, request).await;
    let (release, end) = match left {
        Ok((left, successor)) => {
            // Only a request that may have been applied explains an absent key.
            let released = left.existed || tries.doubtful;
            let end = own.map_or(End::Unclear, |own| own.end(held, left, successor.as_ref()));
            (if released { Release::Released } else { Release::Absent }, end)
        }
        Err(StoreError::SessionGone(reason)) => (Release::SessionOver(reason), End::Unclear),
        // Never, as it goes on until then.
        Err(error) => (Release::Trying(Some(error.reason())), End::Unclear),
    };
    if let Some(own) = own {
        session.own_keys.end(own, end);
    }
    (release, tries)
}

#[cfg(test)]
mod tests;
