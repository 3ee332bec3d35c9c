//! For those who look after a PostgreSQL server, or write to it themselves: the tables that the
//! locks are kept in, and the condition that a transaction of their own needs.

use tokio_postgres::{Error, Transaction, types::ToSql};

use crate::{
    backend::postgres::schema::DDL,
    primitives::{
        guard::LockGuard,
        sql_check::{self, CheckError, SqlDialect, SqlParameter},
    },
};

/// Asks a transaction whether the lock is held, and keeps it held until that transaction ends:
/// [`LockGuard::sql`] with this crate's own driver, `tokio_postgres`. Ask before anything else, and
/// in the database that the lock is in.
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
pub async fn check(
    guard: &LockGuard,
    transaction: &Transaction<'_>,
) -> Result<(), CheckError<Error>> {
    let check = sql_check::of(guard, SqlDialect::Postgres)?;
    let parameters = check.parameters().iter().map(|parameter| match parameter {
        SqlParameter::Text(text) => text as &(dyn ToSql + Sync),
        SqlParameter::Integer(number) => number,
    });
    let row = transaction.query_opt(check.text(), &parameters.collect::<Vec<_>>()).await;
    sql_check::told(guard, row.map(|row| row.is_some()))
}

/// The SQL that makes distlock's tables, in a schema of their own, `distlock`.
///
/// A client makes them at its first use, if its user may. Where it may not, run this as one who
/// may, and then let the client's user work with them:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app;
/// ```
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
