//! A row that several change, and no lock: each change names the version that it has read.
//!
//! A column `version` goes up with every change. Read the row with its version, compute, and write
//! with the version in the condition: the first one has changed it, and the others' statements
//! find no row. [`updated`] tells the two apart by the number of rows that the driver reports.
//! Nothing here asks a lock service, and any database and driver will do.
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
//! // Two have read the same version, and both want to take 10 away.
//! let read = "SELECT balance, version FROM account WHERE id = 1";
//! let (balance, version) =
//!     database.query_row(read, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
//! let first = database.execute(write, params![balance - 10, 1, version])?;
//! let second = database.execute(write, params![balance - 10, 1, version])?;
//! assert_eq!(updated(first as u64), Ok(()));
//! assert_eq!(updated(second as u64), Err(NotUpdated::Overtaken)); // read again, and try again
//! # Ok(()) }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! The same with the marks of other databases:
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
//! - **Every** statement that changes the row has to raise the version. One that does not is not
//!   noticed by anybody.
//! - It is for one row, and for work that can be done again. Several rows are changed together in
//!   one transaction: roll back if any of them was overtaken, and take them in one order, or two
//!   wait for each other until the database ends one of them.
//! - Of those who have read the same version one succeeds. Nobody waits, and nobody is promised a
//!   turn: with many writers of one row most of the work is done in vain. Then lock, by
//!   `SELECT … FOR UPDATE` or by [`Mutex`](crate::Mutex).
//! - What is done outside of the database meanwhile (a mail, a payment) is done by those, too, that
//!   are overtaken.
//! - Run it in `READ COMMITTED`. In a stricter isolation PostgreSQL and MariaDB may report an error
//!   (40001; 1020) instead of no rows: it means the same.

/// Why a row was not updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotUpdated {
    /// No row has that key and that version any more: somebody else was first, or the row is gone.
    /// Read it again by its key alone: with a row, begin anew with what it has; without one, it was
    /// deleted.
    #[error("somebody else has changed the row, or it is gone: read it again")]
    Overtaken,
    /// More than one row has that key: it is none. All of them were changed: roll back, or mend
    /// them, and put a unique index on the key.
    #[error("{rows} rows have this key: roll back, it has to be unique")]
    #[non_exhaustive]
    NotUnique {
        /// How many were changed.
        rows: u64,
    },
}

/// Tells what has become of an `UPDATE` (or `DELETE`) whose condition names a key and a version, by
/// the number of rows that it has changed, as each driver reports it: `execute` of `rusqlite` and
/// `tokio_postgres`, `affected_rows` of `mysql_async`, `rows_affected` of sqlx.
///
/// MySQL reports rows that were changed, not those that were found, unless the driver asks for the
/// latter (`CLIENT_FOUND_ROWS`, as sqlx does). That makes no difference as long as the statement
/// raises the version: what is found is changed.
///
/// After a lost connection there is no number, and it is not known whether the row was changed. Its
/// version alone does not tell: another one may have raised it. Where that matters, let each change
/// write a random id into the row, or keep a table of the changes that were made.
///
/// # Errors
///
/// [`NotUpdated::Overtaken`] with no rows, [`NotUpdated::NotUnique`] with more than one.
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
