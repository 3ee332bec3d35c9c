//! The algorithm, written once for all stores: join, look who is ahead, wait for that one, look again.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    backend::{Ahead, Event, Join, Present, Standing},
    claim::{Claim, Entered},
    clock,
    error::{Error, StoreError},
    guard::LostReason,
    life::Grant,
    name::Queue,
    place::{End, Place},
    rig::{Bug, planted},
    runtime::{Unstoppable, backoff},
    session::Session,
    warden::WATCH_AFTER,
};

/// How long a call that gives up waits for its key to be gone. The release goes on for as long as it takes; this is so that in the common
/// case a caller who looks finds nothing.
pub(crate) const COURTESY: Duration = Duration::from_millis(100);

/// How long a waiter for whose watch there is no room does without.
pub(crate) const NO_ROOM: Duration = Duration::from_secs(1);

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Forever,
    Until(Instant),
    No,
}

impl Wait {
    /// A timeout of zero is a try.
    pub(crate) fn at_most(timeout: Duration) -> Self {
        if timeout.is_zero() {
            return Self::No;
        }
        // A timeout too long for the clock is no timeout.
        Instant::now().checked_add(timeout).map_or(Self::Forever, Self::Until)
    }

    pub(crate) fn has_passed(self) -> bool {
        matches!(self, Self::Until(at) if at <= Instant::now())
    }

    pub(crate) async fn is_over(self) {
        match self {
            Self::Until(at) => sleep_until(at).await,
            Self::Forever | Self::No => std::future::pending().await,
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) claim: Claim,
    place: Arc<Place>,
}

impl Hold {
    pub(crate) fn new(claim: Claim, place: Arc<Place>) -> Self {
        Self { claim, place }
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }
}

/// Why a lock was not taken.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server does not know the session any more, and nothing had joined the queue: a new session may be tried at once.
    StaleSession(Error),
    Final(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

/// Joins a queue in the caller's time; `None`: it is over, or somebody is there and `join` does not go behind others.
pub(crate) async fn join(claim: Claim, wait: Wait, join: Join) -> Result<Option<Entered>, Failure> {
    let session = Arc::clone(claim.session());
    let shared = session.shared();
    let give_up = matches!(wait, Wait::No).then(|| Instant::now() + shared.request_timeout * 2);
    // If this future is dropped, the write still ends, and then the claim with it.
    let (interest, _interested) = oneshot::channel();
    let joining = Unstoppable::new(shared.runtime, claim.join(join, give_up, interest));
    let joined = tokio::select! {
        biased;
        joined = joining => joined,
        () = wait.is_over() => return Ok(None),
    };
    joined.map_err(|error| failed(&session, error))
}

/// Takes the lock, or waits for it. May be dropped at any await: the claim gives back what was written.
pub(crate) async fn acquire(claim: Claim, wait: Wait) -> Result<Option<Hold>, Failure> {
    let how = match wait {
        Wait::No if !planted(Bug::TryLockJoins) => Join::IfFree,
        _ => Join::Always,
    };
    match join(claim, wait, how).await? {
        Some(entered) => hold(entered, wait).await,
        None => Ok(None),
    }
}

/// Waits for the turn of one who has joined, or gives up the place.
pub(crate) async fn hold(entered: Entered, wait: Wait) -> Result<Option<Hold>, Failure> {
    let Entered { mut claim, mut standing, .. } = entered;
    let session = Arc::clone(claim.session());
    let Some(own) = claim.place().map(Arc::clone) else { return Ok(None) };

    loop {
        let next = match standing {
            Standing::First => match claim.grant() {
                Grant::Granted => return Ok(Some(Hold { claim, place: own })),
                Grant::Lost(reason) => return Err(session.lost_error(reason).into()),
                Grant::Stale => {
                    let look = async {
                        persist(|| session.prove()).await?;
                        persist(|| session.store().standing(&own.entry)).await
                    };
                    in_time(&session, wait, look).await?
                }
            },
            Standing::Evicted => return Err(Error::Evicted { name: claim.queue().name().to_owned() }.into()),
            Standing::Behind(_) if matches!(wait, Wait::No) => None,
            Standing::Behind(ahead) => {
                in_time(&session, wait, await_turn(&session, claim.queue(), &own, ahead)).await?
            }
        };
        let Some(next) = next else {
            claim.release_within(COURTESY).await;
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
    /// If the key ahead is gone, it was a holder's.
    Vacant,
    /// The one ahead has gone, and stood behind this one.
    Moved(Ahead),
    /// It is time to look whether something was missed.
    Recheck,
    /// Something may have happened.
    Unclear,
}

/// Waits while `ahead` is just ahead of `own`; tells where that stands then.
///
/// A wake-up is no grant: the key ahead may have been a waiter's who gave up, while others are still in front of it. But if it was the holder's, and nobody stood between
/// (`ahead` was the nearest one when `own` joined, and nobody can join in front), then nobody is in front of `own` any more: all that were in front of a holder were gone when it became one. So what is
/// left to know is whether one's own key is still there. A release by this process asks for that in the transaction that deletes the holder's key. Else a look at the two keys tells.
async fn await_turn(
    session: &Session,
    queue: &Queue,
    own: &Arc<Place>,
    mut ahead: Ahead,
) -> Result<Standing, StoreError> {
    let (store, mut idle_wakes) = (session.store(), 0);
    loop {
        own.wait_for(&ahead);
        // Servers do lose watch events (https://github.com/etcd-io/etcd/issues/18089, /19179): look again now and then in any case.
        let wake = tokio::select! {
            wake = next_wake(session, queue, own, &ahead) => wake,
            () = sleep(session.recheck()), if !planted(Bug::NoRecheck) => Wake::Recheck,
        };
        let standing = match wake {
            Wake::Heir => return Ok(Standing::First),
            Wake::Moved(next) => {
                ahead = next;
                continue;
            }
            Wake::Unclear if planted(Bug::WakeUpIsGrant) => return Ok(Standing::First),
            Wake::Vacant | Wake::Recheck => match persist(|| store.present(&own.entry, &ahead.entry)).await? {
                Present { own: false, .. } if !planted(Bug::OwnKeyUnchecked) => return Ok(Standing::Evicted),
                Present { ahead: true, .. } => None,
                _ if wake == Wake::Vacant => return Ok(Standing::First),
                _ => Some(persist(|| store.standing(&own.entry)).await?),
            },
            Wake::Unclear => Some(persist(|| store.standing(&own.entry)).await?),
        };
        match standing {
            Some(Standing::Behind(now)) if now.entry.key == ahead.entry.key => {}
            Some(standing) => return Ok(standing),
            None => {}
        }
        // Woken for nothing. Should the store go on like that, do not spin.
        if idle_wakes > 0 {
            sleep(backoff(idle_wakes)).await;
        }
        idle_wakes += 1;
    }
}

/// Waits for something to happen to the one ahead.
async fn next_wake(session: &Session, queue: &Queue, own: &Arc<Place>, ahead: &Ahead) -> Wake {
    if let Some(place) = session.places().find_soon(&ahead.entry).await {
        // Of the same session: it ends before our eyes, or we with it.
        return match place.ended(own).await {
            End::Passed { heir, there, .. } if heir.upgrade().is_some_and(|heir| Arc::ptr_eq(&heir, own)) => {
                if there {
                    Wake::Heir
                } else {
                    Wake::Unclear
                }
            }
            // Our key joined while that one was being deleted, a moment ago.
            End::Passed { at, .. } if at > own.joined && clock::now() - own.sent < WATCH_AFTER => Wake::Heir,
            End::Left { at, ahead } if at > own.joined => Wake::Moved(ahead),
            _ => Wake::Unclear,
        };
    }
    // As long as the session can't watch more keys, a look now and then has to do.
    let Some(_leave) = session.room().watch(queue) else {
        sleep(NO_ROOM.mul_f64(0.5 + fastrand::f64())).await;
        return Wake::Recheck;
    };
    let store = session.store();
    let mut watching = store.watch(&ahead.entry, true);
    let watched = if ahead.first && ahead.seen {
        // A short hold may end before the watch begins: who looks meanwhile knows of it a round trip earlier.
        tokio::select! {
            biased;
            watched = &mut watching => watched,
            present = store.present(&own.entry, &ahead.entry) => match present {
                Ok(Present { own: true, ahead: false }) => return Wake::Heir,
                _ => watching.await,
            },
        }
    } else {
        watching.await
    };
    let Ok(Some(watch)) = watched else { return Wake::Unclear };
    match watch.await {
        Ok(Event::Deleted) if ahead.first || planted(Bug::MiddleIsHolder) => Wake::Vacant,
        Ok(Event::Touched) => Wake::Vacant,
        Ok(Event::Deleted) | Err(_) => Wake::Unclear,
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
        reason = session.life().lost() => Err(session.lost_error(reason).into()),
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

/// The user's view of a store's error. The server's word that the session is over counts for all its locks.
pub(crate) fn public(session: &Session, error: StoreError) -> Error {
    match error {
        StoreError::SessionGone(reason) => {
            session.life().lose(reason);
            // Where several causes race, the first one counts, as it does for the guards.
            session.lost_error(session.life().lost_reason().unwrap_or(reason))
        }
        error => error.into_public(session.shared().backend.name()),
    }
}

#[cfg(test)]
mod tests;
