//! What can go wrong, told by what the caller can do about it.

use std::{error::Error as StdError, sync::Arc};

use crate::{
    lost::{Lost, LostReason},
    store_kind::StoreKind,
};

/// The result of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// What is behind an error; several may be told of it.
pub(crate) type Source = Arc<dyn StdError + Send + Sync + 'static>;

pub(crate) fn source(of: impl Into<BoxError>) -> Source {
    Arc::from(of.into())
}

/// Why an operation failed.
///
/// "Held by another" and "time is up" are no errors: [`try_lock`](crate::Mutex::try_lock) and
/// [`lock_timeout`](crate::Mutex::lock_timeout) answer `Ok(None)`. The message never repeats the
/// [`source`](std::error::Error::source): print the chain to see it all.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be used. Nothing was sent.
    #[error("invalid URL {url:?}: {reason}")]
    #[non_exhaustive]
    InvalidUrl {
        /// The URL, without anything that may be a password.
        url: String,
        /// What is wrong and what to write instead.
        reason: String,
    },
    /// The URL's backend is not compiled in.
    #[error("{scheme}:// needs the feature `{feature}`: add it to distlock in Cargo.toml")]
    #[non_exhaustive]
    FeatureDisabled {
        /// The URL's scheme.
        scheme: &'static str,
        /// The cargo feature to turn on.
        feature: &'static str,
    },
    /// An argument, or an option of the builder, is invalid. Nothing was sent.
    #[error("invalid {argument}: {reason}")]
    #[non_exhaustive]
    InvalidArgument {
        /// The argument: `name`, `permits` or `key`, or the builder's method.
        argument: &'static str,
        /// What is wrong and what to pass instead.
        reason: String,
    },
    /// This store cannot do that. Nothing was sent.
    #[error("{backend} has no {operation}")]
    #[non_exhaustive]
    Unsupported {
        /// The store.
        backend: StoreKind,
        /// What it has not.
        operation: &'static str,
    },
    /// The store refuses this user, password, certificate or access. Trying again will not help.
    #[error("{backend} refused access")]
    #[non_exhaustive]
    Denied {
        /// The store.
        backend: StoreKind,
        /// The store's own words.
        #[source]
        source: Source,
    },
    /// No server answered in time. Nothing was taken; try again later. A request that was sent may
    /// have arrived all the same: whatever it wrote into a queue is taken back in the background.
    #[error("{backend} does not answer; nothing was taken")]
    #[non_exhaustive]
    Unavailable {
        /// The store.
        backend: StoreKind,
        /// What the last attempt met; it names the endpoint where there is one.
        #[source]
        source: Source,
    },
    /// The store does not know yet whether the lock is free. Either the entry ahead belongs to a
    /// session that has expired by the server's clock, which this client has not watched for long
    /// enough, or the server may lack locks that were granted before. No lock was acquired. Try
    /// again later. Only a try returns this error, after a wait of about 1.1 TTL: see
    /// [`try_lock`](crate::Mutex::try_lock).
    #[error("{backend} cannot tell yet whether the lock is free; nothing was taken")]
    #[non_exhaustive]
    NotYet {
        /// The store.
        backend: StoreKind,
        /// What it waits for.
        #[source]
        source: Source,
    },
    /// The session ended while waiting, and with it the place in the queue. Lock again: that opens
    /// a new session.
    #[error("the {backend} session ended while waiting ({reason})")]
    #[non_exhaustive]
    SessionLost {
        /// The store.
        backend: StoreKind,
        /// Why it ended.
        reason: LostReason,
    },
    /// Somebody deleted this waiter's key. Lock again to join the queue anew.
    #[error("the place in the queue of {name:?} was deleted by somebody else")]
    #[non_exhaustive]
    Evicted {
        /// The lock's name.
        name: String,
    },
    /// The lock was lost before it was unlocked. Another client may have held it since. Check what
    /// was done under it.
    #[error("the lock {name:?} was lost before it was unlocked ({reason})")]
    #[non_exhaustive]
    Lost {
        /// The lock's name.
        name: String,
        /// Why it was lost.
        reason: LostReason,
    },
    /// The store did not confirm the release in time. It goes on being retried in the background
    /// until it is confirmed or the session is over.
    #[error("the release of {name:?} is not confirmed yet; it goes on in the background")]
    #[non_exhaustive]
    ReleaseUnconfirmed {
        /// The lock's name.
        name: String,
        /// What the last attempt met.
        #[source]
        source: Source,
    },
    /// The store did not answer to a guarded write: it may or may not have been applied, or may be
    /// yet, while the lock is held. It is not sent again.
    #[error("the write under {name:?} is not confirmed: it may or may not have been applied")]
    #[non_exhaustive]
    WriteUnconfirmed {
        /// The lock's name.
        name: String,
        /// What the attempt met.
        #[source]
        source: Source,
    },
    /// The client was closed. Connect again.
    #[error("the client is closed")]
    Closed,
    /// The library's background threads could not be started, or have stopped: the runtime of
    /// [`Builder::runtime`](crate::Builder::runtime) was shut down, or the client was created
    /// before this process was forked. Connect again.
    #[error("the client has no runtime to work on")]
    #[non_exhaustive]
    Runtime {
        /// The operating system's error, or what became of the runtime.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The store gave an answer that this crate does not expect.
    #[error("{backend} failed during {operation}")]
    #[non_exhaustive]
    Backend {
        /// The store.
        backend: StoreKind,
        /// What was asked of it.
        operation: &'static str,
        /// The store's own words.
        #[source]
        source: Source,
    },
}

/// For `guard.run(…).await?` in a function that returns this crate's errors.
impl From<Lost> for Error {
    fn from(Lost { name, reason }: Lost) -> Self {
        Self::Lost { name, reason }
    }
}

impl Error {
    /// Returns the error for an invalid argument or option.
    pub(crate) fn invalid(argument: &'static str, reason: impl Into<String>) -> Self {
        Self::InvalidArgument { argument, reason: reason.into() }
    }

    /// Returns the error for an invalid argument whose value the message repeats, cut to a
    /// printable length.
    pub(crate) fn invalid_value(argument: &'static str, value: &str, reason: &str) -> Self {
        let value: String = value.chars().take(80).collect();
        Self::invalid(argument, format!("{value:?}: {reason}"))
    }

    /// Whether the same call may succeed later without a change to the program or its
    /// configuration.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::NotYet { .. }
                | Self::SessionLost { .. }
                | Self::Evicted { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_have_the_same_source() {
        let error = Error::Denied { backend: StoreKind::Etcd, source: source("no right") };
        let clone = error.clone();
        assert_eq!(clone.source().map(ToString::to_string).as_deref(), Some("no right"));
        assert_eq!(clone.to_string(), error.to_string());
    }

    #[test]
    fn a_loss_is_an_error() {
        let lost = Lost { name: "a".into(), reason: LostReason::Evicted };
        assert_eq!(lost.to_string(), "the lock \"a\" was lost (an operator evicted it)");
        let error = Error::from(lost);
        let text = "the lock \"a\" was lost before it was unlocked (an operator evicted it)";
        assert_eq!(error.to_string(), text);
    }
}
