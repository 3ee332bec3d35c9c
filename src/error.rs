//! Errors, sorted by what the caller can do about them.

use std::{error::Error as StdError, sync::Arc};

use crate::{
    lost::{Lost, LostReason},
    store_kind::StoreKind,
};

/// The `Result` of this crate's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync + 'static>;

/// The cause of an error, shared by its clones.
pub(crate) type Source = Arc<dyn StdError + Send + Sync + 'static>;

pub(crate) fn source(of: impl Into<BoxError>) -> Source {
    Arc::from(of.into())
}

/// Reports why an operation failed.
///
/// A lock that is held and a timeout that expires are not errors:
/// [`try_lock`](crate::Mutex::try_lock) and [`lock_timeout`](crate::Mutex::lock_timeout) return
/// `Ok(None)`. The message of an error never repeats its [`source`](std::error::Error::source):
/// print the whole chain.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL cannot be used. No request was sent.
    #[error("invalid URL {url:?}: {reason}")]
    #[non_exhaustive]
    InvalidUrl {
        /// The URL, without anything that may be a password.
        url: String,
        /// What is wrong and what to write instead.
        reason: String,
    },
    /// Support for the store that the URL names is not compiled in.
    #[error("{scheme}:// needs the feature `{feature}`: add it to distlock in Cargo.toml")]
    #[non_exhaustive]
    FeatureDisabled {
        /// The store's first scheme: `redis` for a URL with `rediss://`.
        scheme: &'static str,
        /// The cargo feature to enable.
        feature: &'static str,
    },
    /// An argument or an option of the builder is invalid.
    ///
    /// The check precedes all requests, with one exception. Only the store knows whether
    /// [`set_permits`](crate::Semaphore::set_permits) has changed the number of permits. A request
    /// for more permits than the semaphore has fails once the client has read the queue, and
    /// nothing is acquired.
    #[error("invalid {argument}: {reason}")]
    #[non_exhaustive]
    InvalidArgument {
        /// The argument, such as `name`, `permits` or `key`, or the option of the builder.
        argument: &'static str,
        /// What is wrong and what to pass instead.
        reason: String,
    },
    /// The store does not support this operation. No request was sent.
    #[error("{backend} does not support {operation}")]
    #[non_exhaustive]
    Unsupported {
        /// The store.
        backend: StoreKind,
        /// The operation.
        operation: &'static str,
    },
    /// The store rejected the user, the password or the certificate, or denied access.
    ///
    /// This error can also mean that the client rejected the server, for example because of the
    /// server's certificate or a pooler. Retrying does not help.
    #[error("{backend} refused access")]
    #[non_exhaustive]
    Denied {
        /// The store.
        backend: StoreKind,
        /// The store's own message, or what the client rejected.
        #[source]
        source: Source,
    },
    /// No usable server replied in time, or the program's own pool lent no connection.
    ///
    /// No lock was acquired; try again later.
    ///
    /// A request may nevertheless have reached the server. If it created a key in a queue, the
    /// client deletes that key in the background.
    #[error("{backend} is unavailable to this client")]
    #[non_exhaustive]
    Unavailable {
        /// The store.
        backend: StoreKind,
        /// The cause of the last failure, which usually names the endpoint.
        #[source]
        source: Source,
    },
    /// It is not yet known whether the lock is free. No lock was acquired; try again later.
    ///
    /// There are two reasons. First, the session ahead has expired by the server's clock, but this
    /// client has not watched that clock for long enough. Second, the server may lack earlier
    /// grants. Calls that wait for a holder do not fail for these reasons. Calls that do not wait
    /// for a holder return this error after about 1.15 TTL: see
    /// [`try_lock`](crate::Mutex::try_lock).
    ///
    /// On Redis, there is a third reason: a client of an earlier version of distlock has a session
    /// on the server. Calls that open the client's first session can fail for this reason.
    #[error("it is not yet known whether the {backend} lock is free; no lock was acquired")]
    #[non_exhaustive]
    NotYet {
        /// The store.
        backend: StoreKind,
        /// What has to happen first.
        #[source]
        source: Source,
    },
    /// The session ended during the call. A waiter has lost its place in the queue.
    ///
    /// Locking again opens a new session.
    #[error("the {backend} session ended during the call ({reason})")]
    #[non_exhaustive]
    SessionLost {
        /// The store.
        backend: StoreKind,
        /// Why the session ended.
        reason: LostReason,
    },
    /// An operator evicted this waiter. Lock again to rejoin the queue at its end.
    #[error("an operator evicted the waiter from the queue of {name:?}")]
    #[non_exhaustive]
    Evicted {
        /// The lock's name.
        name: String,
    },
    /// The lock was lost before it was unlocked.
    ///
    /// Another client may have held the lock since. Check the work that was done under it. Calls on
    /// a handle also return this error after the guard has released the lock.
    #[error("{}", lost_text(.name, .reason))]
    #[non_exhaustive]
    Lost {
        /// The lock's name.
        name: String,
        /// Why the lock was lost.
        reason: LostReason,
    },
    /// The store did not confirm the release in time.
    ///
    /// The client retries the release in the background until it is confirmed, the session has
    /// ended, or the client's runtime is shut down. On Redlock, the client retries for at most 1.5
    /// TTL.
    #[error(
        "the release of {name:?} is not confirmed yet; the client retries it in the background \
         while its runtime is running"
    )]
    #[non_exhaustive]
    ReleaseUnconfirmed {
        /// The lock's name.
        name: String,
        /// The cause of the last failure.
        #[source]
        source: Source,
    },
    /// The outcome of a write under the lock is unknown.
    ///
    /// The store's reply was lost, for example because the session or the client's runtime ended
    /// during the call. On Redis, the user may also lack a right to a part of the write. The write
    /// may have been applied, or may still be applied while the lock is held. The client does not
    /// send it again.
    #[error("the write under {name:?} is not confirmed: it may or may not have been applied")]
    #[non_exhaustive]
    WriteUnconfirmed {
        /// The lock's name.
        name: String,
        /// The cause of the failure.
        #[source]
        source: Source,
    },
    /// The client was closed, or is shutting down. Connect again.
    #[error("the client is closed or shutting down")]
    Closed,
    /// The client has no runtime. Connect again.
    ///
    /// The library's background threads could not be started, the program's runtime on which the
    /// client runs was shut down (see [`Builder::runtime`](crate::Builder::runtime)), or the client
    /// was created before this process was forked. Another cause is a metrics recorder or a tracing
    /// subscriber that panicked while a session was being opened.
    #[error("the client has no usable runtime")]
    #[non_exhaustive]
    Runtime {
        /// The operating system's error, or what happened to the runtime.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The store refused a request, or is unfit for locks. Another cause is a connection of the
    /// program's pool that is lent with an open transaction.
    #[error("{backend} failed while {operation}")]
    #[non_exhaustive]
    Backend {
        /// The store.
        backend: StoreKind,
        /// The operation that failed.
        operation: &'static str,
        /// The store's own message.
        #[source]
        source: Source,
    },
}

/// Returns the text of [`Error::Lost`]. A handle reports a release with the same error.
fn lost_text(name: &str, reason: &LostReason) -> String {
    let what = match reason {
        LostReason::Released => "is no longer held",
        _ => "was lost before it was unlocked",
    };
    format!("the lock {name:?} {what} ({reason})")
}

/// Lets functions that return this crate's errors use `guard.run(…).await?`.
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

    /// Returns `true` if the same call may succeed later.
    ///
    /// Neither the program nor its configuration has to change first.
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
        let why = "the holder was evicted: its key was deleted or overwritten";
        assert_eq!(lost.to_string(), format!("the lock \"a\" was lost ({why})"));
        let error = Error::from(lost);
        let text = format!("the lock \"a\" was lost before it was unlocked ({why})");
        assert_eq!(error.to_string(), text);
        let reason = LostReason::Released;
        let text = format!("the lock \"a\" is no longer held ({reason})");
        assert_eq!(Error::Lost { name: "a".into(), reason }.to_string(), text);
    }
}
