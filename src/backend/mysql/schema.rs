//! The tables: how they are made, and which version of them this build knows.

use super::message::Message;
use crate::backend::{
    Result,
    sql::{outcome::Outcome, schema},
};

/// What makes the tables.
pub(crate) const DDL: &str = include_str!("schema.sql");

/// The version of the tables that this build knows. Another one is not touched.
const VERSION: i64 = 2;

/// The version that this build takes over.
pub(super) const FORMER: i64 = 1;

/// What version 1 lacks: a column of a table, and how it comes. The last one is what no client of
/// that version can do without.
pub(super) const COLUMNS: [(&str, &str, &str); 4] = [
    ("distlock_schema", "epoch", "ADD COLUMN epoch BIGINT NOT NULL DEFAULT 1"),
    ("distlock_schema", "tidied", "ADD COLUMN tidied VARBINARY(600) NOT NULL DEFAULT ''"),
    ("distlock_queues", "lowest", "ADD COLUMN lowest BIGINT NOT NULL DEFAULT 0"),
    ("distlock_sessions", "clock", "CHANGE COLUMN server clock VARBINARY(300) NOT NULL"),
];

/// What makes what is missing of the tables. Several clients may do so at once: each statement does
/// nothing if it was done, and the last one shows that all were.
pub(super) fn statements() -> Vec<String> {
    let text: String = DDL.lines().filter(|line| !line.starts_with("--")).collect();
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}

/// Asks for the version of the tables, once it is known that there are some, and for the server
/// that has written there last.
pub(super) fn version() -> Message {
    Message::plain(vec!["SELECT version, server FROM distlock_schema".to_owned()])
}

/// The version that the reply names.
pub(super) fn found(reply: &Outcome) -> Option<i64> {
    reply.first()?.number(0)
}

/// Which of its columns tells that.
pub(super) const SERVER: usize = 1;

/// Whether this build can work with the tables.
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

    /// What is changed of version 1 is as it is made.
    #[test]
    fn columns_are_those_of_new_tables() {
        for (_, column, change) in COLUMNS {
            let (_, definition) = change.rsplit_once(&format!("{column} ")).unwrap();
            assert!(DDL.contains(&format!("    {column} {definition}")), "{change}");
        }
    }
}
