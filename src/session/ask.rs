//! How the store is asked: one retry, one pause, for every request.

use super::Session;
use crate::{
    backend::error::{Result, StoreError},
    runtime::{Backoff, clock::timeout},
};

/// What became of the requests that it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    pub(crate) count: u32,
    /// One of them may have been applied, or may be yet, though it was not answered.
    pub(crate) doubtful: bool,
}

/// Repeats what failed, with pauses, for as long as `again` says so and the session is not over.
/// Safe to drop at any await, as far as `request` is.
pub(crate) async fn retry<T, F>(
    mut again: impl FnMut(&StoreError, Tries) -> bool,
    mut request: impl FnMut() -> F,
) -> (Result<T>, Tries)
where
    F: Future<Output = Result<T>>,
{
    let (mut tries, mut backoff) = (Tries::default(), Backoff::default());
    loop {
        let answer = request().await;
        tries.doubtful |= matches!(answer, Err(StoreError::Unknown(_)));
        tries.count += 1;
        let failed = answer.as_ref().err();
        let is_over = matches!(failed, Some(StoreError::SessionGone(_)));
        if is_over || !failed.is_some_and(|error| again(error, tries)) {
            return (answer, tries);
        }
        backoff.pause().await;
    }
}

impl Session {
    /// Asks until the store answers or the session is over.
    pub(crate) async fn ask<T, F>(&self, request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.ask_while(|error, _| error.is_transient(), request).await.0
    }

    /// The same, but what fails is tried again for as long as `again` says so.
    ///
    /// The store's word that the session is over is told to the session: it counts for all that it
    /// holds.
    pub(crate) async fn ask_while<T, F>(
        &self,
        again: impl FnMut(&StoreError, Tries) -> bool,
        mut request: impl FnMut() -> F,
    ) -> (Result<T>, Tries)
    where
        F: Future<Output = Result<T>>,
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
        retry(again, request).await
    }

    /// Asks for no longer than a call goes on that does not wait for others.
    pub(crate) async fn ask_briefly<T, F>(&self, request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = timeout(self.shared.patience(), self.ask(request)).await;
        answer.unwrap_or_else(|late| Err(StoreError::Unknown(late.into())))
    }
}
