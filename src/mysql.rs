//! For those who look after a MySQL or MariaDB server, or write to it themselves: the tables that
//! the locks are kept in, and the condition that a transaction of their own needs.

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

/// Asks a transaction whether the lock is held, and keeps it held until that transaction ends:
/// [`LockGuard::sql`] with this crate's own driver, `mysql_async` (feature `mysql_async-0_37`). Ask
/// before anything else, and in the database that the lock is in. On a Galera cluster it is not
/// enough: see there.
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
/// use mysql_async::{Conn, TxOpts, prelude::Queryable};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let url = "mysql://app:secret@127.0.0.1/app";
/// let mut database = Conn::from_url(url).await?;
/// let guard = distlock::Client::connect(url).await?.mutex("a").lock().await?;
///
/// let mut transaction = database.start_transaction(TxOpts::default()).await?;
/// distlock::mysql::check(&guard, &mut transaction).await?; // or it is rolled back
/// transaction.query_drop("UPDATE account SET balance = balance - 10 WHERE id = 1").await?;
/// transaction.commit().await?; // while the lock is held
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

/// Releases the lock as the last statement of a transaction: [`LockGuard::unlock_sql`] with this
/// crate's own driver, `mysql_async` (feature `mysql_async-0_37`). Keep the value until the
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
/// distlock::mysql::unlock(&release, &mut transaction).await?; // or it is rolled back
/// transaction.commit().await?; // with it the lock is released
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

/// The SQL that makes distlock's tables, in the database that is in use: several statements, whose
/// tables' names begin with `distlock_`.
///
/// A client makes them at its first use, if its user may. Where it may not, run this as one who
/// may, and then let the client's user work with them:
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
/// A user that only [releases](crate::LockGuard::unlock_sql) a lock in its transactions needs
/// `SELECT` and `UPDATE` on `distlock_alone`, and `SELECT` and `DELETE` on `distlock_entries`.
///
/// Tables of version 1 are taken over by the first client of this version whose user may `ALTER`
/// them. Clients of version 1 are refused from then on, and nothing is granted for the longest TTL
/// of theirs.
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
