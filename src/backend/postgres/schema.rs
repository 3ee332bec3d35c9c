//! The tables: how they are made, and which version of them this build knows.

use crate::backend::{
    error::{Result, StoreError},
    sql::outcome::Outcome,
};

/// What makes the tables.
pub(crate) const DDL: &str = include_str!("schema.sql");

/// The version of the tables that this build knows. Another one is not touched.
const VERSION: i64 = 1;

/// A guard's entry and session, which stay until the end of the transaction that asks. The session
/// comes first, as for those who put it away. One that is over by the server's clock does not do,
/// though nobody else has the lock yet.
pub(crate) const HELD: &str = "SELECT 1 FROM distlock.sessions AS s \
     JOIN distlock.entries AS e ON e.session = s.id \
     WHERE e.queue = $1 AND e.number = $2 AND s.expires > now() FOR KEY SHARE";

const OPERATION: &str = "making the tables";

/// Makes the tables if there are none, and tells which version there is.
///
/// One client makes them while the others wait: two at once would fail at each other's names.
pub(super) fn make() -> String {
    format!(
        "SET LOCAL lock_timeout = 0;\n\
         SELECT pg_advisory_xact_lock(7234316409434);\n\
         DO $distlock$ BEGIN IF to_regclass('distlock.schema') IS NULL THEN\n\
         {DDL}\nEND IF; END $distlock$;\n{}",
        version()
    )
}

/// Asks for the version of the tables, once it is known that there are some.
pub(super) fn version() -> String {
    "SELECT version FROM distlock.schema".to_owned()
}

/// Whether this build can work with the tables.
pub(super) fn check(told: Option<&Outcome>) -> Result<()> {
    match told.and_then(|outcome| outcome.first()?.number(0)) {
        Some(VERSION) => Ok(()),
        other => {
            let found = other.map_or("unknown".to_owned(), |version| version.to_string());
            let reason = format!(
                "the tables in the schema `distlock` are of version {found}, and this build of \
                 distlock knows version {VERSION}: use a build that knows those, or another \
                 database"
            );
            Err(StoreError::Fatal { operation: OPERATION, source: reason.into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_refused_by_name() {
        let told = |version: &str| Outcome::of_one(&[version]);
        check(Some(&told("1"))).unwrap();
        for (outcome, found) in [(Some(told("2")), "version 2"), (None, "version unknown")] {
            let error = check(outcome.as_ref()).unwrap_err();
            assert!(error.reason().contains(found), "{}", error.reason());
        }
    }

    /// The dollars that quote the whole are not those that quote a part of it.
    #[test]
    fn the_tables_can_be_made_in_one_statement() {
        assert!(!DDL.contains("$distlock$"));
        assert!(DDL.contains(&format!("VALUES ({VERSION}, 0)")));
    }
}
