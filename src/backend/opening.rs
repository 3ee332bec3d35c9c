//! How sessions begin whose TTL, and mostly whose number, is of our own choice.

use std::time::Duration;

/// A shorter session would not outlive a server or a disk that is busy for a moment.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// What has to be done by then. A session that may have begun ends with its TTL.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) async fn within<T>(
    patience: Duration,
    work: impl Future<Output = T>,
) -> super::Result<T> {
    let done = crate::runtime::clock::timeout(patience, work).await;
    done.map_err(|late| super::StoreError::Unavailable(late.into()))
}
