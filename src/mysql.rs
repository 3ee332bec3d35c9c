//! Tables, transaction checks and connection pools for locks on MySQL and MariaDB.

#[cfg(feature = "mysql_async-0_37")]
use mysql_async::{Error, Transaction, prelude::Queryable};

pub use crate::backend::mysql::pool::{
    Pool, PoolConnection, PoolError, PoolFuture, StatementResult,
};
use crate::backend::mysql::schema::DDL;
#[cfg(feature = "mysql_async-0_37")]
use crate::primitives::{
    guard::LockGuard,
    sql_check::{self, CheckError, SqlDialect},
    sql_release::SqlRelease,
};

/// Checks in a transaction that the lock is held.
///
/// After a successful check, no client is granted the lock in the holder's place before the
/// transaction ends. This function runs [`LockGuard::sql`] with this crate's own driver,
/// `mysql_async` (feature `mysql_async-0_37`). Call it before any other statement of the
/// transaction, in the database that stores the lock. On a Galera cluster, this check is not
/// sufficient: see [`LockGuard::sql`].
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the query failed. Roll back after every
/// error: otherwise, the transaction may write without the lock.
///
/// # Cancel safety
///
/// If the future is dropped, the query may or may not have run. Drop the transaction, too.
///
/// # Examples
///
/// ```no_run
/// use mysql_async::{Conn, TxOpts, prelude::Queryable};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "mysql://app:secret@127.0.0.1/app";
/// let mut database = Conn::from_url(url).await?;
/// let guard = distlock::Client::connect(url).await?.mutex("a").lock().await?;
///
/// let mut transaction = database.start_transaction(TxOpts::default()).await?;
/// distlock::mysql::check(&guard, &mut transaction).await?; // an error rolls back
/// transaction.query_drop("UPDATE account SET balance = balance - 10 WHERE id = 1").await?;
/// transaction.commit().await?; // commits while the lock is held
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[cfg(feature = "mysql_async-0_37")]
pub async fn check(
    guard: &LockGuard,
    transaction: &mut Transaction<'_>,
) -> Result<(), CheckError<Error>> {
    let check = sql_check::of(guard, SqlDialect::Mysql)?;
    let row = transaction.query_first::<u8, _>(check.text()).await;
    sql_check::confirmed(guard, row.map(|row| row.is_some()))
}

/// Releases the lock as the last statement of a transaction.
///
/// This function runs the statement of [`LockGuard::unlock_sql`] with this crate's own driver,
/// `mysql_async` (feature `mysql_async-0_37`). Keep `release` until the transaction has ended.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is no longer held. [`CheckError::OtherStore`] if the lock is
/// in another kind of store. [`CheckError::Database`] if the statement failed. Roll back after
/// every error.
///
/// # Cancel safety
///
/// If the future is dropped, the statement may or may not have run. Drop the transaction, too.
///
/// # Examples
///
/// ```no_run
/// use mysql_async::{Conn, TxOpts, prelude::Queryable};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "mysql://app:secret@127.0.0.1/app";
/// let mut database = Conn::from_url(url).await?;
/// let guard = distlock::Client::connect(url).await?.mutex("a").lock().await?;
///
/// let mut transaction = database.start_transaction(TxOpts::default()).await?;
/// transaction.query_drop("UPDATE account SET balance = balance - 10 WHERE id = 1").await?;
/// let release = guard.unlock_sql()?;
/// distlock::mysql::unlock(&release, &mut transaction).await?; // an error rolls back
/// transaction.commit().await?; // the commit releases the lock
/// release.committed();
/// # Ok(()) }
/// ```
#[cfg(feature = "mysql_async-0_37")]
pub async fn unlock(
    release: &SqlRelease,
    transaction: &mut Transaction<'_>,
) -> Result<(), CheckError<Error>> {
    let release = release.of(SqlDialect::Mysql)?;
    let ran = transaction.query_drop(release.text()).await;
    release.confirmed(ran.map(|()| transaction.affected_rows()))
}

/// Returns the SQL that creates distlock's tables.
///
/// The SQL consists of several statements, which create the tables in the current database. The
/// tables' names begin with `distlock_`.
///
/// A client creates the tables when it opens its first session, if its user has the right to do so.
/// Otherwise, run this SQL as a user with that right, and then grant access to the client's user:
///
/// ```sql
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_sessions TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_alone TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_queues TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_entries TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_data TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_schema TO app;
/// ```
///
/// A user that only [releases](crate::LockGuard::unlock_sql) locks in its transactions needs
/// `SELECT` and `UPDATE` on `distlock_alone`, and `SELECT` and `DELETE` on `distlock_entries`.
///
/// Tables of version 1 are upgraded by the first client of this version whose user may `CREATE`
/// tables and `ALTER` these tables. After the upgrade, clients of version 1 are refused, and no
/// lock is granted for 1.1 times the longest TTL of their sessions.
///
/// # Examples
///
/// ```
/// println!("{}", distlock::mysql::schema());
/// ```
#[must_use]
pub fn schema() -> &'static str {
    DDL
}
