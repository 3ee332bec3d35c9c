//! The algorithm, written once for all stores: join, look who is ahead, wait for that one, look
//! again.

pub(crate) mod acquire;
pub(crate) mod attempt;
pub(crate) mod handover;
pub(crate) mod line;
pub(crate) mod view;
mod wait;

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use crate::{
    backend::{Event, Fate, Join, Predecessor, Present, Standing, error::StoreError, name::Queue},
    error::Error,
    lost::LostReason,
    queue::attempt::{Attempt, Entered},
    rig::{Bug, planted},
    runtime::{backoff, carried::Carried, clock},
    session::{
        Session,
        deadline::Grant,
        eviction::WATCH_AFTER,
        own_keys::{End, OwnKey},
    },
};

/// How long a call that gives up waits for its key to be gone. The release goes on for as long as
/// it takes; this is so that in the common case a caller who looks finds nothing.
pub(crate) const COURTESY: Duration = Duration::from_millis(100);

pub(crate) use crate::session::watch_budget::NO_ROOM;

/// After so long without a wake-up, one that was for nothing is the first again.
pub(crate) const CALM: Duration = Duration::from_secs(1);

pub(crate) use wait::Wait;

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) attempt: Attempt,
    own_key: Arc<OwnKey>,
}

impl Hold {
    pub(crate) fn new(attempt: Attempt, own_key: Arc<OwnKey>) -> Self {
        Self { attempt, own_key }
    }

    pub(crate) fn own_key(&self) -> &OwnKey {
        &self.own_key
    }
}

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server does not know the session any more, and nothing had joined the queue: a new
    /// session may be tried at once.
    StaleSession(Error),
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Joins a queue in the caller's time; `None`: it is over, or somebody is there and `join` does not
/// go behind others.
pub(crate) async fn join(
    attempt: Attempt,
    wait: Wait,
    join: Join,
) -> Result<Option<Entered>, Failure> {
    let session = Arc::clone(attempt.session());
    let shared = session.shared();
    let give_up = matches!(wait, Wait::No).then(|| Instant::now() + shared.request_timeout * 2);
    // If this future is dropped, the write still ends, and then the attempt with it.
    let (interest, _interested) = oneshot::channel();
    let joining = Carried::whole(shared.runtime, attempt.join(join, give_up, interest));
    let joined = tokio::select! {
        biased;
        joined = joining => joined,
        () = wait.is_over() => return Ok(None),
    };
    joined.map_err(|error| failed(&session, error))
}

/// Takes the lock, or waits for it. May be dropped at any await: the attempt gives back what was
/// written.
pub(crate) async fn acquire(attempt: Attempt, wait: Wait) -> Result<Option<Hold>, Failure> {
    let how = match wait {
        Wait::No if !planted(Bug::TryLockJoins) => Join::IfFree,
        _ => Join::Always,
    };
    match join(attempt, wait, how).await? {
        Some(entered) => hold(entered, wait).await,
        None => Ok(None),
    }
}

/// Waits for the turn of one who has joined, or gives up the place.
pub(crate) async fn hold(entered: Entered, wait: Wait) -> Result<Option<Hold>, Failure> {
    let Entered { mut attempt, mut standing, .. } = entered;
    let session = Arc::clone(attempt.session());
    let Some(own) = attempt.own_key().map(Arc::clone) else { return Ok(None) };

    loop {
        let next = match standing {
            Standing::First => match attempt.grant() {
                Grant::Granted => return Ok(Some(Hold { attempt, own_key: own })),
                Grant::Lost(reason) => return Err(session.lost_error(reason).into()),
                Grant::Stale => {
                    let look = async {
                        persist(|| session.prove()).await?;
                        persist(|| session.store().standing(&own.entry)).await
                    };
                    in_time(&session, wait, look).await?
                }
            },
            Standing::Evicted => {
                return Err(Error::Evicted { name: attempt.queue().name().to_owned() }.into());
            }
            Standing::Behind(_) if matches!(wait, Wait::No) => None,
            Standing::Behind(ahead) => {
                in_time(&session, wait, await_turn(&session, attempt.queue(), &own, ahead)).await?
            }
        };
        let Some(next) = next else {
            attempt.release_within(COURTESY).await;
            return Ok(None);
        };
        standing = next;
    }
}

/// Why a waiter wakes up.
#[derive(Debug, PartialEq, Eq)]
enum Wake {
    /// The key ahead was a holder's, and is gone; ours was there then, or later.
    Heir,
    /// What a look at both keys has told. `seen`: the key ahead was found there after we joined.
    Looked { present: Present, seen: bool },
    /// The key ahead may be gone. `seen`: it was found there after we joined.
    Perhaps { seen: bool },
    /// The one ahead has gone, and stood behind this one.
    Moved(Predecessor),
    /// Something may have happened.
    Unclear,
}

/// What a look at one's own key and at the one ahead comes to.
#[derive(Debug, PartialEq, Eq)]
enum Conclusion {
    First,
    Evicted,
    Waits,
    /// The key ahead is gone, and nobody knows who else is ahead: the queue has to tell.
    Unknown,
}

/// Draws it. A key that is gone shows nothing of those that were in front of it, unless it is known
/// that there were none.
fn conclude(present: Present, ahead: &Predecessor, seen: bool) -> Conclusion {
    match present {
        Present { own: false, .. } if !planted(Bug::OwnKeyUnchecked) => Conclusion::Evicted,
        Present { ahead: Fate::There, .. } => Conclusion::Waits,
        // It was a holder's, so nobody was in front of it. It was the nearest one to ours: nobody
        // stood between, and nobody can join there.
        Present { ahead: Fate::Released, .. } => Conclusion::First,
        // It was seen in front of ours, with nobody in front of itself; nobody can join there.
        Present { ahead: Fate::Gone, .. } if ahead.first && seen => Conclusion::First,
        Present { ahead: Fate::Gone, .. } if planted(Bug::MiddleIsHolder) => Conclusion::First,
        Present { ahead: Fate::Gone, .. } => Conclusion::Unknown,
    }
}

/// Waits while `ahead` is just ahead of `own`; tells where that stands then.
///
/// A wake-up is a reason to look, and no grant: the key ahead may have been a waiter's that gave
/// up, while others are still in front of it. What is concluded from a look is in `conclude`. A
/// release by this process looks for our key in the transaction that deletes the holder's.
async fn await_turn(
    session: &Session,
    queue: &Queue,
    own: &Arc<OwnKey>,
    mut ahead: Predecessor,
) -> Result<Standing, StoreError> {
    let (store, mut idle_wakes) = (session.store(), 0);
    loop {
        own.wait_for(&ahead);
        let began = Instant::now();
        let wake = {
            let mut waking = pin!(next_wake(session, queue, own, &ahead));
            loop {
                // Servers do lose watch events (https://github.com/etcd-io/etcd/issues/18089,
                // /19179): look again now and then in any case. The watch stays meanwhile.
                tokio::select! {
                    wake = &mut waking => break wake,
                    () = sleep(session.recheck()), if !planted(Bug::NoRecheck) => {}
                }
                let present = tokio::select! {
                    wake = &mut waking => break wake,
                    present = persist(|| store.present(&own.entry, &ahead.entry)) => present?,
                };
                if !matches!(present, Present { own: true, ahead: Fate::There }) {
                    break Wake::Looked { present, seen: ahead.seen };
                }
            }
        };
        let conclusion = match wake {
            Wake::Heir => Conclusion::First,
            Wake::Moved(next) => {
                ahead = next;
                continue;
            }
            Wake::Looked { present, seen } => conclude(present, &ahead, seen),
            Wake::Perhaps { .. } | Wake::Unclear if planted(Bug::WakeUpIsGrant) => {
                Conclusion::First
            }
            // A look that can't tell more than the queue itself is left out.
            Wake::Perhaps { seen } if ahead.first && seen || store.tells_releases(&ahead.entry) => {
                conclude(persist(|| store.present(&own.entry, &ahead.entry)).await?, &ahead, seen)
            }
            Wake::Perhaps { .. } if planted(Bug::MiddleIsHolder) => Conclusion::First,
            Wake::Perhaps { .. } | Wake::Unclear => Conclusion::Unknown,
        };
        match conclusion {
            Conclusion::First => return Ok(Standing::First),
            Conclusion::Evicted => return Ok(Standing::Evicted),
            Conclusion::Waits => {}
            Conclusion::Unknown => match persist(|| store.standing(&own.entry)).await? {
                Standing::Behind(now) if now.entry.key == ahead.entry.key => ahead.seen |= now.seen,
                standing => return Ok(standing),
            },
        }
        // Woken for nothing. Should the store go on like that at once, do not spin.
        idle_wakes = if began.elapsed() > CALM { 0 } else { idle_wakes + 1 };
        if idle_wakes > 1 {
            sleep(backoff(idle_wakes - 2)).await;
        }
    }
}

/// Waits for something to happen to the one ahead.
async fn next_wake(
    session: &Session,
    queue: &Queue,
    own: &Arc<OwnKey>,
    ahead: &Predecessor,
) -> Wake {
    if let Some(own_key) = session.own_keys().find_soon(&ahead.entry).await {
        // Of the same session: it ends before our eyes, or we with it.
        return match own_key.ended(own).await {
            End::Passed { successor, there, .. }
                if successor.upgrade().is_some_and(|successor| Arc::ptr_eq(&successor, own)) =>
            {
                if there {
                    Wake::Heir
                } else {
                    Wake::Unclear
                }
            }
            // Our key joined while that one was being deleted, a moment ago.
            End::Passed { at, .. } if at > own.joined && clock::now() - own.sent < WATCH_AFTER => {
                Wake::Heir
            }
            End::Left { at, ahead } if at > own.joined => Wake::Moved(ahead),
            _ => Wake::Unclear,
        };
    }
    // As long as the session can't watch more keys, a look now and then has to do.
    let Some(_leave) = session.watch_budget().watch(queue.dir(), &ahead.entry.key) else {
        sleep(NO_ROOM.mul_f64(0.5 + fastrand::f64())).await;
        return Wake::Unclear;
    };
    let store = session.store();
    let mut seen = ahead.seen;
    loop {
        let mut watching = store.watch(&ahead.entry, true);
        let watched = if ahead.first && seen {
            // A short hold may end before the watch begins: a look meanwhile knows of it a round
            // trip earlier.
            tokio::select! {
                biased;
                watched = &mut watching => watched,
                present = store.present(&own.entry, &ahead.entry) => match present {
                    Ok(present) if conclude(present, ahead, seen) == Conclusion::First => {
                        return Wake::Looked { present, seen };
                    }
                    _ => watching.await,
                },
            }
        } else {
            watching.await
        };
        let watch = match watched {
            Ok(Some(watch)) => watch,
            Ok(None) => return Wake::Perhaps { seen },
            Err(_) => return Wake::Unclear,
        };
        seen = true;
        match watch.await {
            // It is watched anew at once: that it is there still is seen by that, and whatever
            // happens next is not missed. It costs as many reads as somebody makes writes.
            Ok(Event::Touched) if planted(Bug::WritesBlind) => sleep(NO_ROOM).await,
            Ok(Event::Touched) => {}
            Ok(Event::Deleted) => return Wake::Perhaps { seen },
            Err(_) => return Wake::Unclear,
        }
    }
}

/// Repeats a call until it succeeds or fails for good.
pub(crate) async fn persist<T, F>(mut call: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut attempt = 0;
    loop {
        match call().await {
            Err(error) if error.is_transient() => {}
            answer => return answer,
        }
        sleep(backoff(attempt)).await;
        attempt += 1;
    }
}

/// Does `work` unless the session ends first (an error) or the caller's time (`None`).
pub(crate) async fn in_time<T>(
    session: &Session,
    wait: Wait,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<Option<T>, Failure> {
    tokio::select! {
        biased;
        reason = session.deadline().lost() => Err(session.lost_error(reason).into()),
        () = wait.is_over() => Ok(None),
        done = work => done.map(Some).map_err(|error| public(session, error).into()),
    }
}

/// What the failure of a call means while nothing has joined the queue.
pub(crate) fn failed(session: &Session, error: StoreError) -> Failure {
    let stale = matches!(error, StoreError::SessionGone(LostReason::SessionExpired));
    let error = public(session, error);
    if stale { Failure::StaleSession(error) } else { Failure::Final(error) }
}

/// The user's view of a store's error. The server's word that the session is over counts for all
/// its locks.
pub(crate) fn public(session: &Session, error: StoreError) -> Error {
    match error {
        StoreError::SessionGone(reason) => {
            session.deadline().lose(reason);
            // Where several causes race, the first one counts, as it does for the guards.
            session.lost_error(session.deadline().lost_reason().unwrap_or(reason))
        }
        error => error.into_public(session.shared().backend.name()),
    }
}

#[cfg(test)]
mod tests;
