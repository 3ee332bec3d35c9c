//! What an error of the server or the client crate means for the request that met it.

use std::error::Error as _;

use tokio_postgres::{Error, error::SqlState};

use super::pool::PoolError;

use crate::{
    backend::{StoreError, certificates, sql::asking::Verdict},
    lost::LostReason,
};

/// What `distlock.require` raises.
const SESSION_ENDED: &str = "DL001";

/// What `distlock.adopt` raises.
pub(super) const OTHER_SERVER: &str = "DL002";

/// Why a request has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// On the session's own connection.
    Own(Error),
    /// On a connection of the user's pool.
    Pool(PoolError),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Own(error)
    }
}

impl Failure {
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Own(error) => error.code().map(SqlState::code),
            Self::Pool(error) => error.sqlstate(),
        }
    }

    fn is(&self, state: &SqlState) -> bool {
        self.code() == Some(state.code())
    }

    fn words(&self, endpoint: &str) -> String {
        match self {
            Self::Own(error) => words(endpoint, error),
            Self::Pool(error) => format!("on a connection of the pool: {}", chain(error)),
        }
    }
}

/// The error of a pool with those behind it.
fn chain(error: &PoolError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

/// The error in words, with the server that it came from, and without what it is about: a value may
/// be in a detail.
pub(super) fn words(endpoint: &str, error: &Error) -> String {
    if let Some(refusal) = error.as_db_error() {
        return format!("{endpoint}: {} ({})", refusal.message(), refusal.code().code());
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
pub(super) fn triage(operation: &'static str, endpoint: &str, error: &Failure) -> Verdict {
    let reason = error.words(endpoint);
    // Not the server's word: the connection has ended, or makes no sense.
    let Some(code) = error.code() else {
        return Verdict::Failed(StoreError::Unknown(reason.into()));
    };
    if code == SESSION_ENDED {
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
    .iter()
    .any(|state| error.is(state))
    {
        return Verdict::Again(reason);
    }
    Verdict::Failed(match code.get(..2).unwrap_or_default() {
        // Who one is, and what one may.
        "28" => StoreError::Denied(reason.into()),
        _ if error.is(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::Denied(reason.into()),
        // Full: what frees room is let through.
        _ if error.is(&SqlState::DISK_FULL) => {
            StoreError::Fatal { operation, source: reason.into() }
        }
        // Too little of something, too late, or not to be written to any more: the transaction was
        // undone.
        "53" | "55" | "25" => StoreError::Unavailable(reason.into()),
        _ if code == OTHER_SERVER => StoreError::Unavailable(reason.into()),
        _ if error.is(&SqlState::QUERY_CANCELED) || error.is(&SqlState::CANNOT_CONNECT_NOW) => {
            StoreError::Unavailable(reason.into())
        }
        // The server goes down, or an operator ends the connection: perhaps while the commit, which
        // is made, waits for a standby
        // (<https://www.postgresql.org/docs/17/warm-standby.html#SYNCHRONOUS-REPLICATION>).
        "57" | "08" | "58" | "XX" => StoreError::Unknown(reason.into()),
        _ => StoreError::Fatal { operation, source: reason.into() },
    })
}

/// The same while a connection is made: nothing was asked yet.
pub(super) fn refused(endpoint: &str, error: &Error) -> StoreError {
    let reason = words(endpoint, error);
    match error.code() {
        Some(code) if code.code().starts_with("28") => StoreError::Denied(reason.into()),
        // The database, or the right to use it.
        Some(code)
            if *code == SqlState::INVALID_CATALOG_NAME
                || *code == SqlState::INSUFFICIENT_PRIVILEGE =>
        {
            StoreError::Denied(reason.into())
        }
        None if certificates::explain(error).is_some() => StoreError::Denied(reason.into()),
        _ => StoreError::Unavailable(reason.into()),
    }
}

/// The pool lent no connection, so that nothing was sent.
pub(super) fn pool_refused(error: &PoolError) -> StoreError {
    let words = format!("the pool lent no connection: {}", chain(error));
    let denied = [SqlState::INVALID_CATALOG_NAME, SqlState::INSUFFICIENT_PRIVILEGE];
    match error.sqlstate() {
        Some(code) if code.starts_with("28") || denied.iter().any(|state| state.code() == code) => {
            StoreError::Denied(words.into())
        }
        _ if error.is_exhausted() => StoreError::Exhausted(words.into()),
        _ => StoreError::Unavailable(words.into()),
    }
}

/// A server that answers questions alone.
pub(super) fn is_read_only(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// The session's own connection leads to a server that it cannot go on with. What the pool's
/// connections lead to says nothing of that one.
pub(super) fn is_useless(failure: &Failure) -> bool {
    match failure {
        Failure::Own(error) => is_read_only(error) || failure.code() == Some(OTHER_SERVER),
        Failure::Pool(_) => false,
    }
}

/// The pool leads to another server than the session's own connection.
pub(super) fn is_elsewhere(failure: &Failure) -> bool {
    matches!(failure, Failure::Pool(_)) && failure.code() == Some(OTHER_SERVER)
}

/// A transaction has something locked, and was waited for long enough.
pub(super) fn is_locked(failure: &Failure) -> bool {
    failure.is(&SqlState::LOCK_NOT_AVAILABLE)
}
