//! The limit on how long a lock is held.

use std::time::Duration;

use crate::error::{Error, Result};

/// The longest limit. A longer one is a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Checks the limit that was passed to a primitive, whose own method returns no error. An invalid
/// limit is an error before anything is sent.
pub(crate) fn checked(max_hold: Option<Duration>) -> Result<Option<Duration>> {
    let reason = match max_hold {
        Some(time) if time.is_zero() => "must be above zero; leave it out for no limit",
        Some(time) if time > LONGEST => "must be at most 365 days; leave it out for no limit",
        _ => return Ok(max_hold),
    };
    Err(Error::invalid("max_hold", reason))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        backend::{Entry, Joined, LeaveOutcome, SequencePoint, Standing, name::Queue},
        client::Client,
        lost::LostReason,
        primitives::guard::LockGuard,
        runtime::{
            clock::{Instant, sleep, timeout},
            mutex::Mutex,
        },
        session::fake_store::FakeStore,
    };

    fn millis(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    /// Acquires a lock for at most 100 ms, 30 ms after the request.
    async fn held(store: &Arc<FakeStore>) -> LockGuard {
        store.enqueue.then(30, || {
            let (entry, standing) = (Entry::new("/ns/a/1", 1), Standing::First);
            Ok(Joined::Queued { entry, standing, at: SequencePoint(1), alive: None, alone: true })
        });
        store.close.then(0, || Ok(()));
        let client = Client::open(store.shared()).await.unwrap();
        client.mutex("a").max_hold(millis(100)).lock().await.unwrap()
    }

    fn left() -> LeaveOutcome {
        LeaveOutcome { existed: true, successor: false, at: SequencePoint(2) }
    }

    /// The time counts from the sent request. The guard is lost before its key is deleted.
    #[tokio::test(start_paused = true)]
    async fn a_guard_is_lost_before_its_key_is_deleted() {
        let (store, seen, began) =
            (FakeStore::new(), Arc::<Mutex<Vec<_>>>::default(), Instant::now());
        let guard = held(&store).await;
        assert_eq!(guard.remaining(), millis(70));
        let (handle, deletes) = (guard.handle(), Arc::clone(&seen));
        store.leave.then(50, move || {
            let valid = handle.is_valid() || handle.lost_reason() != Some(LostReason::HeldTooLong);
            deletes.lock().push((began.elapsed().as_millis(), valid));
            Ok(left())
        });
        sleep(millis(69)).await;
        assert!(guard.is_valid() && seen.lock().is_empty());
        let reason = timeout(millis(100), guard.lost()).await;
        assert_eq!(reason.expect("it is notified"), LostReason::HeldTooLong);
        // The guard is not used until the key is gone.
        sleep(millis(60)).await;
        let deletes = seen.lock().clone();
        assert!(matches!(deletes[..], [(100..102, false)]), "{deletes:?}");
        let session = Arc::clone(&guard.held.session);
        assert!(session.deadline.vitals().busy, "what the guard has is not given back yet");
        let unlocked = guard.unlock().await;
        assert!(
            matches!(unlocked, Err(Error::Lost { reason: LostReason::HeldTooLong, .. })),
            "{unlocked:?}"
        );
        assert!(!session.deadline.vitals().busy, "all counts are even");
    }

    /// A guard that is released in time ends its task.
    #[tokio::test(start_paused = true)]
    async fn a_guard_that_ends_in_time_is_released_once() {
        let store = FakeStore::new();
        store.leave.then(0, || Ok(left()));
        let guard = held(&store).await;
        let session = Arc::clone(&guard.held.session);
        guard.unlock().await.unwrap();
        let count = store.asked_in_all();
        sleep(millis(500)).await;
        assert_eq!(store.asked_in_all(), count);
        assert!(!session.deadline.vitals().busy);
    }

    /// The ticket is not used again, because a second delete with it may be under way.
    #[tokio::test(start_paused = true)]
    async fn ticket_of_expired_hold_is_not_reused() {
        for late in [false, true] {
            let store = FakeStore::new();
            store.change(|facts| facts.keeps_old_names = true);
            store.leave.then(0, || Ok(left()));
            let guard = held(&store).await;
            let (session, ticket) = (Arc::clone(&guard.held.session), guard.held.ticket);
            if late {
                guard.lost().await;
            }
            drop(guard.unlock().await);
            let next = session.take_on(&Queue::new("/ns", "a").unwrap()).unwrap();
            assert_eq!(next == ticket, !late);
        }
    }

    #[test]
    fn max_hold_limits_are_checked() {
        let checked = |time| checked(Some(time));
        for bad in [Duration::ZERO, Duration::MAX, LONGEST + Duration::from_nanos(1)] {
            let error = checked(bad).unwrap_err();
            assert!(
                matches!(error, Error::InvalidArgument { argument: "max_hold", .. }),
                "{error:?}"
            );
        }
        for good in [Duration::from_nanos(1), LONGEST] {
            assert_eq!(checked(good).unwrap(), Some(good));
        }
        assert_eq!(super::checked(None).unwrap(), None);
    }
}
