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
/// in the database that the lock is in. Run the check outside of savepoints: `ROLLBACK TO
/// SAVEPOINT` releases the row locks that were taken after the savepoint, and the transaction then
/// no longer keeps the lock held.
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
    sql_check::confirmed(guard, row.map(|row| row.is_some()))
}

/// The SQL that makes distlock's tables, in a schema of their own, `distlock`.
///
/// A client makes them at its first use, if its user may. Where it may not, run this as one who
/// may, and then let the client's user work with them:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA distlock TO app;
/// GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA distlock TO app;
/// ```
///
/// A role that only runs the [`check`] of a lock locks two rows, for which PostgreSQL requires the
/// right to update at least one column of each table:
///
/// ```sql
/// GRANT USAGE ON SCHEMA distlock TO checker;
/// GRANT SELECT, UPDATE (ttl) ON distlock.sessions TO checker;
/// GRANT SELECT, UPDATE (since) ON distlock.entries TO checker;
/// ```
///
/// Earlier builds made the table `schema` without a primary key, and the function `tell` in another
/// form. The first client of this build that owns the tables changes both. Where no client owns
/// them, run `ALTER TABLE distlock.schema ADD PRIMARY KEY (version)` and the end of this SQL, from
/// `CREATE OR REPLACE FUNCTION distlock.tell` on.
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
