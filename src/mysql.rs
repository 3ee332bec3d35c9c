//! For those who look after a MySQL or MariaDB server, or write to it themselves: the tables that
//! the locks are kept in, and the condition that a transaction of their own needs.

use crate::{
    backend::mysql::{held, schema::DDL},
    primitives::guard::LockGuard,
};

/// A query that returns a row while the lock is held, whatever this process knows of it. `None` for
/// a guard of another store.
///
/// Asked at the beginning of a transaction in the same database, it keeps the lock from being
/// given to another one until that transaction ends: so if there is a row, what the transaction
/// writes is written under the lock. Without a row, roll back. Any driver will do; the text needs
/// neither parameters nor a certain character set or `sql_mode`.
///
/// A transaction that takes longer than the session lives keeps the next holder waiting. In one
/// that has read before, under `REPEATABLE READ`, MariaDB may refuse the query (error 1020): roll
/// back then, too.
///
/// With [`local_handover`](crate::Builder::local_handover) all guards of one client's have the same
/// entry, so that it holds for the next one's as well: only the token tells them apart.
///
/// # Examples
///
/// With `mysql_async` 0.37:
///
/// ```text
/// let sql = distlock::mysql::check(&guard).expect("a guard of MySQL's");
/// let mut transaction = connection.start_transaction(TxOpts::default()).await?;
/// let held: Option<u8> = transaction.query_first(sql).await?;
/// assert!(held.is_some(), "the lock is lost, and nothing was written");
/// transaction.query_drop("UPDATE account SET balance = balance - 10 WHERE id = 1").await?;
/// transaction.commit().await?;
/// ```
#[must_use]
pub fn check(guard: &LockGuard) -> Option<String> {
    held(guard.entry_in("MySQL")?)
}

/// The SQL that makes distlock's tables, in the database that is in use: several statements, whose
/// tables' names begin with `distlock_`.
///
/// A client makes them at its first use, if its user may. Where it may not, run this as one who
/// may, and then let the client's user work with them:
///
/// ```sql
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_sessions TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_queues TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_entries TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_data TO app;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON app.distlock_schema TO app;
/// ```
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
