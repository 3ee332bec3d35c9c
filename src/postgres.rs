//! For those who look after a PostgreSQL server, or write to it themselves: the tables that the
//! locks are kept in, and the condition that a transaction of their own needs.

use crate::{
    backend::postgres::schema::{DDL, HELD},
    primitives::guard::LockGuard,
};

/// A query that returns a row while the lock is held, whatever this process knows of it, and its
/// two parameters, a `text` and a `bigint`. `None` for a guard of another store.
///
/// Asked at the beginning of a transaction in the same database, it keeps the lock from being
/// given to another one until that transaction ends: so if there is a row, what the transaction
/// writes is written under the lock. Without a row, roll back. Any driver will do.
///
/// A transaction that takes longer than the session lives keeps the next holder waiting.
///
/// With [`local_handover`](crate::Builder::local_handover) all guards of one client's have the same
/// entry, so that it holds for the next one's as well: only the token tells them apart.
///
/// # Examples
///
/// ```no_run
/// # async fn example(guard: &distlock::LockGuard, mut database: tokio_postgres::Client)
/// # -> Result<(), tokio_postgres::Error> {
/// let (sql, queue, number) = distlock::postgres::check(guard).expect("a guard of PostgreSQL's");
/// let transaction = database.transaction().await?;
/// let held = transaction.query_opt(sql, &[&queue, &number]).await?.is_some();
/// assert!(held, "the lock is lost, and nothing was written");
/// transaction.execute("UPDATE account SET balance = balance - 10 WHERE id = 1", &[]).await?;
/// transaction.commit().await
/// # }
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<(&'static str, &str, i64)> {
    let entry = guard.entry_in("PostgreSQL")?;
    let (queue, _) = entry.key.rsplit_once('/')?;
    Some((HELD, queue, i64::try_from(entry.revision).ok()?))
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
