//! Lets a client use sqlx's pool of MySQL.

use futures_util::TryStreamExt;
use sqlx_0_9::{
    AssertSqlSafe, Either, Error, MySql, MySqlPool, Row, mysql::MySqlDatabaseError,
    mysql::MySqlRow, pool, raw_sql,
};

use crate::backend::mysql::pool::{Pool, PoolConnection, PoolError, PoolFuture, StatementResult};

/// Lends one of its connections for each request: see [`Builder::mysql_pool`].
///
/// sqlx tests a connection before and after each use, with one round trip for each test.
/// `MySqlPoolOptions::test_before_acquire(false)` saves the first one.
///
/// [`Builder::mysql_pool`]: crate::Builder::mysql_pool
impl Pool for MySqlPool {
    fn acquire(&self) -> PoolFuture<'_, Box<dyn PoolConnection>> {
        Box::pin(async {
            let connection = MySqlPool::acquire(self).await.map_err(failed)?;
            Ok(Box::new(Lent { connection, released: false }) as Box<dyn PoolConnection>)
        })
    }
}

struct Lent {
    connection: pool::PoolConnection<MySql>,
    released: bool,
}

impl PoolConnection for Lent {
    fn run<'a>(&'a mut self, statements: &'a str) -> PoolFuture<'a, Vec<StatementResult>> {
        Box::pin(async { run(&mut self.connection, statements).await.map_err(failed) })
    }

    fn release(mut self: Box<Self>) {
        self.released = true;
    }
}

impl Drop for Lent {
    /// Closes a connection that was not released. sqlx would lend it to another task, which would
    /// have to wait for the rest of the reply.
    fn drop(&mut self) {
        if !self.released {
            self.connection.close_on_drop();
        }
    }
}

/// Without parameters, sqlx sends one text. A `MySqlQueryResult` marks the end of each statement.
async fn run(
    connection: &mut pool::PoolConnection<MySql>,
    statements: &str,
) -> Result<Vec<StatementResult>, Error> {
    let (mut results, mut rows) = (Vec::new(), Vec::new());
    let mut replies = raw_sql(AssertSqlSafe(statements.to_owned())).fetch_many(&mut **connection);
    loop {
        match replies.try_next().await {
            Ok(Some(Either::Left(done))) => {
                let rows = std::mem::take(&mut rows);
                results.push(StatementResult::new(rows, done.rows_affected()));
            }
            Ok(Some(Either::Right(row))) => rows.push(texts(&row)?),
            Ok(None) => break,
            Err(error) => {
                results.push(refused(&error).ok_or(error)?);
                break;
            }
        }
    }
    Ok(results)
}

/// Returns the columns of a row. This protocol sends every type as text.
fn texts(row: &MySqlRow) -> Result<Vec<Option<String>>, Error> {
    let text = |column| {
        let bytes = row.try_get_unchecked::<Option<Vec<u8>>, usize>(column)?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    };
    (0..row.len()).map(text).collect()
}

fn reported(error: &Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// Returns the server's refusal of a statement; `None` for any other error.
fn refused(error: &Error) -> Option<StatementResult> {
    let reported = reported(error)?;
    let state = reported.code().unwrap_or_default();
    Some(StatementResult::refused(reported.number(), state, reported.message()))
}

fn failed(error: Error) -> PoolError {
    match reported(&error) {
        Some(reported) => PoolError::new(reported.message()).with_code(reported.number()),
        None if matches!(error, Error::PoolTimedOut) => PoolError::exhausted(error),
        None => PoolError::new(error),
    }
}
