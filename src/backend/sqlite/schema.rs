//! The tables: their creation, and the version that this build knows.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::error::Failure;
use crate::backend::StoreError;

/// The statements that create the tables.
pub(crate) const DDL: &str = concat!(include_str!("schema.sql"), include_str!("block.sql"));

/// The statement for a table that was added later. Earlier builds can work with it, so the version
/// is the same.
const BLOCK: &str = include_str!("block.sql");

/// The version of the tables that this build knows. Tables of other versions are not modified.
pub(super) const VERSION: i64 = 1;

/// Checks a guard by the entry's number, the session and the time. An entry whose session has
/// expired fails the check, even if the lock was not granted again.
pub(crate) const HELD: &str = "SELECT 1 FROM distlock_entries AS e \
     JOIN distlock_sessions AS s ON s.id = e.session \
     WHERE e.number = ?1 AND e.session = ?2 AND s.expires > ?3";

/// Deletes a guard's entry in a user's transaction, by entry number and session.
pub(crate) const UNLOCK: &str = "DELETE FROM distlock_entries WHERE number = ?1 AND session = ?2";

/// Creates the tables if there are none, and rejects tables of another version. Two clients that do
/// this at the same time run one after the other.
pub(super) fn make(connection: &mut Connection) -> Result<(), Failure> {
    if let Some(version) = version(connection)? {
        check(version)?;
        if is_made(connection, "distlock_block")? {
            return Ok(());
        }
    }
    let making = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match version(&making)? {
        Some(version) => {
            check(version)?;
            making.execute_batch(BLOCK)?;
        }
        None => making.execute_batch(DDL)?,
    }
    making.commit().map_err(Into::into)
}

fn is_made(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection.prepare("SELECT 1 FROM sqlite_master WHERE name = ?1")?.exists([table])
}

/// Returns `None` if there are no tables.
fn version(connection: &Connection) -> Result<Option<i64>, Failure> {
    if !is_made(connection, "distlock_meta")? {
        return Ok(None);
    }
    let version = connection.query_row("SELECT version FROM distlock_meta", [], |row| row.get(0));
    Ok(Some(version.optional()?.unwrap_or(0)))
}

pub(super) fn check(version: i64) -> Result<(), Failure> {
    if version == VERSION {
        return Ok(());
    }
    Err(other_version(&format!("version {version}")).into())
}

/// Returns the error for tables that this build must not modify.
pub(super) fn other_version(version: &str) -> StoreError {
    let source = format!(
        "the tables `distlock_…` in this file have {version}, but this build of distlock supports \
         version {VERSION}: use a build that supports the tables, or another file"
    );
    StoreError::Fatal { operation: "checking the tables", source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_without_a_block_get_one() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(include_str!("schema.sql")).unwrap();
        connection.execute("UPDATE distlock_meta SET number = 7", []).unwrap();
        for _ in 0..2 {
            make(&mut connection).unwrap();
            assert!(is_made(&connection, "distlock_block").unwrap());
        }
        let number = connection.query_row("SELECT number FROM distlock_meta", [], |row| row.get(0));
        assert_eq!(number, Ok(7));
    }

    #[test]
    fn other_versions_are_refused_by_name() {
        let mut connection = Connection::open_in_memory().unwrap();
        for _ in 0..2 {
            make(&mut connection).unwrap();
        }
        connection.execute("UPDATE distlock_meta SET version = 2", []).unwrap();
        let Err(Failure::Store(error)) = make(&mut connection) else { panic!("it was taken") };
        assert!(error.reason().contains("version 2"), "{}", error.reason());
        connection.execute("DELETE FROM distlock_meta", []).unwrap();
        assert!(make(&mut connection).is_err());
    }
}
