//! The creation of the tables, and the version of them that this build knows.

use super::message::Message;
use crate::backend::{
    Result,
    sql::{outcome::Outcome, schema},
};

/// The statements that create the tables.
pub(crate) const DDL: &str = include_str!("schema.sql");

/// The version of the tables that this build knows. It changes no other version, except to migrate
/// [`FORMER`].
const VERSION: i64 = 2;

/// The version that this build migrates.
pub(super) const FORMER: i64 = 1;

/// What version 1 lacks: the table, the column, and the change that adds it. The last change locks
/// out all clients of version 1.
pub(super) const COLUMNS: [(&str, &str, &str); 4] = [
    ("distlock_schema", "epoch", "ADD COLUMN epoch BIGINT NOT NULL DEFAULT 1"),
    ("distlock_schema", "tidied", "ADD COLUMN tidied VARBINARY(600) NOT NULL DEFAULT ''"),
    ("distlock_queues", "lowest", "ADD COLUMN lowest BIGINT NOT NULL DEFAULT 0"),
    ("distlock_sessions", "clock", "CHANGE COLUMN server clock VARBINARY(300) NOT NULL"),
];

/// Returns the statements that create missing tables. Several clients may run them at once: each
/// statement is idempotent, and the last one shows that all were applied.
pub(super) fn statements() -> Vec<String> {
    let text: String = DDL.lines().filter(|line| !line.starts_with("--")).collect();
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}

/// Reads the version of existing tables, and the server that last wrote there.
pub(super) fn version() -> Message {
    Message::plain(vec!["SELECT version, server FROM distlock_schema".to_owned()])
}

/// Returns the version in the reply.
pub(super) fn found(reply: &Outcome) -> Option<i64> {
    reply.first()?.number(0)
}

/// The column with that server.
pub(super) const SERVER: usize = 1;

/// Fails unless this build can use the tables.
pub(super) fn check(reply: Option<&Outcome>) -> Result<()> {
    schema::check("`distlock_…`", VERSION, reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_versions_are_refused_by_name() {
        let reply = |version: &str| Outcome::of_one(&[version]);
        check(Some(&reply("2"))).unwrap();
        for (outcome, found) in [
            (Some(reply("1")), "version 1"),
            (Some(reply("3")), "version 3"),
            (None, "version unknown"),
        ] {
            let error = check(outcome.as_ref()).unwrap_err();
            assert!(error.reason().contains(found), "{}", error.reason());
        }
    }

    #[test]
    fn the_row_with_the_version_comes_last() {
        let statements = statements();
        assert_eq!(statements.len(), 7);
        assert!(statements[6].ends_with(&format!("VALUES (1, {VERSION}, 0)")));
    }

    /// The migrated columns are the same as new ones.
    #[test]
    fn columns_are_those_of_new_tables() {
        for (_, column, change) in COLUMNS {
            let (_, definition) = change.rsplit_once(&format!("{column} ")).unwrap();
            assert!(DDL.contains(&format!("    {column} {definition}")), "{change}");
        }
    }
}
