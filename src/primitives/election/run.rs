//! Work that runs while a candidate leads.

use std::pin::pin;

use super::Election;
use crate::{
    error::{Error, Result},
    primitives::leadership::{Leadership, LeadershipHandle},
    runtime::Backoff,
};

impl Election {
    /// Campaigns, runs `work` while leading, and resigns; `None` if cancelled.
    ///
    /// If the lead is known to be lost when the work ends, or before, the candidate campaigns
    /// again. The candidate publishes `value`, as [`campaign`](Self::campaign) does. For work that
    /// returns a `Result`, see [`try_run`](Self::try_run).
    ///
    /// `work` receives a handle to the lead, which can be cloned and passed to other tasks. The
    /// work is dropped when the lead is lost, as in [`LockGuard::run`](crate::LockGuard::run), and
    /// starts again when the candidate leads again. Each start clones `work` with all values that
    /// it captures by move. References, `Arc`s and channels are cheap to clone.
    ///
    /// When `cancel` completes, `work` is dropped. A leader has resigned by the time the call
    /// returns. If the store denies access, or does not confirm the resignation within twice the
    /// [`request_timeout`](crate::Builder::request_timeout), the resignation continues in the
    /// background. A candidate that does not lead yet withdraws in the background.
    ///
    /// # Errors
    ///
    /// The errors of [`campaign`](Self::campaign) that are not
    /// [retryable](Error::is_retryable). After a retryable error, the candidate pauses for up to a
    /// second and campaigns again. [`Error::Lost`] if the work is done, and the resignation shows
    /// that the lead was lost before. Another candidate may have led since.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and resigns in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-election-run").await?;
    /// let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    /// let stopped = async { drop(stopped.await) }; // SIGTERM, for example
    /// let address = Arc::new("10.0.0.7:8080".to_owned()); // of the service
    /// let leading = tokio::spawn(async move {
    ///     let election = client.election("scheduler");
    ///     let work = async |leadership: distlock::LeadershipHandle| leadership.fencing_token();
    ///     election.run(address.as_str(), stopped, work).await
    /// });
    /// let token = leading.await.expect("no panic")?.expect("it was not cancelled");
    /// assert!(token.as_u64() > 0);
    /// # drop(stop);
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(
        &self,
        value: impl AsRef<[u8]>,
        cancel: impl Future<Output = ()>,
        work: impl AsyncFnOnce(LeadershipHandle) -> T + Clone,
    ) -> Result<Option<T>> {
        let mut cancel = pin!(cancel);
        loop {
            let leadership = tokio::select! {
                biased;
                () = &mut cancel => return Ok(None),
                elected = self.elected(value.as_ref()) => elected?,
            };
            let working = leadership.run(work.clone()(leadership.handle()));
            let done = tokio::select! {
                biased;
                () = &mut cancel => None,
                done = working => Some(done),
            };
            let done = match done {
                // Work that checks the lead itself may notice the loss first.
                Some(Ok(_)) if leadership.lost_reason().is_some() => continue,
                Some(Err(_lost)) => continue,
                Some(Ok(done)) => Some(done),
                None => None,
            };
            return match leadership.resign().await {
                Err(error @ Error::Lost { .. }) if done.is_some() => Err(error),
                // An unconfirmed resignation continues in the background.
                _ => Ok(done),
            };
        }
    }

    /// Campaigns, runs fallible `work` while leading, and resigns.
    ///
    /// This method works like [`run`](Self::run), but returns a single `Result`. If `work` fails
    /// while the candidate leads, the leader resigns and does not campaign again.
    ///
    /// # Errors
    ///
    /// The error of `work`, or an error as in [`run`](Self::run), converted to `E`.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Self::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # use distlock::LeadershipHandle;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-election-try-run").await?;
    /// let stopped = std::future::pending();
    /// let work = async |leadership: LeadershipHandle| leadership.proclaim("ready").await;
    /// client.election("scheduler").try_run("starting", stopped, work).await?;
    /// # Ok(()) }
    /// ```
    pub async fn try_run<T, E: From<Error>>(
        &self,
        value: impl AsRef<[u8]>,
        cancel: impl Future<Output = ()>,
        work: impl AsyncFnOnce(LeadershipHandle) -> Result<T, E> + Clone,
    ) -> Result<Option<T>, E> {
        self.run(value, cancel, work).await?.transpose()
    }

    /// Campaigns until this candidate leads, and retries after transient errors.
    async fn elected(&self, value: &[u8]) -> Result<Leadership> {
        let (runtime, mut backoff) = (&self.named.sessions.shared().runtime, Backoff::default());
        loop {
            match self.campaign(value).await {
                Err(error) if error.is_retryable() => {
                    let pause = async {
                        backoff.pause().await;
                        Ok(())
                    };
                    runtime.within(pause).await?;
                }
                elected => return elected,
            }
        }
    }
}
