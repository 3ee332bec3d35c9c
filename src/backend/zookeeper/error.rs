//! Maps the crate's errors to [`StoreError`].

use zookeeper_client::Error;

use crate::{backend::StoreError, lost::LostReason};

/// Codes of `KeeperException` that the crate does not name. Codes above `API_ERROR` are failures of
/// the server or of the connection to it.
const UNKNOWN_SESSION: i32 = -12;
const API_ERROR: i32 = -100;
const REQUEST_TIMEOUT: i32 = -122;

/// Distinguishes definite replies from errors that leave the outcome open. `over` returns why the
/// session has ended, if it has.
pub(super) fn judge(
    operation: &'static str,
    error: Error,
    over: impl FnOnce() -> LostReason,
) -> StoreError {
    match error {
        // After a failed authentication the crate's client is as dead as after an expiry. A new
        // session reports the reason to the user.
        Error::SessionExpired
        | Error::ClientClosed
        | Error::AuthFailed
        | Error::UnexpectedErrorCode(UNKNOWN_SESSION) => StoreError::SessionGone(over()),
        Error::NoAuth => StoreError::Denied(error.into()),
        Error::NotReadOnly | Error::Throttled => StoreError::Unavailable(error.into()),
        // Pending requests fail with `Custom` when a server becomes silent, and with
        // `ConnectionLoss` when it closes the connection.
        Error::ConnectionLoss
        | Error::Custom(_)
        | Error::UnexpectedError(_)
        | Error::UnmarshalError { .. }
        | Error::Timeout
        | Error::NoHosts
        | Error::SessionMoved => StoreError::Unknown(error.into()),
        Error::UnexpectedErrorCode(code) if code > API_ERROR || code == REQUEST_TIMEOUT => {
            StoreError::Unknown(error.into())
        }
        error => StoreError::Fatal { operation, source: error.into() },
    }
}
