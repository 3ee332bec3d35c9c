//! How long a call waits.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use super::Failure;
use crate::{
    backend::error::StoreError,
    error::{Error, Result},
    session::{Session, Sessions},
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

    pub(crate) fn has_passed(self) -> bool {
        matches!(self, Self::Until(at) if at <= Instant::now())
    }

    pub(crate) async fn is_over(self) {
        match self {
            Self::Until(at) => sleep_until(at).await,
            Self::Forever | Self::No => std::future::pending().await,
        }
    }

    /// Does `work` unless the session ends first (an error) or the caller's time (`None`).
    pub(crate) async fn spend_on<T>(
        self,
        session: &Session,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<Option<T>, Failure> {
        tokio::select! {
            biased;
            reason = session.deadline().lost() => Err(session.lost_error(reason).into()),
            () = self.is_over() => Ok(None),
            done = work => done.map(Some).map_err(|error| session.public(error).into()),
        }
    }

    /// Does what ends soon in any case if it is a try: within twice the request timeout, and the
    /// connect timeout before that if there is no session.
    pub(crate) async fn bounds<T>(
        self,
        sessions: &Sessions,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        if !matches!(self, Self::No) {
            return work.await;
        }
        drop(sessions.any().await?);
        let limit = sessions.patience();
        timeout(limit, work).await.unwrap_or_else(|_| {
            let source = format!("no answer within {limit:?}").into();
            Err(Error::Unavailable { backend: sessions.backend_name(), source })
        })
    }
}
