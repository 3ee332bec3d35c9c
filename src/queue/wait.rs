//! How long a call waits.

use std::{pin::Pin, time::Duration};

use super::Failure;
use crate::{
    backend::error::StoreError,
    error::{Error, Result, source},
    runtime::clock::{Instant, sleep_until, timeout},
    session::{Session, Sessions, Shared},
};

/// How long to wait for a lock.
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

    /// Does `work`, if that is done before the caller's time is up. A timer belongs to the runtime
    /// that it is made in: this makes it where it is polled.
    pub(crate) async fn before<T>(self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.is_over() => None,
        }
    }

    /// Does `work` unless the session ends first, or the client is about to (an error), or the
    /// caller's time (`None`).
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

    /// Takes a lock, from any executor, unless the client grants nothing any more. What is a try
    /// ends soon in any case: within twice the request timeout, and the connect timeout before that
    /// if there is no session.
    pub(crate) async fn bounds<T>(
        self,
        sessions: &Sessions,
        // By value it would have its room in this future twice.
        work: Pin<&mut impl Future<Output = Result<Option<T>>>>,
    ) -> Result<Option<T>> {
        let shared = sessions.shared();
        let bounded = async {
            if !self.is_a_try() {
                return work.await;
            }
            drop(sessions.any().await?);
            let limit = shared.patience();
            timeout(limit, work).await.unwrap_or_else(|_| {
                let source = source(format!("no answer within {limit:?}"));
                Err(Error::Unavailable { backend: shared.backend.name(), source })
            })
        };
        unless_drained(shared, shared.runtime.within(bounded)).await
    }
}

/// Takes a lock, unless the client grants nothing any more.
pub(crate) async fn unless_drained<T>(
    shared: &Shared,
    taking: impl Future<Output = Result<Option<T>>>,
) -> Result<Option<T>> {
    let drained = || *shared.draining.borrow();
    if drained() {
        return Err(Error::Closed);
    }
    let taken = taking.await;
    // The one who waits for the last holder has said so before it looked.
    if drained() { Err(Error::Closed) } else { taken }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
