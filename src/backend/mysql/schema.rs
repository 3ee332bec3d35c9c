//! The tables: how they are made, and which version of them this build knows.

use super::message::Message;
use crate::backend::{
    Result,
    sql::{outcome::Outcome, schema},
};

/// What makes the tables.
pub(crate) const DDL: &str = include_str!("schema.sql");

/// The version of the tables that this build knows. Another one is not touched.
const VERSION: i64 = 1;

/// Makes what is missing of the tables. Several clients may do so at once: each statement does
/// nothing if it was done, and the last one shows that all were.
pub(super) fn make() -> Message {
    let text: String = DDL.lines().filter(|line| !line.starts_with("--")).collect();
    let statements = text.split(';').map(str::trim).filter(|statement| !statement.is_empty());
    Message::plain(statements.map(str::to_owned).collect())
}

/// Asks for the version of the tables, once it is known that there are some, and for the server
/// that has written there last.
pub(super) fn version() -> Message {
    Message::plain(vec!["SELECT version, server FROM distlock_schema".to_owned()])
}

/// Which of its columns tells that.
pub(super) const SERVER: usize = 1;

/// Whether this build can work with the tables.
pub(super) fn check(told: Option<&Outcome>) -> Result<()> {
    schema::check("`distlock_…`", VERSION, told)
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

    #[test]
    fn the_row_with_the_version_comes_last() {
        let batch = make().batch(1, None, false);
        assert_eq!(batch.own, 6);
        assert!(batch.text.ends_with(&format!("VALUES (1, {VERSION}, 0)")));
    }
}
