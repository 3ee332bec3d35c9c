//! The release of a lock by a transaction of the user's own.

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

/// A statement that releases a lock, for a transaction of one's own: from
/// [`LockGuard::unlock_sql`].
///
/// Keep it until the transaction has ended. Once it is dropped, the client releases the lock in the
/// background, whatever has become of the transaction.
#[derive(Debug)]
#[must_use = "dropped, it releases the lock in the background before your transaction does"]
pub struct SqlRelease {
    statement: SqlCheck,
    name: String,
    store: StoreKind,
    release: Option<DeferredRelease>,
}

impl SqlRelease {
    /// Whose SQL it is.
    #[must_use]
    pub fn dialect(&self) -> SqlDialect {
        self.statement.dialect()
    }

    /// One statement that affects one row if it releases the lock, and none if the lock is not held
    /// any more. On PostgreSQL it is a `SELECT`, which returns that row; on SQLite a `DELETE`; on
    /// MySQL either an `UPDATE` or a `DELETE`.
    ///
    /// On PostgreSQL and SQLite it is the same for all guards, so that it may be prepared once. On
    /// MySQL what it deletes is written into it.
    #[must_use]
    pub fn text(&self) -> &str {
        self.statement.text()
    }

    /// What belongs in the places of the text, in their order: on PostgreSQL a text and a number,
    /// on SQLite two numbers, on MySQL nothing.
    #[must_use]
    pub fn parameters(&self) -> &[SqlParameter] {
        self.statement.parameters()
    }

    /// Ends the release without a request to the store: the statement has affected a row, and the
    /// database has confirmed the commit.
    ///
    /// It saves the client a request, and nothing depends on it. Call it only when you know both.
    /// Otherwise drop the value: **after a call that was wrong the lock stays taken until the
    /// client's session ends**.
    ///
    /// # Examples
    ///
    /// As of [`LockGuard::unlock_sql`].
    pub fn committed(mut self) {
        if let Some(release) = self.release.take() {
            release.was_made();
        }
    }

    #[allow(dead_code)] // Without a driver of others.
    pub(crate) fn statement(&self) -> &SqlCheck {
        &self.statement
    }

    /// What a door needs: an error if it is not this database's.
    #[allow(dead_code)] // Without a driver.
    pub(crate) fn of<E>(&self, asked: SqlDialect) -> std::result::Result<&Self, CheckError<E>> {
        if self.dialect() == asked {
            return Ok(self);
        }
        Err(CheckError::OtherStore { name: self.name.clone(), store: self.store, asked })
    }

    /// What the number of rows means.
    #[allow(dead_code)] // Without a driver.
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
    /// Releases the lock by a transaction of your own, in the same database and with any driver:
    /// what is returned is the **last statement** of that transaction. The release then costs no
    /// request and no flush of its own, and no other client is granted the lock before your writes
    /// are committed.
    ///
    /// **If the statement affects a row**, the lock was held until then, whatever this process
    /// knows of it: commit. **If it affects none**, or fails, roll back: somebody has deleted the
    /// key, or the session is over and its key was removed, and another client may hold the lock.
    /// The row is the proof, and it needs no clock: a client is granted the lock only once the key
    /// of the one before is deleted, and the statement keeps it from being deleted by anybody else
    /// until your transaction ends.
    ///
    /// The guard is consumed: it and its handles are invalid before the statement is handed out.
    /// The key in the store stays until it is deleted, by your transaction or by the client. The
    /// client does it in the background **once the value is dropped, and not before**: a release
    /// that came first would leave your statement nothing to delete. So hold it until the
    /// transaction has ended, and drop it then, whatever has become of it:
    ///
    /// - it was committed: nothing is left to release. [`committed`](SqlRelease::committed) saves
    ///   the client a request that shows it;
    /// - it was rolled back, or the statement was never run: the client releases the lock;
    /// - the reply to the commit was lost: the client's release waits until the server has ended
    ///   the transaction, one way or the other.
    ///
    /// A value that is dropped in the midst of the transaction does no harm, if you look at the
    /// number of rows. It also ends when the [`max_hold`](crate::Mutex::max_hold) of the lock is
    /// over.
    ///
    /// - Waiters are notified at the commit, except by MySQL and SQLite, where they look. One of
    ///   this same client waits until the value is dropped.
    /// - Let it be the last statement: on PostgreSQL and MySQL it keeps others from joining the
    ///   queue, or from leaving it, until the commit. With more than `READ COMMITTED` it may be
    ///   refused (40001, MariaDB's 1020): roll back and begin again. To write under the lock only,
    ///   the number of rows is enough; a [check](Self::sql) as the first statement spares you the
    ///   work in between.
    /// - On PostgreSQL run it outside of savepoints, or `ROLLBACK TO SAVEPOINT` takes it back. It
    ///   turns `synchronous_commit = off` into `on` for the transaction if others may be waiting.
    /// - On SQLite begin by `BEGIN IMMEDIATE`. As for the [check](Self::sql), `synchronous` of your
    ///   connection decides what outlasts a loss of power.
    ///
    /// With the driver that distlock has itself, `postgres::unlock`, `mysql::unlock` and
    /// `sqlite::unlock` run the statement and look at the number of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lock had been lost before: somebody else may hold it.
    /// [`Error::Unsupported`] for a guard of a store that is no SQL database. The guard is dropped
    /// in either case.
    ///
    /// # Examples
    ///
    /// With the features `sqlx-0_9` and `diesel-2` it is one call. With sqlx 0.8:
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
    ///         _ => unreachable!("there are no others so far"),
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
