//! Tables, transaction checks and connection pools for locks on PostgreSQL.

#[cfg(feature = "tokio-postgres-0_7")]
use tokio_postgres::{Error, Transaction, types::ToSql};

pub use crate::backend::postgres::pool::{
    Pool, PoolConnection, PoolError, PoolFuture, StatementResult,
};
use crate::backend::postgres::schema::DDL;
#[cfg(feature = "tokio-postgres-0_7")]
use crate::primitives::{
    guard::LockGuard,
    sql_check::{self, CheckError, SqlDialect, SqlParameter},
    sql_release::SqlRelease,
};

/// Checks in a transaction that the lock is held.
///
/// After a successful check, no client is granted the lock in the holder's place before the
/// transaction ends. This function runs [`LockGuard::sql`] with this crate's own driver,
/// `tokio_postgres` (feature `tokio-postgres-0_7`). Call it before any other statement of the
/// transaction, in the database that stores the lock.
///
/// Call it outside of savepoints. `ROLLBACK TO SAVEPOINT` releases the row locks that were taken
/// after the savepoint, and the transaction then no longer keeps the lock held.
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
/// # async fn example(database: &mut tokio_postgres::Client)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("postgres://app:secret@127.0.0.1/app").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let transaction = database.transaction().await?;
/// distlock::postgres::check(&guard, &transaction).await?; // an error rolls back
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", &[]).await?;
/// transaction.commit().await?; // commits while the lock is held
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[cfg(feature = "tokio-postgres-0_7")]
pub async fn check(
    guard: &LockGuard,
    transaction: &Transaction<'_>,
) -> Result<(), CheckError<Error>> {
    let check = sql_check::of(guard, SqlDialect::Postgres)?;
    let row = transaction.query_opt(check.text(), &parameters(check.parameters())).await;
    sql_check::confirmed(guard, row.map(|row| row.is_some()))
}

/// Releases the lock as the last statement of a transaction.
///
/// This function runs the statement of [`LockGuard::unlock_sql`] with this crate's own driver,
/// `tokio_postgres` (feature `tokio-postgres-0_7`). Keep `release` until the transaction has ended.
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
/// # async fn example(database: &mut tokio_postgres::Client)
/// # -> Result<(), Box<dyn std::error::Error>> {
/// let client = distlock::Client::connect("postgres://app:secret@127.0.0.1/app").await?;
/// let guard = client.mutex("a").lock().await?;
///
/// let transaction = database.transaction().await?;
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", &[]).await?;
/// let release = guard.unlock_sql()?;
/// distlock::postgres::unlock(&release, &transaction).await?; // an error rolls back
/// transaction.commit().await?; // the commit releases the lock
/// release.committed();
/// # Ok(()) }
/// ```
#[cfg(feature = "tokio-postgres-0_7")]
pub async fn unlock(
    release: &SqlRelease,
    transaction: &Transaction<'_>,
) -> Result<(), CheckError<Error>> {
    let release = release.of(SqlDialect::Postgres)?;
    let row = transaction.query_opt(release.text(), &parameters(release.parameters())).await;
    release.confirmed(row.map(|row| u64::from(row.is_some())))
}

#[cfg(feature = "tokio-postgres-0_7")]
fn parameters(parameters: &[SqlParameter]) -> Vec<&(dyn ToSql + Sync)> {
    let parameters = parameters.iter().map(|parameter| match parameter {
        SqlParameter::Text(text) => text as &(dyn ToSql + Sync),
        SqlParameter::Integer(number) => number,
    });
    parameters.collect()
}

/// Returns the SQL that creates distlock's tables in the schema `distlock`.
///
/// The SQL has no effect if tables of any version other than 1 exist.
///
/// A client creates the tables when it opens its first session, if its user has the right to do so.
/// Otherwise, run this SQL as a user with that right, and then grant access to the client's user:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app;
/// GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distlock TO app;
/// GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA distlock TO app;
/// ```
///
/// A role that only [checks](crate::LockGuard::sql) locks in its transactions has to lock rows.
/// PostgreSQL permits this only with the right to update at least one column of each table:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO checker;
/// GRANT EXECUTE ON FUNCTION distlock.held(text, bigint) TO checker;
/// GRANT SELECT, UPDATE (ttl) ON distlock.sessions TO checker;
/// GRANT SELECT, UPDATE (since) ON distlock.queues, distlock.entries TO checker;
/// ```
///
/// A role that only [releases](crate::LockGuard::unlock_sql) locks in its transactions needs these
/// rights, which include the right to notify the next waiter:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO writer;
/// GRANT EXECUTE ON FUNCTION distlock.unlock(text, bigint), distlock.notify(text, bigint, text)
///     TO writer;
/// GRANT SELECT ON distlock.sessions TO writer;
/// GRANT SELECT, UPDATE (session, crowded) ON distlock.queues TO writer;
/// GRANT SELECT, DELETE ON distlock.entries, distlock.watches TO writer;
/// ```
///
/// **Tables of version 1**, created by builds before 2026-11-27, are upgraded by this SQL or by the
/// first client whose user owns them. After the upgrade, all requests of clients of version 1 fail,
/// and no lock is granted for 1.1 times the longest TTL of their sessions. Then grant the rights
/// again.
///
/// # Examples
///
/// ```
/// println!("{}", distlock::postgres::schema());
/// ```
#[must_use]
pub fn schema() -> &'static str {
    DDL
}
