//! Opening sessions on stores that grant every TTL of at least one second.

use std::time::Duration;

/// The shortest TTL. A shorter session could end while a server or a disk is busy for a moment.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);

/// Runs work with a time limit. A session that the work may have opened ends after its TTL.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "redis"))]
pub(crate) async fn within<T>(
    patience: Duration,
    work: impl Future<Output = T>,
) -> super::Result<T> {
    let done = crate::runtime::clock::timeout(patience, work).await;
    done.map_err(|late| super::StoreError::Unavailable(late.into()))
}
