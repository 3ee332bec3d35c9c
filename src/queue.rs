//! The algorithm, written once for all stores: join, look who is ahead, wait for that one, look again.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    backend::{Entry, Join, Joined, Standing},
    claim::{Claim, Release},
    error::{Error, StoreError},
    guard::LostReason,
    life::Grant,
    rig::{Bug, planted},
    runtime::backoff,
    session::Session,
};

/// How long a call that gives up waits for its key to be gone. The release goes on for as long as it takes; this is so that in the common
/// case a caller who looks finds nothing.
const COURTESY: Duration = Duration::from_millis(100);

/// How long a lock is held before its own key is watched: a shorter hold need not pay for that, and a deletion by an operator is still
/// noticed within a second.
const OWN_WATCH_AFTER: Duration = Duration::from_millis(400);

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Forever,
    Until(Instant),
    No,
}

impl Wait {
    async fn is_over(self) {
        match self {
            Self::Until(at) => sleep_until(at).await,
            Self::Forever | Self::No => std::future::pending().await,
        }
    }
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Hold {
    // Dropped before the claim: it must not ask after a key that this very guard deletes.
    own_watch: OwnWatch,
    pub(crate) claim: Claim,
    pub(crate) entry: Entry,
    /// Why this lock alone was lost; the session may live on.
    pub(crate) evicted: watch::Receiver<Option<LostReason>>,
}

impl Hold {
    pub(crate) async fn release_within(self, patience: Duration) -> Release {
        drop(self.own_watch);
        self.claim.release_within(patience).await
    }
}

#[derive(Debug)]
struct OwnWatch(AbortHandle);

impl Drop for OwnWatch {
    fn drop(&mut self) {
        self.0.abort();
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

/// Takes the lock, or waits for it. May be dropped at any await: the claim gives back what was written.
pub(crate) async fn acquire(claim: Claim, wait: Wait) -> Result<Option<Hold>, Failure> {
    let session = Arc::clone(claim.session());
    let shared = session.shared();
    let (join, give_up) = match wait {
        Wait::No if !planted(Bug::TryLockJoins) => (Join::IfFree, Some(Instant::now() + shared.request_timeout * 2)),
        _ => (Join::Always, None),
    };
    // A task of its own: if this future is dropped, the write still ends, and then the claim with it.
    let (interest, _interested) = oneshot::channel();
    let joining = shared.runtime.spawn(claim.join(join, give_up, interest));
    let _mortal = planted(Bug::JoinDiesWithCaller).then(|| OwnWatch(joining.abort_handle()));
    let joined = tokio::select! {
        biased;
        joined = joining => joined.map_err(|_| Error::Closed)?,
        () = wait.is_over() => return Ok(None),
    };
    let (mut claim, joined) = match joined {
        Ok(joined) => joined,
        Err(StoreError::SessionGone(reason @ LostReason::SessionExpired)) => {
            return Err(Failure::StaleSession(session.lost_error(reason)));
        }
        Err(error) => return Err(public(&session, error).into()),
    };
    let Joined::Queued { entry, mut standing, .. } = joined else { return Ok(None) };

    loop {
        let next = match standing {
            Standing::First => match claim.grant() {
                Grant::Granted => return Ok(Some(hold(claim, entry))),
                Grant::Lost(reason) => return Err(session.lost_error(reason).into()),
                Grant::Stale => {
                    let look = async {
                        persist(|| session.prove()).await?;
                        persist(|| session.store().standing(&entry)).await
                    };
                    in_time(&session, wait, look).await?
                }
            },
            Standing::Evicted => return Err(Error::Evicted { name: claim.queue().name().to_owned() }.into()),
            Standing::Behind(_) if matches!(wait, Wait::No) => None,
            Standing::Behind(ahead) => in_time(&session, wait, await_turn(&session, &entry, &ahead)).await?,
        };
        let Some(next) = next else {
            claim.release_within(COURTESY).await;
            return Ok(None);
        };
        standing = next;
    }
}

/// Waits while `ahead` is just ahead of `entry`; tells where that stands then.
async fn await_turn(session: &Session, entry: &Entry, ahead: &Entry) -> Result<Standing, StoreError> {
    let mut idle_wakes = 0;
    loop {
        let interval = session.shared().recheck_interval;
        // Servers do lose watch events (https://github.com/etcd-io/etcd/issues/18089, /19179): look again now and then in any case.
        let recheck = interval + interval.mul_f64(fastrand::f64() / 4.0);
        tokio::select! {
            // An answer or an error: both mean no more than "look again".
            _ = session.store().gone(ahead) => if planted(Bug::WakeUpIsGrant) { return Ok(Standing::First) },
            () = sleep(recheck), if !planted(Bug::NoRecheck) => {}
        }
        let standing = persist(|| session.store().standing(entry)).await?;
        match &standing {
            Standing::Behind(now_ahead) if now_ahead.key == ahead.key => {
                // Woken for nothing. Should the store go on like that, do not spin.
                if idle_wakes > 0 {
                    sleep(backoff(idle_wakes)).await;
                }
                idle_wakes += 1;
            }
            _ => return Ok(standing),
        }
    }
}

/// Repeats a call until it succeeds or fails for good.
async fn persist<T, F>(mut call: impl FnMut() -> F) -> Result<T, StoreError>
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
async fn in_time<T>(
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

/// The user's view of a store's error. The server's word that the session is over counts for all its locks.
fn public(session: &Session, error: StoreError) -> Error {
    match error {
        StoreError::SessionGone(reason) => {
            session.life().lose(reason);
            // Where several causes race, the first one counts, as it does for the guards.
            session.lost_error(session.life().lost_reason().unwrap_or(reason))
        }
        error => error.into_public(session.shared().backend.name()),
    }
}

fn hold(claim: Claim, entry: Entry) -> Hold {
    let (evict, evicted) = watch::channel(None);
    let session = Arc::clone(claim.session());
    let own = entry.clone();
    let own_watch = session.shared().runtime.clone().spawn(async move {
        watch_own(&session, &own).await;
        evict.send_replace(Some(LostReason::KeyDeleted));
    });
    Hold { own_watch: OwnWatch(own_watch.abort_handle()), claim, entry, evicted }
}

/// Returns when the holder's own key is gone although the session lives.
async fn watch_own(session: &Session, own: &Entry) {
    sleep(if planted(Bug::OwnKeyUnwatched) { Duration::MAX } else { OWN_WATCH_AFTER }).await;
    let mut attempt = 0;
    loop {
        // Without an answer nothing is decided here: the deadline does that, as it does for the session's end.
        if session.store().gone(own).await.is_ok() {
            match session.store().standing(own).await {
                Ok(Standing::Evicted) => return,
                Err(StoreError::SessionGone(reason)) => session.life().lose(reason),
                _ => {}
            }
        }
        sleep(backoff(attempt)).await;
        attempt += 1;
    }
}

#[cfg(test)]
mod tests;
