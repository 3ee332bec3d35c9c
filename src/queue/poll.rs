//! Acquires a lock without a queue, by polling.
//!
//! An attempt acquires the lock at once or leaves nothing in the store. Locks are therefore not
//! fair, and waiters are not notified. The pauses between attempts grow with the wait, which limits
//! the load of many waiters. Their length is random, so that two clients that collide do not
//! collide again.

use std::{sync::Arc, time::Duration};

use super::{Failure, Hold, Wait, attempt::Attempt, failure::StaleSessions, lock};
use crate::{
    backend::{Join, name::Queue},
    error::{Error, Result},
    runtime::{clock::sleep, jittered},
    session::{Sessions, deadline::NotGranted},
};

/// The pause between two attempts grows from `SHORTEST` to `LONGEST`.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(250);

/// The result of one attempt.
enum Attempted {
    Held(Hold),
    /// Another client holds the lock. Unless that client renews it, the lock is free within this
    /// time.
    Occupied(Option<Duration>),
    /// The caller's time limit has passed.
    Late,
}

/// Acquires the lock.
///
/// The future may be dropped at any await point: the attempt removes what it has written.
pub(super) async fn take(sessions: &Sessions, queue: &Queue, wait: Wait) -> Result<Option<Hold>> {
    let (mut stale, mut attempts) = (StaleSessions::default(), 0);
    loop {
        let attempt = wait.before(Attempt::new(sessions, queue)).await;
        let Some(attempt) = attempt.transpose()? else { return Ok(None) };
        let free_within = match once(attempt, wait).await {
            Ok(Attempted::Held(hold)) => return Ok(Some(hold)),
            Ok(Attempted::Late) => return Ok(None),
            Ok(Attempted::Occupied(_)) if wait.is_a_try() => return Ok(None),
            Ok(Attempted::Occupied(free_within)) => free_within,
            Err(Failure::StaleSession(_)) if stale.another() => continue,
            Err(Failure::StaleSession(error) | Failure::Final(error)) => return Err(error),
        };
        let shared = sessions.shared();
        tokio::select! {
            biased;
            () = shared.drained() => return Err(Error::Closed),
            () = wait.is_over() => return Ok(None),
            () = sleep(pause(attempts, free_within)) => {}
        }
        attempts += 1;
    }
}

async fn once(attempt: Attempt, wait: Wait) -> Result<Attempted, Failure> {
    let session = Arc::clone(&attempt.session);
    let queue = attempt.queue.clone();
    let Some(entered) = lock::join(attempt, wait, Join::IfFree).await? else {
        if wait.has_passed() {
            return Ok(Attempted::Late);
        }
        return Ok(Attempted::Occupied(session.store.free_within(&queue)));
    };
    let mut attempt = entered.attempt;
    let Some(own) = attempt.own_key().map(Arc::clone) else { return Ok(Attempted::Late) };
    loop {
        match attempt.grant() {
            // The loss may have been reported before there was a guard to notify.
            Ok(()) if own.lost_reason().is_some() => return Ok(Attempted::Occupied(None)),
            Ok(()) => {
                let since = own.sent;
                return Ok(Attempted::Held(Hold { attempt, own, since }));
            }
            Err(NotGranted::Lost(reason)) => return Err(session.lost_error(reason).into()),
            Err(NotGranted::Unconfirmed) => {
                let prove = Box::pin(session.ask(|| session.prove()));
                if wait.spend_on(&session, prove).await?.is_none() {
                    attempt.release_within(lock::RELEASE_WAIT).await;
                    return Ok(Attempted::Late);
                }
            }
        }
    }
}

/// Returns the pause before the next attempt, after `attempts` earlier pauses.
fn pause(attempts: u32, free_within: Option<Duration>) -> Duration {
    let grown = (SHORTEST * (1 << attempts.min(6))).min(LONGEST);
    // A longer pause would only delay the attempt after the lock may be free.
    jittered(free_within.map_or(grown, |free| grown.min(free.max(SHORTEST)))).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        for (attempts, free_within, most) in [
            (0, None, 7.5),
            (1, None, 15.0),
            (3, None, 60.0),
            (6, None, 250.0),
            (99, None, 250.0),
            (99, Some(Duration::from_millis(20)), 30.0),
            (99, Some(Duration::ZERO), 7.5),
            (0, Some(Duration::from_secs(9)), 7.5),
        ] {
            for _ in 0..20 {
                let pause = pause(attempts, free_within).as_secs_f64() * 1_000.0;
                assert!((most / 3.1..=most).contains(&pause), "{attempts} {free_within:?} {pause}");
            }
        }
    }
}
