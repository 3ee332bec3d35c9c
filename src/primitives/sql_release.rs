//! The statement that releases a lock in a transaction of the user's own.

use super::{
    guard::LockGuard,
    sql_check::{CheckError, Purpose, SqlCheck, SqlDialect, SqlParameter},
};
use crate::{
    error::{Error, Result},
    lost::LostReason,
    queue::deferred_release::DeferredRelease,
    store_kind::StoreKind,
};

/// Holds a statement that releases a lock in your own transaction.
///
/// Created by [`LockGuard::unlock_sql`].
///
/// Keep this value until the transaction has ended. Once it is dropped, the client releases the
/// lock in the background, whatever the outcome of the transaction.
#[derive(Debug)]
#[must_use = "dropping this releases the lock in the background, even before your transaction has \
              ended"]
pub struct SqlRelease {
    statement: SqlCheck,
    name: String,
    store: StoreKind,
    release: Option<DeferredRelease>,
}

impl SqlRelease {
    /// Returns the dialect of the statement.
    #[must_use]
    pub fn dialect(&self) -> SqlDialect {
        self.statement.dialect()
    }

    /// Returns the statement, which affects one row if it releases the lock.
    ///
    /// The statement affects no row if the lock is no longer held. On PostgreSQL, the statement is
    /// a `SELECT`, which returns one row if it releases the lock. On SQLite, the statement is a
    /// `DELETE`; on MySQL, it is an `UPDATE` or a `DELETE`.
    ///
    /// On PostgreSQL and SQLite the text is the same for all guards, so it can be prepared once. On
    /// MySQL the text contains the values.
    #[must_use]
    pub fn text(&self) -> &str {
        self.statement.text()
    }

    /// Returns the parameters, in the order in which they appear in the text.
    ///
    /// PostgreSQL has a text and a number, SQLite has two numbers, and MySQL has none.
    #[must_use]
    pub fn parameters(&self) -> &[SqlParameter] {
        self.statement.parameters()
    }

    /// Ends the release without a request to the store.
    ///
    /// Call this method only if the statement has affected a row and the database has confirmed the
    /// commit.
    ///
    /// The call saves one request, and has no other purpose. If you are not certain of either
    /// condition, drop the value instead. **After a wrong call, the lock may stay held until the
    /// client's session ends.**
    ///
    /// # Examples
    ///
    /// See [`LockGuard::unlock_sql`].
    pub fn committed(mut self) {
        if let Some(release) = self.release.take() {
            release.was_made();
        }
    }

    #[allow(dead_code)] // Unused without a third-party driver.
    pub(crate) fn statement(&self) -> &SqlCheck {
        &self.statement
    }

    /// Returns an error if the release belongs to another kind of store.
    #[allow(dead_code)] // Unused without a driver.
    pub(crate) fn of<E>(&self, asked: SqlDialect) -> std::result::Result<&Self, CheckError<E>> {
        if self.dialect() == asked {
            return Ok(self);
        }
        Err(CheckError::OtherStore { name: self.name.clone(), store: self.store, asked })
    }

    /// Turns the number of affected rows into a result.
    #[allow(dead_code)] // Unused without a driver.
    pub(crate) fn confirmed<E>(
        &self,
        rows: std::result::Result<u64, E>,
    ) -> std::result::Result<(), CheckError<E>> {
        match rows {
            Ok(0) => Err(CheckError::NotHeld { name: self.name.clone() }),
            Ok(_) => Ok(()),
            Err(error) => Err(CheckError::Database(error)),
        }
    }
}

impl LockGuard {
    /// Returns the statement with which your own transaction releases the lock.
    ///
    /// Run the statement as the **last statement** of the transaction, in the same database and
    /// with any driver. The release then needs no flush of its own, and no other client is granted
    /// the lock before your writes are committed.
    ///
    /// **If the statement affects a row**, the lock was held until then, even if this process
    /// considers it lost: commit. **If it affects no row**, roll back. An operator has evicted the
    /// holder, the session has ended and its key was removed, or the client has already released
    /// the lock, so another client may hold it. Also roll back if the statement fails.
    ///
    /// The affected row is sufficient proof, and does not depend on a clock. The statement keeps
    /// every other client of the same server or file from deleting the key until your transaction
    /// ends. This is not tested on a Galera cluster.
    ///
    /// The call consumes the guard: the guard and its handles are invalid before the call returns.
    /// The key stays in the store until your transaction or the client deletes it. The client
    /// deletes the key in the background **only once the value is dropped**, once the lock's
    /// [`max_hold`](crate::Mutex::max_hold) has passed, or when its session ends, for example
    /// because you close the client. If the client deleted the key earlier, your statement would
    /// find nothing to delete. Keep the value until the transaction has ended, and then drop it,
    /// whatever the outcome:
    ///
    /// - After a commit, nothing is left to release. [`committed`](SqlRelease::committed) saves the
    ///   client the request that would confirm this.
    /// - After a rollback, or if the statement never ran, the client releases the lock.
    /// - If the reply to the commit was lost, the client's release waits until the server has ended
    ///   the transaction.
    ///
    /// Dropping the value during the transaction does no harm as long as you check the number of
    /// rows.
    ///
    /// - Waiters are notified when the transaction commits. Where waiters poll, such as on MySQL
    ///   and SQLite, they find the lock free at their next poll. A waiter of the same client waits
    ///   until the value is dropped, or until its next recheck.
    /// - On PostgreSQL and MySQL, the statement can keep other clients from joining the queue until
    ///   the commit, so run it last.
    /// - At an isolation level above `READ COMMITTED`, the statement may be refused (40001,
    ///   MariaDB's 1020): roll back and begin again.
    /// - With a [check](Self::sql) as the first statement, a transaction without the lock ends
    ///   before it does any work.
    /// - On PostgreSQL, run the statement outside of savepoints, because `ROLLBACK TO SAVEPOINT`
    ///   undoes it. If other clients may be waiting, the statement turns `synchronous_commit = off`
    ///   into `on` for the transaction.
    /// - On SQLite, begin with `BEGIN IMMEDIATE`. As for the [check](Self::sql), the `synchronous`
    ///   setting of your connection determines what survives a power failure.
    ///
    /// Only the guard of a [`Mutex`](crate::Mutex) can be released in this way: check every other
    /// guard with [`sql`](Self::sql), and release it after the commit.
    ///
    /// With the drivers that distlock uses itself, `postgres::unlock`, `mysql::unlock` and
    /// `sqlite::unlock` run the statement and check the number of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock had already been lost. Another client may hold it.
    /// [`Error::Unsupported`] if the store is not an SQL database. In both cases the guard is
    /// dropped.
    ///
    /// # Examples
    ///
    /// The modules of the features `sqlx-0_9` and `diesel-2` run the statement with one call. With
    /// sqlx 0.8:
    ///
    /// ```text
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("UPDATE …").execute(&mut *transaction).await?;
    /// let release = guard.unlock_sql()?;
    /// let mut query = sqlx::query(release.text());
    /// for parameter in release.parameters() {
    ///     query = match parameter {
    ///         SqlParameter::Text(text) => query.bind(text),
    ///         SqlParameter::Integer(number) => query.bind(number),
    ///         _ => unreachable!("no other kinds exist"),
    ///     };
    /// }
    /// if query.execute(&mut *transaction).await?.rows_affected() == 0 {
    ///     return transaction.rollback().await; // the lock is lost
    /// }
    /// transaction.commit().await?;
    /// release.committed();
    /// ```
    ///
    /// ```
    /// # use distlock::{Client, Error};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> distlock::Result<()> {
    /// let client = Client::connect("memory://docs-unlock-sql").await?;
    /// let guard = client.mutex("a").lock().await?;
    /// let refused = guard.unlock_sql();
    /// assert!(matches!(refused, Err(Error::Unsupported { .. })), "memory has no tables");
    /// # Ok(()) }
    /// ```
    pub fn unlock_sql(self) -> Result<SqlRelease> {
        let store = self.held.session.shared.backend.kind();
        let Some(statement) = self.statement(Purpose::Release) else {
            return Err(Error::Unsupported { backend: store, operation: "SQL transactions" });
        };
        if let Some(reason) = self.lost_reason() {
            return Err(self.lost_error(reason));
        }
        let release = self.give_up().and_then(|attempt| attempt.defer_release());
        if release.is_none() {
            return Err(self.lost_error(LostReason::Released));
        }
        Ok(SqlRelease { statement, name: self.name().to_owned(), store, release })
    }
}
