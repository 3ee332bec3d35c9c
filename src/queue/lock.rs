//! The lock algorithm, written once for all stores and modes.
//!
//! The steps are: join, check, wait, check again, grant, leave.

use std::{pin::pin, sync::Arc, time::Duration};

use tokio::sync::oneshot;

use super::{
    Failure, Hold, Wait,
    attempt::{Attempt, JoinOutcome},
    evidence::{Conclusion, Evidence, conclude},
    mode::{Admission, Mode},
    predecessor_watch::watch_predecessor,
    waiter::Waiter,
    wake_up_backoff::WakeUpBackoff,
};
use crate::{
    backend::{self, Join, Predecessor, SequencePoint, error::Result},
    error::Error,
    runtime::{
        carried::Carried,
        clock::{self, Instant, sleep},
    },
    session::deadline::NotGranted,
    telemetry,
};

/// How long a call that gives up waits for the deletion of its key. The release then continues for
/// as long as necessary. The wait exists so that a caller who reads the queue usually finds it
/// clean.
pub(crate) const RELEASE_WAIT: Duration = Duration::from_millis(100);

/// Acquires the lock, or waits for it.
///
/// The future may be dropped at any await point: the attempt removes what it has written.
pub(crate) async fn acquire(
    attempt: Attempt,
    wait: Wait,
    mode: Mode<'_>,
) -> Result<Option<Hold>, Failure> {
    let tried = wait.is_a_try().then(|| (Arc::clone(&attempt.session), attempt.queue.clone()));
    if let Some((session, queue)) = &tried
        && !Box::pin(mode.has_room(session, queue)).await?
    {
        return Ok(None);
    }
    let held = match join(attempt, wait, mode.join(wait)).await? {
        Some(entered) => hold(entered, wait, mode).await?,
        None => return Ok(None),
    };
    if let (None, Some((session, queue))) = (&held, &tried) {
        // The store may have put another entry in front, which explains why nothing was granted.
        Box::pin(mode.has_room(session, queue)).await?;
    }
    Ok(held)
}

/// Joins a queue within the caller's time limit.
///
/// Returns `None` if the time is over, or if another entry is in the queue and `join` does not wait
/// behind others.
pub(crate) async fn join(
    attempt: Attempt,
    wait: Wait,
    join: Join,
) -> Result<Option<JoinOutcome>, Failure> {
    let session = Arc::clone(&attempt.session);
    let shared = &session.shared;
    let give_up = matches!(wait, Wait::No).then(|| Instant::now() + shared.patience());
    // If this future is dropped, the write is still completed, and then the attempt is dropped.
    let (interest, _interested) = oneshot::channel();
    let joining = Carried::whole(&shared.runtime, attempt.join(join, give_up, interest));
    let Some(joined) = wait.before(joining).await else { return Ok(None) };
    joined.map_err(|error| Failure::before_joining(&session, error))
}

/// Waits for the turn of an attempt that has joined, or gives up its key.
pub(crate) async fn hold(
    entered: JoinOutcome,
    wait: Wait,
    mode: Mode<'_>,
) -> Result<Option<Hold>, Failure> {
    let JoinOutcome { mut attempt, standing, alone } = entered;
    let (session, queue) = (Arc::clone(&attempt.session), attempt.queue.clone());
    let Some(own) = attempt.own_key().map(Arc::clone) else { return Ok(None) };
    match &standing {
        // The entries at a gate do not include the holders of permits.
        _ if queue.is_gate() => {}
        backend::Standing::First => telemetry::placed(0),
        backend::Standing::Behind(ahead) if ahead.first => telemetry::placed(1),
        _ => {}
    }
    let waiter = Waiter { session: &session, queue: &queue, own: &own, mode };

    let mut next = match mode.as_joined(standing, alone) {
        Some(standing) => Some(standing),
        None => wait.spend_on(&session, waiter.look()).await?,
    };
    // The predecessor in the reply to the join existed at that moment. For later ones, no such
    // sequence point is known.
    let mut joined = mode.is_exclusive().then_some(own.joined);
    // A waiter learns of its turn from the store, not from the reply to its own request.
    let mut since = own.sent;
    while let Some(standing) = next {
        let there = joined.take();
        next = match standing {
            Admission::In => match attempt.grant() {
                Ok(()) => return Ok(Some(Hold { attempt, own, since })),
                Err(NotGranted::Lost(reason)) => return Err(session.lost_error(reason).into()),
                Err(NotGranted::Unconfirmed) => {
                    let prove = Box::pin(session.ask(|| session.prove()));
                    match wait.spend_on(&session, prove).await? {
                        Some(()) => wait.spend_on(&session, waiter.look()).await?,
                        None => None,
                    }
                }
            },
            Admission::Evicted => return Err(Error::Evicted { name: queue.name().into() }.into()),
            Admission::Refused(error) => {
                attempt.release_within(RELEASE_WAIT).await;
                return Err(error.into());
            }
            Admission::Behind(_) | Admission::Full if matches!(wait, Wait::No) => None,
            Admission::Behind(predecessor) => {
                // Boxed, so that calls that need not wait do not reserve space for this future.
                let waiting = Box::pin(waiter.wait_behind(predecessor, there));
                let standing = wait.spend_on(&session, waiting).await?;
                since = clock::now();
                standing
            }
            Admission::Full => {
                let standing = wait.spend_on(&session, Box::pin(waiter.wait_for_room())).await?;
                since = clock::now();
                standing
            }
        };
    }
    attempt.release_within(RELEASE_WAIT).await;
    Ok(None)
}

impl Waiter<'_> {
    /// Waits while the predecessor is directly ahead, and returns the result.
    async fn wait_behind(
        &self,
        mut predecessor: Predecessor,
        there: Option<SequencePoint>,
    ) -> Result<Admission> {
        let mut there = there.filter(|_| predecessor.seen);
        let mut backoff = WakeUpBackoff::default();
        loop {
            let began = Instant::now();
            let evidence = self.evidence(&predecessor, there.take()).await?;
            match conclude(evidence, &predecessor) {
                Conclusion::First => return Ok(Admission::In),
                Conclusion::Evicted => return Ok(Admission::Evicted),
                Conclusion::Behind(next) => {
                    predecessor = next;
                    continue;
                }
                Conclusion::Waits => {}
                Conclusion::Unknown => match self.look().await? {
                    Admission::Behind(now) if now.entry.key == predecessor.entry.key => {
                        predecessor.seen |= now.seen;
                    }
                    standing => return Ok(standing),
                },
            }
            backoff.idle(began).await;
        }
    }

    /// Waits for a possible change, and returns what is known about it.
    async fn evidence(
        &self,
        predecessor: &Predecessor,
        there: Option<SequencePoint>,
    ) -> Result<Evidence> {
        if self.mode.is_exclusive() {
            self.own.wait_for(predecessor);
        }
        let mut watched = pin!(watch_predecessor(self, predecessor, there));
        loop {
            // Servers do lose watch events (https://github.com/etcd-io/etcd/issues/18089, /19179),
            // so the waiter also rechecks periodically. The watch stays active.
            tokio::select! {
                biased;
                evidence = &mut watched => return evidence,
                () = sleep(self.session.recheck()) => {}
            }
            let recheck = Box::pin(async {
                let changed = self.recheck(predecessor).await;
                if matches!(changed, Ok(None)) {
                    self.tell_slow().await;
                }
                changed
            });
            let changed = tokio::select! {
                biased;
                evidence = &mut watched => return evidence,
                changed = recheck => changed?,
            };
            if let Some(evidence) = changed {
                self.session.shared.telemetry.recheck_found("wait");
                return Ok(evidence);
            }
        }
    }
}

#[cfg(test)]
mod tests;
