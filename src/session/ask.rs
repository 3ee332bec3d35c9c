//! Requests to the store: one retry policy and one backoff for all of them.

use super::Session;
use crate::{
    backend::error::{Result, StoreError},
    runtime::{Backoff, clock::timeout},
};

/// The number of requests of a call, and whether their result is in doubt.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tries {
    pub(crate) count: u32,
    /// A request may have been applied, at least in part, or may still be.
    pub(crate) doubtful: bool,
}

/// Retries a failed request, with pauses, while `again` returns `true`.
///
/// The end of the session stops the retries. Dropping this future at an await point is as safe as
/// dropping `request`.
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
        tries.count += 1;
        let failed = answer.as_ref().err();
        tries.doubtful |= failed.is_some_and(StoreError::leaves_doubt);
        let is_over = matches!(failed, Some(StoreError::SessionGone(_)));
        if is_over || !failed.is_some_and(|error| again(error, tries)) {
            return (answer, tries);
        }
        backoff.pause().await;
    }
}

impl Session {
    /// Retries a request until the store replies or the session ends.
    pub(crate) async fn ask<T, F>(&self, request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.ask_while(|error, _| error.is_transient(), request).await.0
    }

    /// Retries a request while `again` returns `true`.
    ///
    /// If the store reports the end of the session, the session is lost, and so are all its locks.
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

    /// Retries a request within the time limit of a call that does not wait for other clients.
    pub(crate) async fn ask_briefly<T, F>(&self, request: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let answer = timeout(self.shared.patience(), self.ask(request)).await;
        answer.unwrap_or_else(|late| Err(StoreError::Unknown(late.into())))
    }
}
