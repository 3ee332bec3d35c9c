//! How the store is asked: one retry, one pause, for every request.

use tokio::time::sleep;

use super::Session;
use crate::{backend::error::StoreError, runtime::backoff};

/// What became of the requests that it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    pub(crate) count: u32,
    /// One of them may have been applied, or may be yet, though it was not answered.
    pub(crate) doubtful: bool,
}

/// Repeats what may work at another time, with pauses, until it succeeds or fails for good, or
/// fails once `stop` says so. Safe to drop at any await, as far as `request` is.
pub(crate) async fn retry<T, F>(
    stop: impl Fn() -> bool,
    mut request: impl FnMut() -> F,
) -> (Result<T, StoreError>, Tries)
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut tries = Tries::default();
    loop {
        let answer = request().await;
        tries.doubtful |= matches!(answer, Err(StoreError::Unknown(_)));
        tries.count += 1;
        match answer {
            Err(error) if error.is_transient() && !stop() => {
                sleep(backoff(tries.count - 1)).await;
            }
            answer => return (answer, tries),
        }
    }
}

impl Session {
    /// Asks until the store answers or the session is over.
    pub(crate) async fn ask<T, F>(&self, request: impl FnMut() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.ask_until(|| false, request).await.0
    }

    /// The same, but what fails once `stop` says so is not tried again.
    ///
    /// The store's word that the session is over is told to the session: it counts for all that it
    /// holds.
    pub(crate) async fn ask_until<T, F>(
        &self,
        stop: impl Fn() -> bool,
        mut request: impl FnMut() -> F,
    ) -> (Result<T, StoreError>, Tries)
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let request = || {
            let answer = request();
            async {
                let answer = tokio::select! {
                    biased;
                    reason = self.deadline.lost() => Err(StoreError::SessionGone(reason)),
                    answer = answer => answer,
                };
                if let Err(StoreError::SessionGone(reason)) = &answer {
                    self.deadline.lose(*reason);
                }
                answer
            }
        };
        retry(stop, request).await
    }
}
