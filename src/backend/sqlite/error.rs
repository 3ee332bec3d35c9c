//! What an error of SQLite's means for the request that met it.

use rusqlite::{Error, ErrorCode};

use crate::backend::StoreError;

/// Why a request did not do what it was asked for.
#[derive(Debug)]
pub(super) enum Failure {
    /// SQLite says so.
    Sql(Error),
    /// So say the tables.
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

/// Somebody else writes, or repairs the file, at this moment.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The error of a request whose transaction was undone, for certain.
pub(super) fn undone(operation: &'static str, error: &Error) -> StoreError {
    let source = || error.to_string().into();
    match error.sqlite_error_code() {
        // What the user may not.
        Some(
            ErrorCode::PermissionDenied
            | ErrorCode::ReadOnly
            | ErrorCode::AuthorizationForStatementDenied,
        ) => StoreError::Denied(source()),
        // Somebody else's doing, or the machine's: it may pass.
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
        // A full disk among them: what frees room is let through.
        _ => StoreError::Fatal { operation, source: source() },
    }
}

/// The error of a COMMIT. What could not be written whole was undone; of what could not be brought
/// to the disk, a recovery of the file may yet find that it was committed.
pub(super) fn in_commit(operation: &'static str, error: &Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => undone(operation, error),
        _ => StoreError::Unknown(error.to_string().into()),
    }
}
