//! What an error of the server or the client crate means for its request.

use std::error::Error as _;

use tokio_postgres::{Error, error::SqlState};

use super::pool::PoolError;

use crate::{
    backend::{StoreError, certificates, sql::asking::Verdict},
    lost::LostReason,
};

/// The SQLSTATE that `distlock.require` raises.
const SESSION_ENDED: &str = "DL001";

/// The SQLSTATE that `distlock.adopt` raises.
pub(super) const OTHER_SERVER: &str = "DL002";

/// Why a connection is refused that other clients use, too.
pub(super) const POOLED: &str = "a pooler has lent the connection to other clients between two \
                                 transactions: add `?pooler=transaction` to the URL, use \
                                 session mode (pgbouncer: pool_mode = session), or connect to \
                                 the server itself";

/// Why a request has failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// An error on the session's own connection.
    Own(Error),
    /// An error on a connection of the user's pool.
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

    /// Returns `true` if the pool has lent a connection whose transaction admits no request.
    fn is_of_an_open_transaction(&self) -> bool {
        let states = [SqlState::ACTIVE_SQL_TRANSACTION, SqlState::IN_FAILED_SQL_TRANSACTION];
        matches!(self, Self::Pool(_)) && states.iter().any(|state| self.is(state))
    }

    fn words(&self, endpoint: &str) -> String {
        match self {
            Self::Own(error) => words(endpoint, error),
            Self::Pool(error) => format!("on a connection from the pool: {}", chain(error)),
        }
    }
}

/// Returns the error of a pool with its sources.
fn chain(error: &PoolError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text += &format!(": {error}");
        source = error.source();
    }
    text
}

/// Describes an error with its server and without its detail, which may contain a value.
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

/// Classifies the error of a sent request by what is known of it. The codes are those of
/// <https://www.postgresql.org/docs/17/errcodes-appendix.html>.
pub(super) fn triage(operation: &'static str, endpoint: &str, error: &Failure) -> Verdict {
    let reason = error.words(endpoint);
    // The server has sent no error: the connection has ended, or its data is malformed.
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
        // The session's row was removed in between, which the next attempt reports.
        SqlState::FOREIGN_KEY_VIOLATION,
    ]
    .iter()
    .any(|state| error.is(state))
    {
        return Verdict::Again(reason);
    }
    Verdict::Failed(match code.get(..2).unwrap_or_default() {
        // Wrong credentials or missing privileges.
        "28" => StoreError::Denied(reason.into()),
        _ if error.is(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::Denied(reason.into()),
        // The disk is full. Deletions still work.
        _ if error.is(&SqlState::DISK_FULL) => {
            StoreError::Fatal { operation, source: reason.into() }
        }
        _ if matches!(error, Failure::Own(_)) && is_of_a_pooler(code) => {
            StoreError::Denied(format!("{reason}: {POOLED}").into())
        }
        _ if error.is_of_an_open_transaction() => {
            let words = "the connection has an open transaction; end transactions before you \
                         return connections to the pool";
            StoreError::Fatal { operation, source: format!("{reason}: {words}").into() }
        }
        // Resources ran out, a lock was busy, or the server is read-only now. The transaction was
        // rolled back.
        "53" | "55" | "25" => StoreError::Unavailable(reason.into()),
        _ if code == OTHER_SERVER => StoreError::Unavailable(reason.into()),
        _ if error.is(&SqlState::QUERY_CANCELED) || error.is(&SqlState::CANNOT_CONNECT_NOW) => {
            StoreError::Unavailable(reason.into())
        }
        // The server shuts down, or an operator ends the connection. The commit may have been made,
        // and be waiting for a standby
        // (<https://www.postgresql.org/docs/17/warm-standby.html#SYNCHRONOUS-REPLICATION>).
        "57" | "08" | "58" | "XX" => StoreError::Unknown(reason.into()),
        // A server behind a proxy, such as a shard, has not confirmed the commit.
        _ if error.is(&SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN) => {
            StoreError::Unknown(reason.into())
        }
        _ => StoreError::Fatal { operation, source: reason.into() },
    })
}

/// Returns `true` if the server lacks a prepared statement of this connection, or has another with
/// the same name. In both cases it has executed nothing.
fn is_of_a_pooler(code: &str) -> bool {
    [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT]
        .iter()
        .any(|state| state.code() == code)
}

/// Classifies an error of a connection attempt. Nothing was sent yet.
pub(super) fn refused(endpoint: &str, error: &Error) -> StoreError {
    let reason = words(endpoint, error);
    match error.code() {
        Some(code) if code.code().starts_with("28") => StoreError::Denied(reason.into()),
        Some(code) if is_of_a_pooler(code.code()) => {
            StoreError::Denied(format!("{reason}: {POOLED}").into())
        }
        // The database is unknown, or the user may not use it.
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

/// Classifies an error of a pool that lent no connection. Nothing was sent.
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

/// Returns `true` if the server is read-only.
pub(super) fn is_read_only(error: &Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}

/// Returns `true` if the session's own connection leads to a server that it cannot continue with.
/// An error of the pool's connections says nothing about it.
pub(super) fn is_useless(failure: &Failure) -> bool {
    match failure {
        Failure::Own(error) => is_read_only(error) || failure.code() == Some(OTHER_SERVER),
        Failure::Pool(_) => false,
    }
}

/// Returns `true` if the pool leads to another server than the session's own connection.
pub(super) fn is_elsewhere(failure: &Failure) -> bool {
    matches!(failure, Failure::Pool(_)) && failure.code() == Some(OTHER_SERVER)
}

/// Returns `true` if another transaction has kept a lock for too long.
pub(super) fn is_locked(failure: &Failure) -> bool {
    failure.is(&SqlState::LOCK_NOT_AVAILABLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Through a pooler, the statements of other connections remain on the server's connection.
    #[test]
    fn foreign_prepared_statements_show_a_pooler() {
        assert!(is_of_a_pooler("26000") && is_of_a_pooler("42P05"));
        assert!(!is_of_a_pooler("42P01"));
    }

    #[test]
    fn sqlstate_decides_what_is_known_of_a_request() {
        let of = |code: &str| {
            let failure = Failure::Pool(PoolError::new("failed").with_sqlstate(code));
            match triage("testing", "h:1", &failure) {
                Verdict::Again(_) => "rolled back",
                Verdict::Failed(StoreError::Unavailable(_)) => "not applied",
                Verdict::Failed(StoreError::Unknown(_)) => "unknown",
                Verdict::Failed(StoreError::Denied(_)) => "denied",
                Verdict::Failed(StoreError::Fatal { .. }) => "fatal",
                Verdict::Failed(_) => "other",
            }
        };
        for (code, known) in [
            ("40001", "rolled back"),
            ("55P03", "rolled back"),
            ("40003", "unknown"),
            ("57P01", "unknown"),
            ("57014", "not applied"),
            ("25006", "not applied"),
            ("42501", "denied"),
            ("53100", "fatal"),
            (SESSION_ENDED, "other"),
        ] {
            assert_eq!(of(code), known, "{code}");
        }
    }
}
