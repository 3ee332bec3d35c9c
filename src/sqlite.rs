//! For those who look after a file of locks, or write to it themselves: the tables that the locks
//! are kept in, and the condition that a transaction of their own needs.

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

/// Asks a transaction whether the lock is held, and keeps it held until that transaction ends:
/// [`LockGuard::sql`] with this crate's own driver, `rusqlite` (feature `rusqlite-0_42`). Ask
/// before anything else, on the file that the lock is in, in a transaction that was begun by `BEGIN
/// IMMEDIATE`.
///
/// All connections to a file have to open it by the same SQLite library: two of them in one process
/// undo each other's locks.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store of another kind, [`CheckError::Database`] if there was no answer. Roll back in any case:
/// after an error the transaction may write without the lock.
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
/// distlock::sqlite::check(&guard, &transaction)?; // or it is rolled back
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", [])?;
/// transaction.commit()?; // while the lock is held
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

/// Releases the lock as the last statement of a transaction: [`LockGuard::unlock_sql`] with this
/// crate's own driver, `rusqlite` (feature `rusqlite-0_42`). Keep the value until the transaction
/// has ended.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store of another kind, [`CheckError::Database`] if there was no answer. Roll back in any case.
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
/// distlock::sqlite::unlock(&release, &transaction)?; // or it is rolled back
/// transaction.commit()?; // with it the lock is released
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

/// The SQL that makes distlock's tables, whose names begin with `distlock_`.
///
/// A client makes them at its first use of a file. Nothing else in the file is touched but its
/// journal, which becomes a [WAL](https://sqlite.org/wal.html).
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

/// What all clients of this process have asked of a file since it was opened: there is no server to
/// tell that. `None`: none of them has it open.
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
