//! Optimistic concurrency: updates rows without locks, and checks their versions.
//!
//! A column `version` increases with every change. Read the row with its version, compute the new
//! values, and write them with the version in the condition. The first writer changes the row, and
//! the other writers' statements find no row. [`updated`] distinguishes the two cases by the number
//! of rows that the driver reports.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use distlock::optimistic::{NotUpdated, updated};
//! use rusqlite::{Connection, params};
//!
//! let database = Connection::open_in_memory()?;
//! database.execute_batch(
//!     "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, version INTEGER NOT NULL);
//!      INSERT INTO account VALUES (1, 100, 0)",
//! )?;
//! let write = "UPDATE account SET balance = ?1, version = version + 1 \
//!              WHERE id = ?2 AND version = ?3";
//! // Two writers have read the same version, and both want to withdraw 10.
//! let read = "SELECT balance, version FROM account WHERE id = 1";
//! let (balance, version) =
//!     database.query_row(read, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
//! let first = database.execute(write, params![balance - 10, 1, version])?;
//! let second = database.execute(write, params![balance - 10, 1, version])?;
//! assert_eq!(updated(first as u64), Ok(()));
//! assert_eq!(updated(second as u64), Err(NotUpdated::Overtaken)); // read the row and retry
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! With the placeholders of other databases, the statement is:
//!
//! ```sql
//! -- PostgreSQL
//! UPDATE account SET balance = $1, version = version + 1 WHERE id = $2 AND version = $3
//! -- MySQL
//! UPDATE account SET balance = ?, version = version + 1 WHERE id = ? AND version = ?
//! ```
//!
//! # Limits
//!
//! - **Every** statement that changes the row must increase the version. A change that does not
//!   increase the version goes unnoticed.
//! - The pattern is for one row, and for work that can be repeated. To change several rows, use one
//!   transaction, and roll back if another transaction has changed any of them first. Update the
//!   rows in the same order everywhere; otherwise, transactions can deadlock until the database
//!   aborts one of them.
//! - Of several writers that have read the same version, at most one succeeds. There is no queue,
//!   so a writer may never succeed. If many writers update one row, most of their work is wasted.
//!   In that case, use a lock: `SELECT … FOR UPDATE` or [`Mutex`](crate::Mutex).
//! - Side effects outside of the database, such as an email or a payment, also happen in attempts
//!   that are then overtaken.
//! - On PostgreSQL, MySQL and MariaDB, use `READ COMMITTED`. At a stricter isolation level, the
//!   statement may fail instead of reporting zero rows, for example with error 40001 on PostgreSQL
//!   or 1020 on MariaDB. In that case, roll back and read the row again.

/// Reports why a versioned update did not change exactly one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotUpdated {
    /// No row has that key and version.
    ///
    /// Another writer was first, or the row was deleted. Read the row again by its key alone. If
    /// the row still exists, start again from its new values.
    #[error("another writer has changed or deleted the row: read it again")]
    Overtaken,
    /// Several rows have that key and version, and all of them were changed.
    ///
    /// The key must be unique. Roll back or repair the rows, and add a unique index on the key.
    #[error("{rows} rows have this key, which must be unique: roll back")]
    #[non_exhaustive]
    NotUnique {
        /// The number of rows that were changed.
        rows: u64,
    },
}

/// Checks how many rows a versioned `UPDATE` or `DELETE` has changed.
///
/// The condition of the statement names a key and a version. Pass the number of rows that the
/// driver reports: the result of `execute` in `rusqlite` and `tokio_postgres`, `affected_rows` in
/// `mysql_async`, or `rows_affected` in sqlx.
///
/// MySQL reports the rows that were changed, not the rows that were found, unless the driver sets
/// `CLIENT_FOUND_ROWS`, as sqlx does. Both numbers are equal if the statement increases the
/// version, because it then changes every row that it finds.
///
/// If the connection is lost before the reply arrives, the outcome is unknown. The row's version
/// does not show the outcome, because another writer may have increased it. If you need to know the
/// outcome, write a random id into the row with each change, or keep a table of changes.
///
/// # Errors
///
/// [`NotUpdated::Overtaken`] if no row was changed, and [`NotUpdated::NotUnique`] if several rows
/// were changed.
///
/// # Examples
///
/// ```
/// use distlock::optimistic::{NotUpdated, updated};
///
/// assert_eq!(updated(1), Ok(()));
/// assert_eq!(updated(0), Err(NotUpdated::Overtaken));
/// assert!(matches!(updated(2), Err(NotUpdated::NotUnique { rows: 2, .. })));
/// ```
pub fn updated(rows: u64) -> Result<(), NotUpdated> {
    match rows {
        0 => Err(NotUpdated::Overtaken),
        1 => Ok(()),
        rows => Err(NotUpdated::NotUnique { rows }),
    }
}
