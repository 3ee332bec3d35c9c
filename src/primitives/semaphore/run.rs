//! Work that runs while a permit is held.

use super::{Permit, Semaphore};
use crate::{
    error::{Error, Result},
    primitives::closure,
};

impl Semaphore {
    /// Acquires a permit, runs `work` while it is held, and releases it.
    ///
    /// An unconfirmed release is not an error here: it continues in the background, as after
    /// [`Permit::release`]. For work that returns a `Result`, see [`try_run`](Self::try_run). For
    /// several permits, see [`acquire_many`](Self::acquire_many) and [`Permit::run_owned`].
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`Error::Lost`] if the permit was lost before it was
    /// released. If `work` was still running, it was dropped, as with
    /// [`LockGuard::run`](crate::LockGuard::run).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work` and releases the permit in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = distlock::Client::connect("memory://docs-semaphore-run").await?;
    /// let connections = client.semaphore("db-connections", 3);
    /// let held = connections.run(async |permit| permit.permits()).await?;
    /// assert_eq!(held, 1);
    /// # Ok(()) }
    /// ```
    pub async fn run<T>(&self, work: impl AsyncFnOnce(&Permit) -> T) -> Result<T> {
        closure::run(self.acquire().await?, work).await
    }

    /// Acquires a permit, runs fallible `work` while it is held, and releases it.
    ///
    /// This method works like [`run`](Self::run), but returns a single `Result`. The method also
    /// releases the permit if `work` fails.
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
    /// # type Failure = Box<dyn std::error::Error>;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Failure> {
    /// let client = distlock::Client::connect("memory://docs-semaphore-try-run").await?;
    /// let jobs = client.semaphore("jobs", 3);
    /// let size: u32 = jobs.try_run(async |_permit| Ok::<_, Failure>("42".parse()?)).await?;
    /// assert_eq!(size, 42);
    /// # Ok(()) }
    /// ```
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl AsyncFnOnce(&Permit) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(work).await?
    }
}
