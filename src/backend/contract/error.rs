//! What adapters tell of failed calls.

use std::{fmt, sync::Arc};

use crate::{
    error::{BoxError, Error},
    lost::LostReason,
    store_kind::StoreKind,
};

/// What a store answers.
pub(crate) type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Why a try cannot report yet that a lock is held.
pub(crate) const SEEMS_DEAD: &str = "its holder seems dead, by a clock that this client has not \
                                     watched for long enough: it is known after 1.1 TTL";

/// What an adapter tells of a failed call.
#[cfg_attr(not(any(feature = "_network", feature = "sqlite")), allow(dead_code))]
#[derive(Debug)]
pub(crate) enum StoreError {
    /// Not applied, for certain. Another attempt may work.
    Unavailable(BoxError),
    /// Not applied, as the user's pool lent no connection. The caller may hold the last one itself,
    /// so that a call that waits for others must not wait for this, too.
    #[allow(dead_code)] // Only MySQL and PostgreSQL say so.
    Exhausted(BoxError),
    /// Not applied, and nothing will change for some time.
    #[allow(dead_code)] // Only MySQL, PostgreSQL and Redis say so.
    NotYet(BoxError),
    /// May have been applied, may still be applied later.
    Unknown(BoxError),
    /// The lease or session is over: so says the server.
    SessionGone(LostReason),
    /// Refused for who we are.
    Denied(BoxError),
    /// Refused for what we asked.
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
            Self::Denied(source) => Error::Denied { backend, source: source.into() },
            Self::Fatal { operation, source } => {
                Error::Backend { backend, operation, source: source.into() }
            }
        }
    }

    /// The same for one more who waited for it.
    pub(crate) fn again(error: &Arc<Self>) -> Self {
        let source = || Box::new(Shared(Arc::clone(error)));
        match &**error {
            Self::Unavailable(_) => Self::Unavailable(source()),
            Self::Exhausted(_) => Self::Exhausted(source()),
            Self::NotYet(_) => Self::NotYet(source()),
            Self::Unknown(_) => Self::Unknown(source()),
            Self::SessionGone(reason) => Self::SessionGone(*reason),
            Self::Denied(_) => Self::Denied(source()),
            Self::Fatal { operation, .. } => Self::Fatal { operation, source: source() },
        }
    }

    /// The same, told in words.
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
            | Self::Fatal { source, .. } => Some(source),
            Self::SessionGone(_) => None,
        }
    }

    /// Makes it the error of a call of which a part was applied, or may have been: it is in doubt
    /// for as long as the session lives.
    #[cfg(any(feature = "etcd", feature = "redis", feature = "zookeeper"))]
    pub(crate) fn in_doubt(self) -> Self {
        match self {
            Self::Unavailable(source)
            | Self::Exhausted(source)
            | Self::NotYet(source)
            | Self::Unknown(source)
            | Self::Denied(source)
            | Self::Fatal { source, .. } => Self::Unknown(source),
            Self::SessionGone(reason) => Self::SessionGone(reason),
        }
    }

    /// Whether another attempt of the same call makes sense.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Exhausted(_) | Self::Unknown(_))
    }
}

/// The source of an error that several callers are told of.
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
