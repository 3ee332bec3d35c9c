//! Maps errors of the server and the client crate to errors of a request.

use redis::RedisError;

use crate::backend::{
    StoreError, certificates,
    resp::{is_denied, is_denied_in_script},
};

/// Returns the text of an error, with the server that it came from.
pub(super) fn words(endpoint: &str, error: &RedisError) -> String {
    match certificates::explain(error) {
        Some(fault) => format!("{endpoint}: {fault}"),
        None => format!("{endpoint}: {error}"),
    }
}

/// Maps the code at the beginning of a server's error.
fn sorted(code: &str, text: &str) -> Option<StoreError> {
    Some(match code {
        // Authentication and permissions.
        "NOPERM" | "WRONGPASS" | "NOAUTH" => StoreError::Denied(text.into()),
        // Another server, or not now: the server has run nothing.
        "READONLY" | "LOADING" | "MASTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN"
        | "MISCONF" | "NOREPLICAS" | "BUSY" | "UNBLOCKED" => StoreError::Unavailable(text.into()),
        _ => return None,
    })
}

/// Maps the error of a request that was sent.
pub(super) fn triage(operation: &'static str, endpoint: &str, error: &RedisError) -> StoreError {
    let text = words(endpoint, error);
    // The error is not the server's: the connection has ended, or the reply is malformed.
    let Some(code) = error.code() else { return StoreError::Unknown(text.into()) };
    match sorted(code, &text) {
        Some(error) => error,
        // An operator can kill only scripts that have not written.
        None if text.contains("Script killed by user") => StoreError::Unavailable(text.into()),
        // Redis does not undo what a script wrote before it failed.
        None if is_denied_in_script(&text) => StoreError::PartlyDenied(text.into()),
        None if text.contains("user_script") => StoreError::Unknown(text.into()),
        // This includes `OOM` of a full server: requests that free memory are let through.
        None => StoreError::Fatal { operation, source: text.into() },
    }
}

/// Maps an error that occurs while a connection is made or a session is opened. A script that was
/// run in part is no problem: the session holds no lock.
pub(super) fn refused(endpoint: &str, error: &RedisError) -> StoreError {
    let text = words(endpoint, error);
    match error.code() {
        _ if is_denied(error) => StoreError::Denied(text.into()),
        _ if text.contains("max number of clients") => StoreError::Unavailable(text.into()),
        // This is the client crate's text.
        _ if text.contains("switch database") => StoreError::Denied(text.into()),
        // This includes a full server, as a session needs memory, and a server that cannot run the
        // scripts.
        Some(code) => sorted(code, &text).unwrap_or_else(|| StoreError::Fatal {
            operation: super::server::CONNECTING,
            source: text.into(),
        }),
        None if certificates::explain(error).is_some() => StoreError::Denied(text.into()),
        None => StoreError::Unavailable(text.into()),
    }
}

/// Maps the error of a wait until replicas or the disk have a new session. Any error except a
/// missing right may be temporary: the server may just have become a replica.
pub(super) fn unkept(endpoint: &str, error: &RedisError) -> StoreError {
    let text = words(endpoint, error);
    match is_denied(error) {
        true => StoreError::Denied(text.into()),
        false => StoreError::Unavailable(text.into()),
    }
}

/// Returns `true` if the server requires authentication.
pub(super) fn wants_password(error: &StoreError) -> bool {
    matches!(error, StoreError::Denied(_)) && error.reason().contains("NOAUTH")
}

/// Returns `true` if this server cannot run scripts now, or not on these keys. A primary without
/// replicas may have been replaced by one of them (`min-replicas-to-write`).
pub(super) fn is_useless(error: &RedisError) -> bool {
    matches!(
        error.code(),
        Some(
            "READONLY"
                | "LOADING"
                | "MASTERDOWN"
                | "MOVED"
                | "ASK"
                | "TRYAGAIN"
                | "CLUSTERDOWN"
                | "NOREPLICAS"
        )
    )
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    const MISSING_RIGHT: &str = "ERR ACL failure in script: User app has no permissions to run the \
                                 'zadd' command script: ab12, on @user_script:7.";

    fn replied(text: &str) -> RedisError {
        let reply = parse_redis_value(format!("-{text}\r\n").as_bytes());
        reply.and_then(Value::extract_error).unwrap_err()
    }

    fn kind(error: &StoreError) -> &'static str {
        match error {
            StoreError::Fatal { .. } => "final",
            StoreError::Unavailable(_) => "again",
            StoreError::Denied(_) => "denied",
            StoreError::PartlyDenied(_) => "partly denied",
            StoreError::Unknown(_) => "unknown",
            _ => "another",
        }
    }

    #[test]
    fn refusals_are_classified_as_retryable_or_final() {
        let cases = [
            ("ERR max number of clients reached", "again"),
            ("LOADING Redis is loading the dataset in memory", "again"),
            ("NOPERM No permissions to access a key", "denied"),
            (MISSING_RIGHT, "denied"),
            ("ERR Error compiling script (new function): user_script:1: '=' expected", "final"),
            ("ERR unknown command 'EVALSHA', with args beginning with:", "final"),
            ("OOM command not allowed when used memory > 'maxmemory'", "final"),
        ];
        for (reply, expected) in cases {
            let error = refused("h:1", &replied(reply));
            assert_eq!(kind(&error), expected, "{error:?}");
            assert!(error.reason().starts_with("h:1: "), "{error:?}");
        }
    }

    /// A script may have written something before it failed.
    #[test]
    fn failed_scripts_leave_doubt() {
        for (reply, expected) in [
            ("NOPERM User app has no permissions to run the 'evalsha' command", "denied"),
            (MISSING_RIGHT, "partly denied"),
            ("ERR attempt to index a nil value script: ab12, on @user_script:7.", "unknown"),
            ("OOM command not allowed when used memory > 'maxmemory'", "final"),
        ] {
            let error = triage("testing", "h:1", &replied(reply));
            assert_eq!(kind(&error), expected, "{error:?}");
            assert!(error.reason().starts_with("h:1: "), "{error:?}");
        }
        assert!(triage("testing", "h:1", &replied(MISSING_RIGHT)).reason().contains("'zadd'"));
    }

    #[test]
    fn servers_that_may_have_been_replaced_are_left() {
        for (reply, expected) in [
            ("READONLY You can't write against a read only replica.", true),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("BUSY Redis is busy running a script.", false),
            ("OOM command not allowed when used memory > 'maxmemory'.", false),
        ] {
            assert_eq!(is_useless(&replied(reply)), expected, "{reply}");
        }
    }

    #[test]
    fn missing_right_to_wait_is_final() {
        for (reply, expected) in [
            ("NOPERM User app has no permissions to run the 'wait' command", "denied"),
            ("ERR WAIT cannot be used with replica instances.", "again"),
        ] {
            assert_eq!(kind(&unkept("h:1", &replied(reply))), expected);
        }
    }
}
