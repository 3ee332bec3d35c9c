//! What a server's error means for its request.

use super::{driver::Refusal, message::Doubt, pool::PoolError, sent::ServerError};
use crate::backend::{StoreError, certificates, sql::asking::Verdict};

/// The server's error codes, of <https://mariadb.com/kb/en/mariadb-error-codes/> and
/// <https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html>.
mod code {
    /// The transaction or the statement was rolled back because of a conflict.
    pub(super) const AGAIN: [u16; 7] = [
        1020, // read data has changed since
        1062, // the same key at the same time
        1205, // lock wait timeout; on MariaDB also: `NOWAIT` found a lock
        1213, // deadlock
        1452, // the session's row has just been removed, which the next attempt reports
        3101, // a replication group has rolled the transaction back
        3572, // `NOWAIT` found a lock
    ];
    /// Wrong credentials, an account or a connection that the server does not admit, missing
    /// privileges, or an unknown database.
    pub(super) const DENIED: [u16; 18] = [
        1044, 1045, 1049, 1095, 1130, 1142, 1143, 1227, 1251, 1370, 1524, 1698, 1820, 1862, 3118,
        3159, 3955, 4151,
    ];
    /// The server, its engine, this schema or this transaction is read-only.
    pub(super) const READ_ONLY: [u16; 5] = [1290, 1792, 1836, 1874, 3989];
    /// The server shuts down or goes offline, an operator ends the connection or the statement, or
    /// the commit itself has failed.
    pub(super) const ENDED: [u16; 12] =
        [1053, 1077, 1078, 1079, 1080, 1180, 1317, 1927, 1989, 3032, 3100, 4031];
    /// The disk is full. Deletions still work.
    pub(super) const FULL: [u16; 3] = [1021, 1114, 3675];
    /// The server is outside the majority of its cluster (`WSREP has not yet prepared node for
    /// application use`).
    pub(super) const PARTED: u16 = 1047;
    /// Resources ran out, or the server timed out or was not ready. Nothing was done.
    pub(super) const SHORT: [u16; 11] =
        [1037, 1038, 1040, 1041, PARTED, 1203, 1206, 1226, 1969, 3024, 1129];
    /// The server's setup prevents the tables or the request: its storage engines, the format of
    /// their rows, the format of the binary log, or `max_allowed_packet`. The text contains no
    /// values.
    pub(super) const SETUP: [u16; 9] = [1005, 1071, 1118, 1153, 1215, 1286, 1665, 1709, 3161];
    /// The server lacks a syntax, a setting or a function, as TiDB and old versions do.
    pub(super) const UNSUPPORTED: [u16; 4] = [1064, 1193, 1235, 1305];
    /// `SET TRANSACTION` within a transaction.
    pub(super) const IN_TRANSACTION: u16 = 1568;
    /// No database is selected, the table is missing, or a subquery returned two rows: see
    /// `by_pool.rs`.
    pub(super) const ELSEWHERE: [u16; 4] = [1046, 1109, 1146, 1242];
}

/// Describes an error with its server, without the server's text where that repeats a part of the
/// statement.
pub(super) fn words(endpoint: &str, refused: &ServerError) -> String {
    let known = [
        &code::AGAIN[..],
        &code::DENIED,
        &code::READ_ONLY,
        &code::ENDED,
        &code::FULL,
        &code::SHORT,
        &code::SETUP,
    ];
    let (code, state) = (refused.code, &refused.state);
    match code {
        // The text contains the value.
        1062 => format!("{endpoint}: duplicate entry (1062)"),
        _ if code::READ_ONLY.contains(&code) => {
            let message = &refused.message;
            format!("{endpoint}: the server or transaction is read-only: {message} ({code})")
        }
        _ if known.iter().any(|known| known.contains(&code)) || code == 1146 => {
            format!("{endpoint}: {} ({code})", refused.message)
        }
        _ if code::UNSUPPORTED.contains(&code) => format!(
            "{endpoint}: the server does not support the request (error {code}): use MySQL 8.0.1, \
             MariaDB 10.6, or a later version"
        ),
        _ => format!("{endpoint}: error {code} ({state})"),
    }
}

/// Classifies the server's refusal by what is known of the request.
pub(super) fn triage(
    operation: &'static str,
    endpoint: &str,
    refused: &ServerError,
    doubt: Doubt,
) -> Verdict {
    let (code, words) = (refused.code, words(endpoint, refused));
    if code::AGAIN.contains(&code) || refused.state == "40001" {
        return Verdict::Again(words);
    }
    Verdict::Failed(match code {
        _ if code::DENIED.contains(&code) => StoreError::Denied(words.into()),
        _ if code::READ_ONLY.contains(&code) || code::SHORT.contains(&code) => {
            StoreError::Unavailable(words.into())
        }
        _ if doubt == Doubt::Done => StoreError::Unknown(words.into()),
        _ if code::ENDED.contains(&code) && doubt == Doubt::Ended => {
            StoreError::Unknown(words.into())
        }
        _ if code::ENDED.contains(&code) => StoreError::Unavailable(words.into()),
        _ => StoreError::Fatal { operation, source: words.into() },
    })
}

/// Classifies an error of a connection attempt. Nothing was sent yet.
pub(super) fn refused(endpoint: &str, refusal: &Refusal) -> StoreError {
    match refusal {
        Refusal::Server(refused)
            if code::DENIED.contains(&refused.code)
                || code::UNSUPPORTED.contains(&refused.code) =>
        {
            StoreError::Denied(words(endpoint, refused).into())
        }
        Refusal::Server(refused) => StoreError::Unavailable(words(endpoint, refused).into()),
        Refusal::Unable(reason) => StoreError::Denied(format!("{endpoint}: {reason}").into()),
        Refusal::Broken(error) => match certificates::explain(error) {
            Some(fault) => StoreError::Denied(format!("{endpoint}: {fault}").into()),
            None => StoreError::Unavailable(format!("{endpoint}: {error}").into()),
        },
    }
}

/// Returns `true` if the server is read-only, or has lost its cluster.
pub(super) fn is_useless(refused: &ServerError) -> bool {
    code::READ_ONLY.contains(&refused.code) || refused.code == code::PARTED
}

/// Classifies an error of a pool that lent no connection. Nothing was sent.
pub(super) fn pool_refused(error: &PoolError) -> StoreError {
    let words = format!("the pool lent no connection: {}", error.chain());
    match error.code() {
        Some(code) if code::DENIED.contains(&code) => StoreError::Denied(words.into()),
        _ if error.is_exhausted() => StoreError::Exhausted(words.into()),
        _ => StoreError::Unavailable(words.into()),
    }
}

/// Returns `true` if nothing was done because a transaction is open.
pub(super) fn is_in_transaction(refused: &ServerError) -> bool {
    refused.code == code::IN_TRANSACTION
}

pub(super) fn is_denied(refused: &ServerError) -> bool {
    code::DENIED.contains(&refused.code)
}

/// Returns `true` if the pool's connection leads to another server or database.
pub(super) fn is_elsewhere(refused: &ServerError) -> bool {
    code::ELSEWHERE.contains(&refused.code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, state: &str) -> ServerError {
        ServerError { code, state: state.into(), message: "s3cret".into() }
    }

    #[test]
    fn rolled_back_requests_are_retried() {
        let rolled_back = [(1213, "40001"), (1205, "HY000"), (1020, "HY000"), (3101, "HY000")];
        for (code, state) in rolled_back.into_iter().chain([(9999, "40001")]) {
            for doubt in [Doubt::Nothing, Doubt::Ended, Doubt::Done] {
                let verdict = triage("x", "h", &refused(code, state), doubt);
                assert!(matches!(verdict, Verdict::Again(_)), "{code}: {verdict:?}");
            }
        }
    }

    #[test]
    fn refused_commit_has_unknown_outcome() {
        let sort = |code, doubt| match triage("x", "h", &refused(code, "70100"), doubt) {
            Verdict::Failed(StoreError::Unknown(_)) => "unknown",
            Verdict::Failed(StoreError::Unavailable(_)) => "not done",
            Verdict::Failed(StoreError::Fatal { .. }) => "never",
            verdict => panic!("{verdict:?}"),
        };
        // Connections that end, and an unknown error.
        for (code, wanted) in [
            (1053, ["not done", "unknown", "unknown"]),
            (1317, ["not done", "unknown", "unknown"]),
            (1927, ["not done", "unknown", "unknown"]),
            (1, ["never", "never", "unknown"]),
        ] {
            let sorted = [Doubt::Nothing, Doubt::Ended, Doubt::Done].map(|doubt| sort(code, doubt));
            assert_eq!(sorted, wanted, "{code}");
        }
    }

    #[test]
    fn errors_of_the_setup_say_what_to_change() {
        let error = |code| {
            let message = "BINLOG_FORMAT = STATEMENT".into();
            super::refused("h", &Refusal::Server(ServerError { code, message, ..<_>::default() }))
        };
        for (code, is_denied, words) in [
            (1665, false, "BINLOG_FORMAT = STATEMENT"),
            (3159, true, "BINLOG_FORMAT = STATEMENT"),
            (1064, true, "use MySQL 8.0.1, MariaDB 10.6, or a later version"),
            (1305, true, "use MySQL 8.0.1, MariaDB 10.6, or a later version"),
            (1406, false, "error 1406"),
        ] {
            let error = error(code);
            assert_eq!(matches!(error, StoreError::Denied(_)), is_denied, "{error:?}");
            assert!(error.reason().contains(words), "{error:?}");
        }
    }

    #[test]
    fn statement_errors_hide_values() {
        for code in [1062, 1064, 1406] {
            let Verdict::Again(shown) = triage("x", "h", &refused(code, "40001"), Doubt::Nothing)
            else {
                panic!("{code}")
            };
            assert!(!shown.contains("s3cret"), "{shown}");
        }
    }
}
