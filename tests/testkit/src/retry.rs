//! Retries.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Result;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Retries until success. After the limit, the next error is returned.
pub async fn retried<T, A>(limit: Duration, attempt: impl Fn() -> A) -> Result<T>
where
    A: Future<Output = Result<T>>,
{
    let start = Instant::now();
    loop {
        match attempt().await {
            Err(_) if start.elapsed() < limit => sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}
