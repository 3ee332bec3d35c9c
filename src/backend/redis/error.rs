//! What an error of the server or the client crate means for the request that met it.

use redis::{ErrorKind, RedisError};

use crate::backend::{StoreError, certificates};

/// The error in words, with the server that it came from.
pub(super) fn words(endpoint: &str, error: &RedisError) -> String {
    match certificates::explain(error) {
        Some(fault) => format!("{endpoint}: {fault}"),
        None => format!("{endpoint}: {error}"),
    }
}

/// What each word of the server's means, which its errors begin with.
fn sorted(code: &str, told: &str) -> Option<StoreError> {
    Some(match code {
        // Who one is, and what one may.
        "NOPERM" | "WRONGPASS" | "NOAUTH" => StoreError::Denied(told.into()),
        // Not this server, or not now: nothing was run.
        "READONLY" | "LOADING" | "MASTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN"
        | "MISCONF" | "NOREPLICAS" | "BUSY" | "UNBLOCKED" => StoreError::Unavailable(told.into()),
        _ => return None,
    })
}

/// Sorts the error of a request that was sent, by what is known of it.
pub(super) fn triage(operation: &'static str, endpoint: &str, error: &RedisError) -> StoreError {
    let told = words(endpoint, error);
    // Not the server's word: the connection has ended, or makes no sense.
    let Some(code) = error.code() else { return StoreError::Unknown(told.into()) };
    match sorted(code, &told) {
        Some(error) => error,
        // An operator ends those that have not written.
        None if told.contains("Script killed by user") => StoreError::Unavailable(told.into()),
        // What a script has written before it failed is not undone.
        None if told.contains("user_script") => StoreError::Unknown(told.into()),
        // A full server's among them: what frees room is let through.
        None => StoreError::Fatal { operation, source: told.into() },
    }
}

/// The same while a connection is made: nothing was asked yet.
pub(super) fn refused(endpoint: &str, error: &RedisError) -> StoreError {
    let told = words(endpoint, error);
    let unknown = |what: &str| told.contains("unknown command") && told.contains(what);
    match error.code() {
        _ if error.kind() == ErrorKind::AuthenticationFailed => StoreError::Denied(told.into()),
        _ if unknown("HELLO") => StoreError::Fatal {
            operation: super::server::CONNECTING,
            source: format!("{endpoint} is older than Redis 7").into(),
        },
        _ if told.contains("max number of clients") => StoreError::Unavailable(told.into()),
        // By the client crate's words.
        _ if told.contains("switch database") => StoreError::Denied(told.into()),
        // A full server among them, as a session needs room; and one that does not run the scripts.
        Some(code) => sorted(code, &told).unwrap_or_else(|| StoreError::Fatal {
            operation: super::server::CONNECTING,
            source: told.into(),
        }),
        None if certificates::explain(error).is_some() => StoreError::Denied(told.into()),
        None => StoreError::Unavailable(told.into()),
    }
}

/// Who asks is to say who it is.
pub(super) fn wants_password(error: &StoreError) -> bool {
    matches!(error, StoreError::Denied(_)) && error.reason().contains("NOAUTH")
}

/// A server that answers questions alone, or not for these keys.
pub(super) fn is_useless(error: &RedisError) -> bool {
    matches!(
        error.code(),
        Some("READONLY" | "LOADING" | "MASTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN")
    )
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    fn refusal(reply: &str) -> StoreError {
        let reply = parse_redis_value(format!("-{reply}\r\n").as_bytes());
        refused("h:1", &reply.and_then(Value::extract_error).unwrap_err())
    }

    #[test]
    fn refusals_say_whether_another_attempt_makes_sense() {
        let kind = |error: &StoreError| match error {
            StoreError::Fatal { .. } => "final",
            StoreError::Unavailable(_) => "again",
            StoreError::Denied(_) => "denied",
            _ => "another",
        };
        let cases = [
            ("ERR max number of clients reached", "again"),
            ("LOADING Redis is loading the dataset in memory", "again"),
            ("NOPERM No permissions to access a key", "denied"),
            ("ERR Error compiling script (new function): user_script:1: '=' expected", "final"),
            ("ERR unknown command 'EVALSHA', with args beginning with:", "final"),
            ("OOM command not allowed when used memory > 'maxmemory'", "final"),
        ];
        for (reply, expected) in cases {
            let error = refusal(reply);
            assert_eq!(kind(&error), expected, "{error:?}");
            assert!(error.reason().starts_with("h:1: "), "{error:?}");
        }
    }
}
