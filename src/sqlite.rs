//! Tables and transaction checks for locks in an SQLite file.

use std::path::Path;

#[cfg(feature = "rusqlite-0_42")]
use rusqlite::{Error, ToSql, Transaction, params_from_iter};

#[doc(hidden)] // for the tests of this repository
pub use crate::backend::sqlite::requests::Requests;
use crate::backend::sqlite::{open_file, schema::DDL};
#[cfg(feature = "rusqlite-0_42")]
use crate::primitives::{
    guard::LockGuard,
    sql_check::{self, CheckError, SqlDialect, SqlParameter},
    sql_release::SqlRelease,
};

/// Checks in a transaction that the lock is held.
///
/// After a successful check, no client is granted the lock in the holder's place before the
/// transaction ends. This function runs [`LockGuard::sql`] with this crate's own driver, `rusqlite`
/// (feature `rusqlite-0_42`). Call it before any other statement of a transaction that began with
/// `BEGIN IMMEDIATE`, on the file that stores the lock.
///
/// All connections that a process opens to a file must use the same copy of the SQLite library: two
/// copies release each other's file locks.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the query failed. Roll back after every
/// error: otherwise, the transaction may write without the lock.
///
/// # Examples
///
/// ```
/// use rusqlite::{Connection, TransactionBehavior::Immediate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = std::env::temp_dir().join(format!("distlock-docs-{}.db", std::process::id()));
/// let client = distlock::Client::connect(format!("sqlite://{}", file.display())).await?;
/// let guard = client.mutex("a").lock().await?;
/// let mut database = Connection::open(&file)?;
/// # let accounts = "CREATE TABLE account (id, balance); INSERT INTO account VALUES (1, 9)";
/// # database.execute_batch(accounts)?;
///
/// let transaction = database.transaction_with_behavior(Immediate)?;
/// distlock::sqlite::check(&guard, &transaction)?; // an error rolls back
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", [])?;
/// transaction.commit()?; // commits while the lock is held
/// guard.unlock().await?;
/// # client.close().await?;
/// # drop(database);
/// # for end in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{end}", file.display()));
/// # }
/// # Ok(()) }
/// ```
#[cfg(feature = "rusqlite-0_42")]
pub fn check(guard: &LockGuard, transaction: &Transaction<'_>) -> Result<(), CheckError<Error>> {
    let check = sql_check::of(guard, SqlDialect::Sqlite)?;
    let parameters = parameters(check.parameters());
    let held = transaction.prepare(check.text()).and_then(|mut sql| sql.exists(parameters));
    sql_check::confirmed(guard, held)
}

/// Releases the lock as the last statement of a transaction.
///
/// This function runs the statement of [`LockGuard::unlock_sql`] with this crate's own driver,
/// `rusqlite` (feature `rusqlite-0_42`). Keep `release` until the transaction has ended.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the statement failed. Roll back after
/// every error.
///
/// # Examples
///
/// ```
/// use rusqlite::{Connection, TransactionBehavior::Immediate};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let file = std::env::temp_dir().join(format!("distlock-docs-un-{}.db", std::process::id()));
/// let client = distlock::Client::connect(format!("sqlite://{}", file.display())).await?;
/// let guard = client.mutex("a").lock().await?;
/// let mut database = Connection::open(&file)?;
/// # let accounts = "CREATE TABLE account (id, balance); INSERT INTO account VALUES (1, 9)";
/// # database.execute_batch(accounts)?;
///
/// let transaction = database.transaction_with_behavior(Immediate)?;
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", [])?;
/// let release = guard.unlock_sql()?;
/// distlock::sqlite::unlock(&release, &transaction)?; // an error rolls back
/// transaction.commit()?; // the commit releases the lock
/// release.committed();
/// # assert!(client.mutex("a").try_lock().await?.is_some());
/// # client.close().await?;
/// # drop(database);
/// # for end in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{end}", file.display()));
/// # }
/// # Ok(()) }
/// ```
#[cfg(feature = "rusqlite-0_42")]
pub fn unlock(
    release: &SqlRelease,
    transaction: &Transaction<'_>,
) -> Result<(), CheckError<Error>> {
    let release = release.of(SqlDialect::Sqlite)?;
    let changed = transaction.execute(release.text(), parameters(release.parameters()));
    release.confirmed(changed.map(|changed| changed as u64))
}

#[cfg(feature = "rusqlite-0_42")]
fn parameters(parameters: &[SqlParameter]) -> impl rusqlite::Params {
    params_from_iter(parameters.iter().map(|parameter| match parameter {
        SqlParameter::Text(text) => text as &dyn ToSql,
        SqlParameter::Integer(number) => number,
    }))
}

/// Returns the SQL that creates distlock's tables, which are named `distlock_…`.
///
/// A client creates the tables when it first uses a file. Outside of these tables, it changes only
/// the file's journal mode, which it sets to [WAL](https://sqlite.org/wal.html).
///
/// # Examples
///
/// ```
/// println!("{}", distlock::sqlite::schema());
/// ```
#[must_use]
pub fn schema() -> &'static str {
    DDL
}

/// Returns the requests that all clients of this process have sent to a file.
///
/// Counting starts when the file is opened. SQLite has no server that could report the requests.
/// Returns `None` if no client has the file open.
///
/// # Examples
///
/// ```no_run
/// let asked = distlock::sqlite::requests("/run/app/locks.db").unwrap_or_default();
/// println!("{} writes in {} commits", asked.writes + asked.keepalives, asked.commits);
/// ```
#[must_use]
#[doc(hidden)] // for the tests of this repository
pub fn requests(file: impl AsRef<Path>) -> Option<Requests> {
    open_file::requests(file.as_ref())
}
