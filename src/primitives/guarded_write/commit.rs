//! A transaction that depends on held locks.

use std::time::Duration;

use crate::{
    backend::{self, Standing, error::StoreError},
    error::{BoxError, Error, Result},
    lost::LostReason,
    primitives::guard::LockGuard,
    runtime::clock::Instant,
    session::{Session, retry},
};

/// Writes to any keys if all of these locks are held. The locks belong to one session.
pub(super) async fn commit(guards: &[&LockGuard], writes: &[backend::Write]) -> Result<()> {
    let Some(guard) = guards.first() else { return Ok(()) };
    let shared = &guard.held.session.shared;
    shared.must_queue("guarded writes")?;
    check_held(guards)?;
    let committing = commit_within(guards, &guard.held.session, writes, shared.patience());
    shared.runtime.within(committing).await.map_err(|error| match error {
        // The request may have been sent.
        Error::Runtime { source } => Error::WriteUnconfirmed { name: names(guards), source },
        error => error,
    })
}

/// Fails if one of these locks is known to be lost.
pub(super) fn check_held(guards: &[&LockGuard]) -> Result<()> {
    let Some((guard, reason)) = lost(guards) else { return Ok(()) };
    Err(rejected(guard.lost_error(reason), reason, &guard.held.session))
}

/// Returns the first of these locks that is known to be lost.
fn lost<'a>(guards: &[&'a LockGuard]) -> Option<(&'a LockGuard, LostReason)> {
    guards.iter().find_map(|guard| Some((*guard, guard.lost_reason()?)))
}

async fn commit_within(
    guards: &[&LockGuard],
    session: &Session,
    writes: &[backend::Write],
    patience: Duration,
) -> Result<()> {
    let give_up = Instant::now() + patience;
    let entries: Vec<_> = guards.iter().map(|guard| guard.held.own.entry.clone()).collect();
    let request = || async {
        if let Err(error) = check_held(guards) {
            return Ok(Err(error));
        }
        match session.store.commit(&entries, writes).await {
            Ok(true) => Ok(Ok(())),
            Ok(false) => Ok(Err(refused(guards, session).await)),
            // The session may have ended between the request and the reply.
            Err(StoreError::SessionGone(reason)) => {
                session.deadline.lose(reason);
                Ok(Err(unconfirmed(guards, reason.to_string().into())))
            }
            // The request is not sent again, because it may have been applied, or may still be.
            Err(StoreError::Unknown(source) | StoreError::PartlyDenied(source)) => {
                Ok(Err(unconfirmed(guards, source)))
            }
            Err(error) => Err(error),
        }
    };
    // The reply is awaited even if the session ends, because only the reply shows the outcome.
    let again = |error: &StoreError, _| error.is_transient() && Instant::now() < give_up;
    let (written, _) = retry(again, request).await;
    written.map_err(|error| error.into_public(session.shared.backend.kind()))?
}

fn rejected(error: Error, reason: LostReason, session: &Session) -> Error {
    session.shared.telemetry.write_rejected(reason);
    error
}

fn unconfirmed(guards: &[&LockGuard], source: BoxError) -> Error {
    Error::WriteUnconfirmed { name: names(guards), source: source.into() }
}

/// Finds out why the store refused a write: a key is gone, perhaps with its session. If there are
/// several keys, the refusal does not show which one is gone.
async fn refused(guards: &[&LockGuard], session: &Session) -> Error {
    match guards {
        // The keys of a lost session are gone, too: the first reason counts.
        _ if lost(guards).is_some() => {}
        [guard] => guard.held.own.evicted(),
        guards => {
            for guard in guards {
                let own = &guard.held.own;
                if let Ok(Standing::Evicted) = session.store.standing(&own.entry).await {
                    own.evicted();
                }
            }
        }
    }
    match lost(guards) {
        Some((guard, reason)) => rejected(guard.lost_error(reason), reason, session),
        // A downgrade replaces the key, or no read has succeeded, so that it is unknown which lock
        // was lost.
        None => {
            let is_needed = |guard: &&LockGuard| guard.held.own.is_needed();
            let is_lost = guards.iter().any(is_needed);
            let reason = if is_lost { LostReason::Evicted } else { LostReason::Released };
            rejected(Error::Lost { name: names(guards), reason }, reason, session)
        }
    }
}

/// Returns the names of the locks, for an error about all of them.
fn names(guards: &[&LockGuard]) -> String {
    guards.iter().map(|guard| guard.name()).collect::<Vec<_>>().join(", ")
}
