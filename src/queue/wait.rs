//! How long a call waits.

use std::time::Duration;

use super::Failure;
use crate::{
    backend::error::StoreError,
    error::{Error, Result, source},
    runtime::{
        clock::{Instant, sleep, sleep_until, timeout},
        jittered,
    },
    session::{Session, Sessions, Shared, timing::Timing},
};

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Forever,
    Until(Instant),
    No,
}

impl Wait {
    /// Returns the wait for this timeout. A timeout of zero is a `try`.
    pub(crate) fn at_most(timeout: Duration) -> Self {
        if timeout.is_zero() {
            return Self::No;
        }
        // A timeout that the clock cannot represent is no timeout.
        Instant::now().checked_add(timeout).map_or(Self::Forever, Self::Until)
    }

    pub(crate) fn is_a_try(self) -> bool {
        matches!(self, Self::No)
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

    /// Runs `work` until the caller's time limit.
    ///
    /// A timer belongs to the runtime in which it is created, so it is created where it is polled.
    pub(crate) async fn before<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.is_over() => None,
        }
    }

    /// Runs `work` until the caller's time limit. Returns `None` at the limit.
    ///
    /// The end of the session, or a client that is about to close, is an error.
    pub(crate) async fn spend_on<T>(
        self,
        session: &Session,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Option<T>, Failure> {
        tokio::select! {
            biased;
            reason = session.deadline.lost() => Err(session.lost_error(reason).into()),
            () = session.shared.drained() => Err(Error::Closed.into()),
            () = self.is_over() => Ok(None),
            done = work => done.map(Some).map_err(|error| session.public(error).into()),
        }
    }

    /// Acquires a lock from any executor, unless the client no longer grants locks.
    ///
    /// `work` makes one attempt. An attempt of a `try` ends within twice the request timeout, plus
    /// the connect timeout if there is no session. A `try` is repeated only while the store cannot
    /// yet determine whether the lock is free.
    pub(crate) async fn bounds<T, F>(
        self,
        sessions: &Sessions,
        work: impl Fn() -> F,
    ) -> Result<Option<T>>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        let shared = sessions.shared();
        let bounded = async {
            if !self.is_a_try() {
                return work().await;
            }
            let began = Instant::now();
            loop {
                drop(sessions.any().await?);
                let limit = shared.patience();
                let taken = timeout(limit, work()).await.unwrap_or_else(|_| {
                    let source = source(format!("no reply within {limit:?}"));
                    Err(Error::Unavailable { backend: shared.backend.kind(), source })
                });
                let pause = match &taken {
                    Err(Error::NotYet { .. }) => until_it_is_known(sessions.timing(), began),
                    _ => None,
                };
                let Some(pause) = pause else { return taken };
                tokio::select! {
                    biased;
                    () = shared.drained() => return Err(Error::Closed),
                    () = sleep(pause) => {}
                }
            }
        };
        unless_drained(shared, shared.runtime.within(bounded)).await
    }
}

/// Returns the pause until the next attempt of a `try` that began at `began`.
///
/// Returns `None` once every session with the client's TTL would be known to have expired.
fn until_it_is_known(timing: Timing, began: Instant) -> Option<Duration> {
    let left = timing.known_for_dead().checked_sub(began.elapsed())?;
    (!left.is_zero()).then(|| jittered(timing.next_try()).min(left))
}

/// Acquires a lock, unless the client no longer grants locks.
async fn unless_drained<T>(
    shared: &Shared,
    taking: impl Future<Output = Result<Option<T>>>,
) -> Result<Option<T>> {
    let drained = || *shared.draining.borrow();
    if drained() {
        return Err(Error::Closed);
    }
    let taken = taking.await;
    // `Client::shutdown` sets the flag before it checks for holders, so this check cannot miss it.
    if drained() { Err(Error::Closed) } else { taken }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::{
        backend::{Joined, name::Queue},
        queue::acquire::take,
        session::fake_store::FakeStore,
    };

    /// Runs a `try` on this store, and returns its duration in milliseconds.
    async fn try_on(fake_store: &Arc<FakeStore>) -> (Result<bool>, u64) {
        let sessions = Sessions::lazy(fake_store.shared());
        let (queue, began) = (Queue::new("/ns", "a").unwrap(), Instant::now());
        let taken = Wait::No.bounds(&sessions, || take(&sessions, &queue, Wait::No)).await;
        let took = began.elapsed().as_millis().try_into().unwrap();
        (taken.map(|hold| hold.is_some()), took)
    }

    fn not_yet() -> StoreError {
        StoreError::NotYet("a clock that was not watched for long enough".into())
    }

    #[tokio::test(start_paused = true)]
    async fn try_waits_at_most_1_1_ttl_while_the_state_is_unknown() {
        let fake_store = FakeStore::new();
        fake_store.enqueue.then(0, || Err(not_yet()));
        let (taken, took) = try_on(&fake_store).await;
        let error = taken.unwrap_err();
        assert!(matches!(error, Error::NotYet { .. }) && error.is_retryable(), "{error:?}");
        assert!(!error.to_string().contains("does not answer"), "{error}");
        assert!((69_000..69_100).contains(&took), "1.15 TTL is 69 s: {took}");
        let asked = fake_store.asked("enqueue");
        assert!((8..30).contains(&asked.len()) && asked.last() >= Some(&69_000), "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn try_ends_as_soon_as_the_state_is_known() {
        let fake_store = FakeStore::new();
        fake_store.enqueue.then(0, || Err(not_yet()));
        fake_store.enqueue.then(0, || Err(not_yet()));
        fake_store.enqueue.then(0, || Ok(Joined::Occupied));
        let (taken, took) = try_on(&fake_store).await;
        assert!(!taken.unwrap() && (6_000..20_000).contains(&took), "{took}");
        assert_eq!(fake_store.asked("enqueue").len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn try_of_a_busy_lock_does_not_wait() {
        let fake_store = FakeStore::new();
        fake_store.enqueue.then(0, || Ok(Joined::Occupied));
        let (taken, took) = try_on(&fake_store).await;
        assert!(!taken.unwrap() && took < 100, "{took}");
        assert_eq!(fake_store.asked("enqueue").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn try_of_a_silent_store_ends_within_twice_the_request_timeout() {
        let fake_store = FakeStore::new();
        fake_store.enqueue.then(0, || Err(not_yet()));
        fake_store.enqueue.then(600_000, || Ok(Joined::Occupied));
        let (taken, took) = try_on(&fake_store).await;
        assert!(matches!(taken, Err(Error::Unavailable { .. })), "{taken:?}");
        assert!(took < 9_000 + 2_100, "{took}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_passes_at_its_end() {
        let wait = Wait::at_most(Duration::from_millis(10));
        tokio::time::advance(Duration::from_millis(9)).await;
        assert!(!wait.has_passed());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(wait.has_passed() && !wait.is_a_try());
        for other in [Wait::Forever, Wait::No, Wait::at_most(Duration::MAX)] {
            assert!(!other.has_passed());
        }
        assert!(Wait::at_most(Duration::ZERO).is_a_try());
    }
}
