//! Async closures that run while a lock of any kind is held.

use crate::error::{Error, Result};

/// A guard of any primitive.
pub(crate) trait Guard: Sized {
    /// Runs `future` until it is done or a lock of the guard is lost.
    async fn run_held<T>(&self, future: impl Future<Output = T>) -> Result<T>;

    /// Releases the locks of the guard.
    async fn release_held(self) -> Result<()>;
}

/// Runs `work` with the guard, and releases it.
pub(crate) async fn run<G: Guard, T>(guard: G, work: impl AsyncFnOnce(&G) -> T) -> Result<T> {
    let done = guard.run_held(work(&guard)).await?;
    end(guard, done).await
}

/// Releases after the work. An unconfirmed release is not an error.
pub(crate) async fn end<T>(guard: impl Guard, done: T) -> Result<T> {
    match guard.release_held().await {
        Err(error @ Error::Lost { .. }) => Err(error),
        _ => Ok(done),
    }
}
