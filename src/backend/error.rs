//! What adapters tell of failed calls.

use std::{fmt, sync::Arc};

use crate::{
    error::{BoxError, Error},
    lost::LostReason,
};

/// What an adapter tells of a failed call.
#[cfg_attr(not(any(feature = "etcd", feature = "zookeeper")), allow(dead_code))]
#[derive(Debug)]
pub(crate) enum StoreError {
    /// Not applied, for certain. Another attempt may work.
    Unavailable(BoxError),
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
    pub(crate) fn into_public(self, backend: &'static str) -> Error {
        match self {
            Self::Unavailable(source) | Self::Unknown(source) => {
                Error::Unavailable { backend, source }
            }
            Self::SessionGone(reason) => Error::SessionLost { backend, reason },
            Self::Denied(source) => Error::Denied { backend, source },
            Self::Fatal { operation, source } => Error::Backend { backend, operation, source },
        }
    }

    /// The same for one more who waited for it.
    pub(crate) fn again(error: &Arc<Self>) -> Self {
        let source = || Box::new(Shared(Arc::clone(error)));
        match &**error {
            Self::Unavailable(_) => Self::Unavailable(source()),
            Self::Unknown(_) => Self::Unknown(source()),
            Self::SessionGone(reason) => Self::SessionGone(*reason),
            Self::Denied(_) => Self::Denied(source()),
            Self::Fatal { operation, .. } => Self::Fatal { operation, source: source() },
        }
    }

    fn source(&self) -> Option<&BoxError> {
        match self {
            Self::Unavailable(source)
            | Self::Unknown(source)
            | Self::Denied(source)
            | Self::Fatal { source, .. } => Some(source),
            Self::SessionGone(_) => None,
        }
    }

    /// Whether another attempt of the same call makes sense.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unknown(_))
    }

    pub(crate) fn into_source(self) -> BoxError {
        match self {
            Self::Unavailable(source)
            | Self::Unknown(source)
            | Self::Denied(source)
            | Self::Fatal { source, .. } => source,
            Self::SessionGone(reason) => reason.to_string().into(),
        }
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
