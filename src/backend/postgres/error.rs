//! What an error of the server or the client crate means for the request that met it.

use std::error::Error as _;

use tokio_postgres::{Error, error::SqlState};

use crate::{
    backend::{StoreError, certificates, sql::asking::Verdict},
    lost::LostReason,
};

/// What `distlock.require` raises.
const SESSION_ENDED: &str = "DL001";

/// What `distlock.adopt` raises.
const OTHER_SERVER: &str = "DL002";

/// The error in words, with the server that it came from, and without what it is about: a value may
/// be in a detail.
pub(super) fn words(endpoint: &str, error: &Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!("{endpoint}: {} ({})", told.message(), told.code().code());
    }
    if let Some(fault) = certificates::explain(error) {
        return format!("{endpoint}: {fault}");
    }
    match error.source() {
        Some(source) => format!("{endpoint}: {error}: {source}"),
        None => format!("{endpoint}: {error}"),
    }
}

/// Sorts the error of a request that was sent, by what is known of it. The codes are those of
/// <https://www.postgresql.org/docs/17/errcodes-appendix.html>.
pub(super) fn triage(operation: &'static str, endpoint: &str, error: &Error) -> Verdict {
    let told = words(endpoint, error);
    // Not the server's word: the connection has ended, or makes no sense.
    let Some(code) = error.code() else { return Verdict::Failed(StoreError::Unknown(told.into())) };
    if code.code() == SESSION_ENDED {
        return Verdict::Failed(StoreError::SessionGone(LostReason::SessionExpired));
    }
    if [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::UNIQUE_VIOLATION,
        // Of the session's row: it was put away in between, which the next attempt is told.
        SqlState::FOREIGN_KEY_VIOLATION,
    ]
    .contains(code)
    {
        return Verdict::Again(told);
    }
    Verdict::Failed(match &code.code()[..2] {
        // Who one is, and what one may.
        "28" => StoreError::Denied(told.into()),
        _ if *code == SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Denied(told.into()),
        // Full: what frees room is let through.
        _ if *code == SqlState::DISK_FULL => StoreError::Fatal { operation, source: told.into() },
        // Too little of something, too late, or not to be written to any more: the transaction was
        // undone.
        "53" | "55" | "25" => StoreError::Unavailable(told.into()),
        _ if code.code() == OTHER_SERVER => StoreError::Unavailable(told.into()),
        _ if *code == SqlState::QUERY_CANCELED || *code == SqlState::CANNOT_CONNECT_NOW => {
            StoreError::Unavailable(told.into())
        }
        // The server goes down, or an operator ends the connection: perhaps while the commit, which
        // is made, waits for a standby
        // (<https://www.postgresql.org/docs/17/warm-standby.html#SYNCHRONOUS-REPLICATION>).
        "57" | "08" | "58" | "XX" => StoreError::Unknown(told.into()),
        _ => StoreError::Fatal { operation, source: told.into() },
    })
}

/// The same while a connection is made: nothing was asked yet.
pub(super) fn refused(endpoint: &str, error: &Error) -> StoreError {
    let told = words(endpoint, error);
    match error.code() {
        Some(code) if code.code().starts_with("28") => StoreError::Denied(told.into()),
        // The database, or the right to use it.
        Some(code)
            if *code == SqlState::INVALID_CATALOG_NAME
                || *code == SqlState::INSUFFICIENT_PRIVILEGE =>
        {
            StoreError::Denied(told.into())
        }
        None if certificates::explain(error).is_some() => StoreError::Denied(told.into()),
        _ => StoreError::Unavailable(told.into()),
    }
}

/// A server that answers questions alone.
pub(super) fn is_read_only(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// The connection leads to a server that the session cannot go on with.
pub(super) fn is_useless(error: &Error) -> bool {
    is_read_only(error) || error.code().is_some_and(|code| code.code() == OTHER_SERVER)
}

/// A transaction has something locked, and was waited for long enough.
pub(super) fn is_locked(error: &Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}
