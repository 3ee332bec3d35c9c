//! How adapters report failed calls.

use std::{fmt, sync::Arc};

use crate::{
    error::{BoxError, Error},
    lost::LostReason,
    store_kind::StoreKind,
};

/// The result of a call to a store.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why `try_lock` cannot report yet that a lock is held.
pub(crate) const SEEMS_DEAD: &str = "the holder's session seems to have expired, but to be \
                                     certain, this client must observe the server's clock for 1.1 \
                                     times that session's TTL: wait for the lock, or try again \
                                     later";

/// How an adapter reports a failed call.
#[cfg_attr(not(any(feature = "_network", feature = "sqlite")), allow(dead_code))]
#[derive(Debug)]
pub(crate) enum StoreError {
    /// Certainly not applied. Another attempt may succeed.
    Unavailable(BoxError),
    /// Not applied, because the user's pool lent no connection. The caller may hold the last
    /// connection itself, so a request to join a queue is not retried.
    #[allow(dead_code)] // Only for MySQL and PostgreSQL.
    Exhausted(BoxError),
    /// Not applied, and further attempts will fail for some time.
    #[allow(dead_code)] // Only for MySQL, PostgreSQL and Redis.
    NotYet(BoxError),
    /// May have been applied, or may still be applied later.
    Unknown(BoxError),
    /// The server has reported that the lease or session has ended.
    SessionGone(LostReason),
    /// Not applied: the server rejected the user or denied access, or the client rejected the
    /// server.
    Denied(BoxError),
    /// The server denied access to a part of the request. Earlier parts may have been applied.
    #[allow(dead_code)] // Only for Redis.
    PartlyDenied(BoxError),
    /// The server rejected the request.
    Fatal { operation: &'static str, source: BoxError },
}

impl StoreError {
    pub(crate) fn into_public(self, backend: StoreKind) -> Error {
        match self {
            Self::Unavailable(source) | Self::Exhausted(source) | Self::Unknown(source) => {
                Error::Unavailable { backend, source: source.into() }
            }
            Self::NotYet(source) => Error::NotYet { backend, source: source.into() },
            Self::SessionGone(reason) => Error::SessionLost { backend, reason },
            Self::Denied(source) | Self::PartlyDenied(source) => {
                Error::Denied { backend, source: source.into() }
            }
            Self::Fatal { operation, source } => {
                Error::Backend { backend, operation, source: source.into() }
            }
        }
    }

    /// Returns the error for another caller that waited for the same call.
    pub(crate) fn again(error: &Arc<Self>) -> Self {
        let source = || Box::new(Shared(Arc::clone(error)));
        match &**error {
            Self::Unavailable(_) => Self::Unavailable(source()),
            Self::Exhausted(_) => Self::Exhausted(source()),
            Self::NotYet(_) => Self::NotYet(source()),
            Self::Unknown(_) => Self::Unknown(source()),
            Self::SessionGone(reason) => Self::SessionGone(*reason),
            Self::Denied(_) => Self::Denied(source()),
            Self::PartlyDenied(_) => Self::PartlyDenied(source()),
            Self::Fatal { operation, .. } => Self::Fatal { operation, source: source() },
        }
    }

    /// Returns the reason as text.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::SessionGone(reason) => reason.to_string(),
            error => error.source().map(ToString::to_string).unwrap_or_default(),
        }
    }

    fn source(&self) -> Option<&BoxError> {
        match self {
            Self::Unavailable(source)
            | Self::Exhausted(source)
            | Self::NotYet(source)
            | Self::Unknown(source)
            | Self::Denied(source)
            | Self::PartlyDenied(source)
            | Self::Fatal { source, .. } => Some(source),
            Self::SessionGone(_) => None,
        }
    }

    /// Returns the error of a call of which a part was applied, or may have been. The outcome is in
    /// doubt as long as the session lives.
    #[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
    pub(crate) fn in_doubt(self) -> Self {
        match self {
            Self::Unavailable(source)
            | Self::Exhausted(source)
            | Self::NotYet(source)
            | Self::Unknown(source)
            | Self::Denied(source)
            | Self::PartlyDenied(source)
            | Self::Fatal { source, .. } => Self::Unknown(source),
            Self::SessionGone(reason) => Self::SessionGone(reason),
        }
    }

    /// Returns `true` if the request may have been applied, at least in part.
    pub(crate) fn leaves_doubt(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::PartlyDenied(_))
    }

    /// Returns `true` if another attempt of the same call may succeed.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Exhausted(_) | Self::Unknown(_))
    }
}

/// The source of an error that several callers receive.
#[derive(Debug)]
struct Shared(Arc<StoreError>);

impl fmt::Display for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.source().map_or(Ok(()), |source| source.fmt(f))
    }
}

impl std::error::Error for Shared {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source().and_then(|source| source.source())
    }
}
