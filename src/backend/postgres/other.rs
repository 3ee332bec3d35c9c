//! Databases that speak PostgreSQL's protocol but cannot store distlock's locks.

use crate::backend::StoreError;

/// Returns the name of such a database, by the parameters that it sends at login
/// (<https://github.com/cockroachdb/cockroach/pull/14145>).
pub(super) fn name<'a>(parameter: impl Fn(&str) -> Option<&'a str>) -> Option<&'static str> {
    let version = parameter("server_version").unwrap_or_default();
    if parameter("crdb_version").is_some() {
        Some("CockroachDB")
    } else if version.contains("-YB-") {
        Some("YugabyteDB")
    } else {
        None
    }
}

/// Returns the error for such a server. Without the position, a server that was set back goes
/// unnoticed.
pub(super) fn unfit(endpoint: &str, name: &str) -> StoreError {
    let reason = format!(
        "{endpoint}: {name} speaks PostgreSQL's protocol, but does not report the position (LSN) \
         of a write-ahead log, which distlock needs: use PostgreSQL, or another store"
    );
    StoreError::Fatal { operation: "connecting", source: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postgresql_lookalikes_are_recognized() {
        let of = |parameters: &'static [(&str, &str)]| {
            name(|name| parameters.iter().find(|(known, _)| *known == name).map(|(_, text)| *text))
        };
        assert_eq!(of(&[("crdb_version", "CockroachDB CCL v25.2.1")]), Some("CockroachDB"));
        assert_eq!(of(&[("server_version", "15.12-YB-2025.1.0.0-b0")]), Some("YugabyteDB"));
        assert_eq!(of(&[("server_version", "17.6 (Debian 17.6-0+deb13u1)")]), None);
        assert_eq!(of(&[]), None);
        let error = unfit("h:1", "CockroachDB");
        assert!(matches!(error, StoreError::Fatal { .. }), "{error:?}");
        assert!(error.reason().starts_with("h:1: CockroachDB speaks"), "{}", error.reason());
    }
}
