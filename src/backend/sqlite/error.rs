//! Maps errors of SQLite to errors of a request.

use rusqlite::{Error, ErrorCode};

use crate::backend::StoreError;

/// The reason why a request failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// SQLite returned an error.
    Sql(Error),
    /// The content of the tables rules the request out.
    Store(StoreError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns `true` if another connection is writing to the file, or repairing it.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Maps the error of a request whose transaction was certainly rolled back.
pub(super) fn undone(operation: &'static str, error: &Error) -> StoreError {
    let source = || error.to_string().into();
    match error.sqlite_error_code() {
        // The user lacks a right.
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::AuthorizationForStatementDenied,
        ) => StoreError::Denied(source()),
        // The cause is another process or the machine, and may pass.
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::OutOfMemory
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SchemaChanged,
        ) => StoreError::Unavailable(source()),
        // This includes a full disk: requests that free space are let through.
        _ => StoreError::Fatal { operation, source: source() },
    }
}

/// Maps the error of a COMMIT. A commit that could not be written completely was rolled back. If it
/// could not be flushed, a recovery of the file may still find it committed.
pub(super) fn in_commit(operation: &'static str, error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => undone(operation, error),
        _ => StoreError::Unknown(error.to_string().into()),
    }
}
