//! What the crate's errors mean for us.

use zookeeper_client::Error;

use crate::{backend::StoreError, lost::LostReason};

/// Codes of `KeeperException` that the crate has no name for. Those above `API_ERROR` are troubles
/// of the server or of the way to it.
const UNKNOWN_SESSION: i32 = -12;
const API_ERROR: i32 = -100;
const REQUEST_TIMEOUT: i32 = -122;

/// Tells a definite answer from one that leaves it open what the server did. `over` says why the
/// session is over if it is.
pub(super) fn judge(
    operation: &'static str,
    error: Error,
    over: impl FnOnce() -> LostReason,
) -> StoreError {
    match error {
        // After a failed authentication the crate's client is as dead as after an expiry. A new
        // session will tell the user.
        Error::SessionExpired
        | Error::ClientClosed
        | Error::AuthFailed
        | Error::UnexpectedErrorCode(UNKNOWN_SESSION) => StoreError::SessionGone(over()),
        Error::NoAuth => StoreError::Denied(error.into()),
        Error::NotReadOnly | Error::Throttled => StoreError::Unavailable(error.into()),
        // `Custom` is what requests under way get when a server falls silent, `ConnectionLoss` when
        // it hangs up.
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
