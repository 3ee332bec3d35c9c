//! For those who look after a PostgreSQL server, or write to it themselves: the tables that the
//! locks are kept in, and the condition that a transaction of their own needs.

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

/// Asks a transaction whether the lock is held, and keeps it held until that transaction ends:
/// [`LockGuard::sql`] with this crate's own driver, `tokio_postgres` (feature
/// `tokio-postgres-0_7`). Ask before anything else, and in the database that the lock is in. Run
/// the check outside of savepoints: `ROLLBACK TO SAVEPOINT` releases the row locks that were taken
/// after the savepoint, and the transaction then no longer keeps the lock held.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store of another kind, [`CheckError::Database`] if there was no answer. Roll back in any case:
/// after an error the transaction may write without the lock.
///
/// # Cancel safety
///
/// Dropped, it has asked or not: drop the transaction, too.
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
/// distlock::postgres::check(&guard, &transaction).await?; // or it is rolled back
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", &[]).await?;
/// transaction.commit().await?; // while the lock is held
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

/// Releases the lock as the last statement of a transaction: [`LockGuard::unlock_sql`] with this
/// crate's own driver, `tokio_postgres` (feature `tokio-postgres-0_7`). Keep the value until the
/// transaction has ended.
///
/// # Errors
///
/// [`CheckError::NotHeld`] if the lock is not held any more, [`CheckError::OtherStore`] if it is in
/// a store of another kind, [`CheckError::Database`] if there was no answer. Roll back in any case.
///
/// # Cancel safety
///
/// Dropped, the statement has run or not: drop the transaction, too.
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
/// distlock::postgres::unlock(&release, &transaction).await?; // or it is rolled back
/// transaction.commit().await?; // with it the lock is released
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

/// The SQL that makes distlock's tables, in a schema of their own, `distlock`. It does nothing if
/// they are there.
///
/// A client makes them at its first use, if its user may. Where it may not, run this as one who
/// may, and then let the client's user work with them:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app;
/// GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA distlock TO app;
/// GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA distlock TO app;
/// ```
///
/// A role that only runs the [`check`] of a lock locks rows, for which PostgreSQL requires the
/// right to update at least one column of each table:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO checker;
/// GRANT EXECUTE ON FUNCTION distlock.held(text, bigint) TO checker;
/// GRANT SELECT, UPDATE (ttl) ON distlock.sessions TO checker;
/// GRANT SELECT, UPDATE (since) ON distlock.queues, distlock.entries TO checker;
/// ```
///
/// A role that only [releases](crate::LockGuard::unlock_sql) a lock in its transactions, which may
/// notify waiters:
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
/// **Tables of version 1**, which builds before 0.2 have made, are taken over by this SQL or by the
/// first client that owns them. From then on every request of a client of the former version fails,
/// and nothing is granted for 1.1 times the longest TTL of their sessions. Grant the rights again
/// afterwards.
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
